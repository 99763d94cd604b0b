"""The crash shim (`crash.c`), compiled, and the program that runs under it."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from msgspec import Struct

HERE: Final = Path(__file__).parent
SHORT: Final = -1
"""Not an error: the call writes half of what it was given and says so."""

MODES: Final = {"never": 0, "before": 1, "after": 2, "torn": 3}


class Arming(Struct, frozen=True):
    """At which call, counted from 1, what happens.

    `at` and `mode`: the process is killed. `fail_at`: this call fails with `number`; `fail_from`:
    so do it and all that follow.
    """

    at: int = 0
    mode: str = "never"
    fail_at: int = 0
    fail_from: int = 0
    number: int = 0


class Shim:
    """The shim of this process. It must have been preloaded."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ["LD_PRELOAD"])
        self._library.crash_kinds.restype = ctypes.c_char_p
        self._library.crash_failures.restype = ctypes.c_long
        self.is_failing = False

    def arm(self, folder: str, arming: Arming) -> None:
        """Count from here on, below this folder."""
        self.is_failing = bool(arming.number)
        self._library.crash_arm(
            folder.encode(),
            ctypes.c_long(arming.at),
            MODES[arming.mode],
            ctypes.c_long(arming.fail_at),
            ctypes.c_long(arming.fail_from),
            arming.number,
        )

    def disarm(self) -> None:
        """Let everything pass uncounted."""
        self.arm("", Arming())

    def stop_failing(self) -> None:
        """The cause of the errors ends."""
        self.is_failing = False
        self._library.crash_stop_failing()

    @property
    def kinds(self) -> str:
        """The calls since `arm`, a letter each (see `crash.c`)."""
        kinds: bytes = self._library.crash_kinds()
        return kinds.decode()

    @property
    def failures(self) -> int:
        """How many calls were let fail."""
        failures: int = self._library.crash_failures()
        return failures

    def trace(self, handle: int) -> None:
        """Write every call down, in order, with the notes among them."""
        self._library.crash_trace(handle)

    def note(self, data: bytes) -> None:
        """Put a line into the trace."""
        self._library.crash_note(data, ctypes.c_size_t(len(data)))


def compiler() -> str | None:
    """The C compiler of this machine, if it has one."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def compile_shim(folder: Path) -> Path:
    """The shim as a library in this folder."""
    library = folder / "crash.so"
    command = [str(compiler()), "-O2", "-shared", "-fPIC", "-o", str(library)]
    subprocess.run([*command, str(HERE / "crash.c"), "-ldl"], check=True)
    return library


class DriverProcess:
    """`python -m lab.driver` under the shim, started when something is first asked of it.

    It forks a process for each task, so that it imports everything once for all tests.
    """

    def __init__(self, library: Path) -> None:
        self._library = library
        self._process: subprocess.Popen[bytes] | None = None
        self._mounts = ""
        self._said: IO[bytes] | None = None

    def ask(self, task: bytes) -> bytes:
        """What it answers to a task; both are a line of JSON.

        Raises:
            AssertionError: it failed.
        """
        mounts = str(Path("/proc/self/ns/mnt").readlink())
        if mounts != self._mounts:  # it would not see what this process mounts
            self.close()
        process = self._process or self._start()
        self._mounts = mounts
        assert process.stdin is not None
        assert process.stdout is not None
        answer = b""
        try:
            process.stdin.write(task + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        finally:
            if answer in (b"", b"\n"):  # nobody may take this for the answer to the next task
                said = self.close()
        if not answer.strip():
            raise AssertionError(f"the driver failed:\n{said[-4000:]}")
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "LD_PRELOAD": str(self._library),
            "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(sysconfig.get_path("purelib"))]),
        }
        self._said = TemporaryFile()  # noqa: SIM115  closed in `close`
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lab.driver"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,
        )
        return self._process

    def close(self) -> str:
        """End it, with all that it has forked; what it has said besides its answers."""
        process, said = self._process, self._said
        if process is None or said is None:
            return ""
        self._process = self._said = None
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        with said:
            said.seek(0)
            return said.read().decode(errors="replace")
