"""The command `treadle` in processes of its own, forked from one that has imported it.

To import takes longer than most commands work. A process forked behind the imports has its own
memory, folder, environment and descriptors, and can be killed. It ends with its threads joined and
its output written, but does not take all modules apart, which takes as long as a short command.
What is shown about the start itself, or about an interpreter with other settings, needs
`python -m treadle`. A command with `LD_PRELOAD` is forked from one that was started with it; if
that is the shim of the lab, it is told when the command begins and ends.
"""

from __future__ import annotations

import io
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from msgspec import Struct

_PIECE_SIZE: Final = 64 * 1024
_OF_THE_START: Final = ("PYTHON", "LC_", "LANG", "LD_", "LOCPATH", "TZ")
"""Variables that begin so are read by the interpreter when it starts."""

_SERVER: Final = r"""
import atexit, ctypes, fcntl, gc, importlib, json, os, pkgutil, runpy, select, socket, sys, termios
import threading
sys.path.pop(0)
shim = ctypes.CDLL(os.environ["LD_PRELOAD"]) if "LD_PRELOAD" in os.environ else None
import treadle
for room in ("acp", "app", "cli", "config", "core", "exchange", "models", "runtime", "secrets",
             "server", "store", "sync", "terminal", "thread", "tools", "workspace"):
    package = importlib.import_module("treadle." + room)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if ".project" not in module.name and ".migrations." not in module.name:
            importlib.import_module(module.name)
import platformdirs, uuid_utils
from treadle.sandbox.detect import find_backend
find_backend()  # what holds commands on this machine: each process would try it anew
gc.collect()
gc.freeze()
listener = socket.socket(fileno=int(sys.argv[1]))
ready = select.poll()
ready.register(listener, select.POLLIN)
children = {}
order = None
while order is None:
    for place, _ in ready.poll():
        if place != listener.fileno():
            child, report = children.pop(place)
            ready.unregister(place)
            os.close(place)
            _, status = os.waitpid(child, 0)
            os.write(report, b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(report)
            continue
        data, handles, _, _ = socket.recv_fds(listener, 1024 * 1024, 4)
        if not data:
            os._exit(0)
        child = os.fork()
        if child:
            *handles, report = handles
            for handle in handles:
                os.close(handle)
            place = os.pidfd_open(child)
            children[place] = child, report
            ready.register(place, select.POLLIN)
            continue
        order = json.loads(data)
        break
for place, (_, report) in children.items():
    os.close(place)
    os.close(report)
listener.close()
*handles, report = handles
for number, handle in enumerate(handles):
    os.dup2(handle, number)
    os.close(handle)
if order["is_leader"]:
    os.setsid()
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.write(report, b"%d\n" % os.getpid())
os.close(report)
os.environ.clear()
os.environ.update(order["environment"])
os.chdir(order["folder"])
sys.path.insert(0, order["folder"])
sys.argv[1:] = order["arguments"]
for name, value in order["constants"].items():
    module, _, constant = name.rpartition(".")
    assert type(getattr(sys.modules[module], constant)) is type(value), name
    setattr(sys.modules[module], constant, value)
del ready, children, listener, data, handles, child, report, place, order
if shim:
    shim.crash_begin()
code = 0
try:
    runpy.run_module("treadle", run_name="__main__", alter_sys=True)
except SystemExit as end:
    code = end.code
if code is None or isinstance(code, int):
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if shim:
        shim.crash_end()
    os._exit((code or 0) & 255)
sys.exit(code)
"""


class _Warm(Struct):
    process: subprocess.Popen[bytes]
    line: socket.socket


_warm: dict[str, _Warm] = {}


def _connect(preloaded: str) -> socket.socket:
    """The line to this process's own server, which ends when its last end is closed."""
    if preloaded not in _warm:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        environment |= {"LD_PRELOAD": preloaded} if preloaded else {}
        with far:
            process = subprocess.Popen(
                [sys.executable, "-c", _SERVER, str(far.fileno())],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[far.fileno()],
            )
        _warm[preloaded] = _Warm(process, near)
    return _warm[preloaded].line


