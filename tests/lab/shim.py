"""The crash shim (`crash.c`), compiled, and a program started under it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

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


def start(library: Path, arguments: Sequence[str], stdin: str = "") -> Any:
    """Run `python -m lab.driver` under the shim to its end; gives its standard output."""
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(sysconfig.get_path("purelib"))]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "lab.driver", *arguments],
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=3_000,
    )
    if done.returncode:
        raise AssertionError(f"the driver failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout
