"""Which sandbox really works here: found by starting one, once per process."""

from __future__ import annotations

import os
import re
import stat
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from treadle.process.command import run_command
from treadle.process.result import Bounds
from treadle.sandbox import landlock, seatbelt, seccomp
from treadle.sandbox.bubblewrap import Mounts
from treadle.sandbox.folders import EMPTY, SCRATCH, existing, toolchains_of
from treadle.sandbox.launch import Backend, Order, Prepared
from treadle.scratch_folders import scratch_folder

BACKENDS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "linux": ("bubblewrap", "landlock"),
    "darwin": ("seatbelt",),
}
"""What may hold commands on each system, as `sys.platform` names it; the first that works."""
BACKENDS: Final = BACKENDS_OF.get(sys.platform, ())
FOLDERS: Final = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
"""Where bubblewrap is looked for; `PATH` may name folders that a command could change."""
PROBE_S_MAX: Final = 10.0

_TRY_TO_START: Final = ("/bin/sh", "-c", "exit 7")
_TRY_HIDDEN: Final = (
    *("/bin/sh", "-c"),
    'p() { echo "$1" >&2; exit 8; }; (read -r a <"$0") 2>/dev/null && p "it was read"; '
    '(: >>"$0") 2>/dev/null && p "it was written"; (: >"$0.new") || p "nothing can be written"; '
    "exit 7",
)

_lock: Final = threading.Lock()


def find_backend(among: tuple[str, ...] = BACKENDS) -> Backend:
    """The first of these that works; without a name if none does."""
    with _lock:
        return _find_backend(among)


@cache
def _find_backend(among: tuple[str, ...]) -> Backend:
    if not BACKENDS:
        return Backend(why_not="there is a sandbox on Linux and macOS only")
    if sys.platform == "darwin":
        return _find_seatbelt() if "seatbelt" in among else Backend()
    if os.uname().machine not in seccomp.MACHINES:
        return Backend(why_not=f"there is no filter for system calls of {os.uname().machine}")
    reasons: list[str] = []
    for name in among:
        if name not in BACKENDS:
            return Backend(why_not=f"{name} is not of this system")
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


def find_program(name: str = "bwrap", folders: tuple[str, ...] = FOLDERS) -> str | None:
    """Bubblewrap or its like, where the system keeps its programs, changeable by root only."""
    for folder in folders:
        path = Path(folder, name)
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


def _find_seatbelt() -> Backend:
    program = find_program(seatbelt.PROGRAM, seatbelt.FOLDERS)
    if program is None:
        return Backend(why_not=f"{seatbelt.PROGRAM} is not in {seatbelt.FOLDERS[0]}")
    return try_seatbelt(program)


def try_seatbelt(program: str) -> Backend:
    """Seatbelt, if it runs a command and lets it neither read nor write what is hidden."""
    found = Backend("seatbelt", program)
    with scratch_folder() as folder:
        hidden = Path(os.path.realpath(folder), "hidden")
        hidden.write_text("hidden\n")
        mounts = Mounts(
            scratch=existing(SCRATCH),
            readable=toolchains_of({}, ()),
            writable=(str(hidden.parent),),
            hidden_files=(str(hidden),),
        )
        why_not = _probe(found, mounts, (*_TRY_HIDDEN, str(hidden)))
    if why_not:
        return Backend(why_not=f"Seatbelt does not hold commands here ({why_not})")
    return found


def _version(program: str) -> tuple[int, ...]:
    try:
        ran = run_command([program, "--version"], {}, Bounds(PROBE_S_MAX))
    except OSError:
        return ()
    return () if ran.problem else tuple(map(int, re.findall(rb"\d+", ran.out)[:3]))


def _probe(
    backend: Backend, mounts: Mounts | None = None, argv: tuple[str, ...] = _TRY_TO_START
) -> str:
    """Why no command can be started with it; empty if one can, and ends with 7."""
    mounts = mounts or Mounts(
        scratch=existing(SCRATCH), empty=existing(EMPTY), readable=toolchains_of({}, ())
    )
    prepared = Prepared(backend, mounts, Order(argv, {}, "/"))
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