def stop() -> None:
    """End this process's own server."""
    while _warm:
        _, warm = _warm.popitem()
        warm.line.close()
        warm.process.wait()


def can_be_forked(environment: Mapping[str, str]) -> bool:
    """Whether an interpreter that was started with this environment would be as the one here."""
    changed = {name for name, value in environment.items() if os.environ.get(name) != value}
    return not any(name.startswith(_OF_THE_START) for name in changed - {"LC_ALL"})


class WarmProcess:
    """A command that runs: what `subprocess.Popen` has of one, as far as tests need it."""

    def __init__(self, pid: int, report: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._report = report

    def poll(self) -> int | None:
        """The exit code, or minus the signal; `None` while it runs."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return as `poll`.

        Raises:
            subprocess.TimeoutExpired: it still runs after so many seconds.
        """
        if self.returncode is None:
            if not select.select([self._report], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("treadle", timeout or 0.0)
            self.returncode = _read_number(self._report)
            os.close(self._report)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


def start(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    handles: tuple[int, int, int],
    *,
    is_leader: bool = False,
    constants: Mapping[str, float] | None = None,
) -> WarmProcess:
    """Start a command.

    Args:
        arguments: those of `treadle`.
        folder: where it runs.
        environment: all of its environment.
        handles: its standard input, output and error.
        is_leader: whether it leads a session of its own, on the terminal that its input is, if so.
        constants: of modules, by their full names, with values that are others in this process.
    """
    order = {
        "arguments": list(arguments),
        "folder": str(folder),
        "environment": dict(environment),
        "is_leader": is_leader,
        "constants": dict(constants or {}),
    }
    near, far = os.pipe()
    try:
        line = _connect(environment.get("LD_PRELOAD", ""))
        socket.send_fds(line, [json.dumps(order).encode()], [*handles, far])
    finally:
        os.close(far)
    return WarmProcess(_read_number(near), near)


def _read_number(pipe: int) -> int:
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(pipe, 1)
        assert piece, "the process that commands are forked from has ended"
        line += piece
    return int(line)


def run(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    stdin: str | None,
    timeout_s: float,
    constants: Mapping[str, float] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as `subprocess.run` does.

    Raises:
        subprocess.TimeoutExpired: it was not done in time, and has been killed.
    """
    with TemporaryFile() as given, ExitStack() as ends:
        given.write((stdin or "").encode())
        given.seek(0)
        pipes = [os.pipe() for _ in range(2)]
        readers = [ends.enter_context(os.fdopen(reader, "rb")) for reader, _ in pipes]
        out, err = (writer for _, writer in pipes)
        handles = (given.fileno(), out, err)
        process = start(arguments, folder, environment, handles, constants=constants)
        for _, writer in pipes:
            os.close(writer)
        outputs = _read_all(readers, timeout_s)
        if outputs is None:
            process.kill()
        status = process.wait()
    if outputs is None:
        raise subprocess.TimeoutExpired(list(arguments), timeout_s)
    texts = [io.TextIOWrapper(io.BytesIO(data)).read() for data in outputs]
    return subprocess.CompletedProcess(list(arguments), status, *texts)


def _read_all(readers: Sequence[IO[bytes]], timeout_s: float) -> list[bytes] | None:
    """What is written until nobody can write more; `None` if that takes too long."""
    until_s = time.monotonic() + timeout_s
    outputs = dict.fromkeys(readers, b"")
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(reader, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, until_s - time.monotonic()))
            if not ready:
                return None
            for key, _ in ready:
                data = os.read(key.fd, _PIECE_SIZE)
                outputs[readers[readers.index(key.fileobj)]] += data  # type: ignore[arg-type]
                if not data:
                    selector.unregister(key.fileobj)
    return list(outputs.values())
