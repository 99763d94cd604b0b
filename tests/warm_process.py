"""The command `treadle` in processes of its own, forked from one that has imported it.

To import takes longer than most commands work. A process forked behind the imports has its own
memory, folder, environment and descriptors, ends as any other, and can be killed. What is shown
about the start itself, or about an interpreter with other settings, needs `python -m treadle`.
"""

from __future__ import annotations

import io
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from msgspec import Struct

_PIECE_SIZE: Final = 64 * 1024
_ANSWER_SIZE_MAX: Final = 64
_OF_THE_START: Final = ("PYTHON", "LC_", "LANG", "LD_", "LOCPATH")
"""Variables that begin so are read by the interpreter when it starts."""

_SERVER: Final = r"""
import gc, importlib, json, os, pkgutil, runpy, socket, sys
sys.path.pop(0)
import treadle
for room in ("app", "cli", "config", "core", "exchange", "models", "runtime", "secrets", "store",
             "sync", "thread", "tools", "workspace"):
    package = importlib.import_module("treadle." + room)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if ".project" not in module.name:
            importlib.import_module(module.name)
import platformdirs
gc.collect()
gc.freeze()
listener = socket.socket(fileno=int(sys.argv[1]))
while True:
    data, handles, _, _ = socket.recv_fds(listener, 1024 * 1024, 3)
    if not data:
        os._exit(0)
    child = os.fork()
    if child:
        for handle in handles:
            os.close(handle)
        listener.send(str(child).encode())
        _, status = os.waitpid(child, 0)
        listener.send(str(os.waitstatus_to_exitcode(status)).encode())
        continue
    listener.close()
    order = json.loads(data)
    for number, handle in enumerate(handles):
        os.dup2(handle, number)
        os.close(handle)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    sys.path.insert(0, order["folder"])
    sys.argv[1:] = order["arguments"]
    break
del listener, data, handles, child, order
runpy.run_module("treadle", run_name="__main__", alter_sys=True)
"""


class _Warm(Struct):
    process: subprocess.Popen[bytes]
    line: socket.socket


_warm: list[_Warm] = []


def _connect() -> socket.socket:
    """The line to this process's own server, which ends when its last end is closed."""
    if not _warm:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        with far:
            process = subprocess.Popen(
                [sys.executable, "-c", _SERVER, str(far.fileno())],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[far.fileno()],
            )
        _warm.append(_Warm(process, near))
    return _warm[0].line


def can_be_forked(environment: Mapping[str, str]) -> bool:
    """Whether an interpreter that was started with this environment would be as the one here."""
    changed = {name for name, value in environment.items() if os.environ.get(name) != value}
    return not any(name.startswith(_OF_THE_START) for name in changed - {"LC_ALL"})


def run(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    stdin: str | None,
    timeout_s: float,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as `subprocess.run` does.

    Raises:
        subprocess.TimeoutExpired: it was not done in time, and has been killed.
    """
    order = {
        "arguments": list(arguments),
        "folder": str(folder),
        "environment": dict(environment),
    }
    line = _connect()
    with TemporaryFile() as given, ExitStack() as ends:
        given.write((stdin or "").encode())
        given.seek(0)
        pipes = [os.pipe() for _ in range(2)]
        readers = [ends.enter_context(os.fdopen(reader, "rb")) for reader, _ in pipes]
        handles = [given.fileno(), *(writer for _, writer in pipes)]
        socket.send_fds(line, [json.dumps(order).encode()], handles)
        for _, writer in pipes:
            os.close(writer)
        pid = int(line.recv(_ANSWER_SIZE_MAX))
        outputs = _read_all(readers, timeout_s)
        if outputs is None:
            os.kill(pid, signal.SIGKILL)
        status = int(line.recv(_ANSWER_SIZE_MAX))
    if outputs is None:
        raise subprocess.TimeoutExpired(list(arguments), timeout_s)
    out, err = (io.TextIOWrapper(io.BytesIO(data)).read() for data in outputs)
    return subprocess.CompletedProcess(list(arguments), status, out, err)


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
