"""A folder for each thread in which its commands keep what is not for the workspace.

Scripts that try something out, logs, notes: in the workspace they would be committed with the work,
and what a command leaves in `/tmp` is gone when it ends. The folder stays between calls and over
resumes, and is never sent anywhere. `treadle gc` removes it with its thread.

A command can put anything into it, links too. Nothing outside the sandbox takes anything from
there, but for the file tools, which follow no link out of it.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.sandbox.folders import size_of

VARIABLE: Final = "TREADLE_SCRATCH"
"""Names the folder to commands; file tools take a path that begins with it."""
SENTENCE: Final = (
    f"Scripts that only try something out, logs and notes belong into the folder ${VARIABLE}, not "
    "into the workspace: it stays between calls, commands with write access and the file tools can "
    f"write it (path ${VARIABLE}/NAME), and nothing in it is committed."
)
"""What a model is told of it."""
UNUSED_S_MAX: Final = 30 * 24 * 3600.0
"""Seconds after its last command from which on nobody needs it, also of a thread that is there."""

_NAME: Final = re.compile(r"T-[0-9a-fA-F-]{36}\Z")
_WRITTEN: Final = re.compile(rf"\$(?:{VARIABLE}|\{{{VARIABLE}\}})(?=/|\Z)")


class OldScratch(Struct, frozen=True):
    """The folder of a thread that nobody needs, and the bytes of its files."""

    path: str
    size: int


def scratch_of(base: str, thread_id: str) -> str:
    """The path of a thread's folder, which need not be there; empty if there is none.

    Args:
        base: the folder of all of them, `Places.scratch`; empty if none are kept.
        thread_id: the thread.
    """
    return str(Path(os.path.realpath(base), thread_id)) if base and _NAME.match(thread_id) else ""


def make_scratch(path: str) -> bool:
    """Make the folder if it is not there, and mark it as used; whether it can be used.

    It is not used if somebody has put a link in its place.
    """
    if not path:
        return False
    try:
        Path(path).mkdir(0o700, parents=True, exist_ok=True)
        os.utime(path, follow_symlinks=False)
        return stat.S_ISDIR(Path(path).lstat().st_mode)
    except OSError:  # a home that cannot be written; commands then have none
        return False


def expand_variable(path: str, scratch: str) -> str:
    """A path of a file tool, with the folder in place of the variable at its beginning."""
    return _WRITTEN.sub(lambda _: scratch, path, count=1) if scratch else path


def find_old_scratch(
    base: str, now_s: float, is_needed: Callable[[str], bool]
) -> tuple[OldScratch, ...]:
    """The folders of threads that need none, or whose last command is `UNUSED_S_MAX` ago.

    Args:
        base: as in `scratch_of`.
        now_s: what the clock says, in seconds since 1970.
        is_needed: whether a thread is there, by its id.
    """
    if not base:
        return ()
    # The folders first: one of a thread that has just begun has its journal already.
    found = [path for path in sorted(Path(base).glob("T-*")) if _NAME.match(path.name)]
    return tuple(
        OldScratch(str(path), size_of(path))
        for path in found
        if not is_needed(path.name) or _is_unused(path, now_s)
    )


def remove_old_scratch(
    base: str, now_s: float, is_needed: Callable[[str], bool], paths: Iterable[str]
) -> tuple[OldScratch, ...]:
    """Remove folders for good, if nobody needs them still; those that are gone."""
    paths = frozenset(paths)
    gone = []
    for one in find_old_scratch(base, now_s, is_needed):
        if one.path in paths:
            _remove(Path(one.path))
            if not os.path.lexists(one.path):
                gone.append(one)
    return tuple(gone)


def _is_unused(path: Path, now_s: float) -> bool:
    try:
        return now_s - path.lstat().st_mtime > UNUSED_S_MAX
    except OSError:
        return False


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink(missing_ok=True)
        return
    for folder, _, _ in os.walk(path):  # a command may have shut them
        with suppress(OSError):
            Path(folder).chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)
