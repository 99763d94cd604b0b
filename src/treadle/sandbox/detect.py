"""Which sandbox really works here: found by starting one, once per process."""

from __future__ import annotations

import os
import re
import stat
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Final

from treadle.process.command import run_command
from treadle.process.result import Bounds
from treadle.sandbox import landlock, seccomp
from treadle.sandbox.bubblewrap import Mounts
from treadle.sandbox.folders import EMPTY, SCRATCH, existing, toolchains_of
from treadle.sandbox.launch import Backend, Order, Prepared

BACKENDS: Final = ("bubblewrap", "landlock")
FOLDERS: Final = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
"""Where bubblewrap is looked for; `PATH` may name folders that a command could change."""
PROBE_S_MAX: Final = 10.0

_lock: Final = threading.Lock()


def find_backend(among: tuple[str, ...] = BACKENDS) -> Backend:
    """The first of these that works; without a name if none does."""
    with _lock:
        return _find_backend(among)


@cache
def _find_backend(among: tuple[str, ...]) -> Backend:
    if sys.platform != "linux":
        return Backend(why_not="there is a sandbox on Linux only")
    if os.uname().machine not in seccomp.MACHINES:
        return Backend(why_not=f"there is no filter for system calls of {os.uname().machine}")
    reasons: list[str] = []
    for name in among:
        found = _find_bubblewrap() if name == "bubblewrap" else _find_landlock()
        if found.name:
            return Backend(found.name, found.program, found.version, "; ".join(reasons))
        reasons.append(found.why_not)
    return Backend(why_not="; ".join(reasons))


def _find_bubblewrap() -> Backend:
    program = find_program()
    if program is None:
        return Backend(why_not="bubblewrap is not installed")
    version = _version(program)
    why_not = _probe(Backend("bubblewrap", program, version))
    if why_not:
        return Backend(why_not=f"bubblewrap cannot start a sandbox here ({why_not})")
    return Backend("bubblewrap", program, version)


def find_program() -> str | None:
    """Bubblewrap, where the system keeps its programs, and changeable by root only."""
    for folder in FOLDERS:
        path = Path(folder, "bwrap")
        try:
            found = path.stat()
        except OSError:
            continue
        is_safe = found.st_uid == 0 and not found.st_mode & 0o022
        if is_safe and stat.S_ISREG(found.st_mode) and os.access(path, os.X_OK):
            return str(path)
    return None


def _find_landlock() -> Backend:
    version = landlock.abi()
    if version < landlock.ABI_MIN:
        has = f"has version {version} of Landlock" if version else "has no Landlock"
        return Backend(why_not=f"the kernel {has}, and {landlock.ABI_MIN} is needed")
    why_not = _probe(Backend("landlock", "", (version,)))
    if why_not:
        return Backend(why_not=f"Landlock does not work here ({why_not})")
    return Backend("landlock", "", (version,))


def _version(program: str) -> tuple[int, ...]:
    try:
        ran = run_command([program, "--version"], {}, Bounds(PROBE_S_MAX))
    except OSError:
        return ()
    return () if ran.problem else tuple(map(int, re.findall(rb"\d+", ran.out)[:3]))


def _probe(backend: Backend) -> str:
    """Why no command can be started with it; empty if one can."""
    mounts = Mounts(
        scratch=existing(SCRATCH), empty=existing(EMPTY), readable=toolchains_of({}, ())
    )
    prepared = Prepared(backend, mounts, Order(("/bin/sh", "-c", "exit 7"), {}, "/"))
    try:
        ran = run_command(
            prepared.argv, prepared.env, Bounds(PROBE_S_MAX), pass_fds=prepared.pass_fds
        )
        report = prepared.report()
    except OSError as error:
        return str(error)
    finally:
        prepared.close()
    if ran.problem:
        return f"it {ran.problem}"
    if report.code == 7:
        return ""
    said = " ".join(ran.err.decode(errors="replace").split())[-200:]
    return report.failed or said or f"exit code {ran.status}"
