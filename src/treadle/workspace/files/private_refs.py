"""A private ref as a file, written as git does it, without a git that has to start.

Git takes a ref by making `REF.lock`, and gives it its contents by renaming that. A process that
dies in between leaves the lock, and every later git would refuse to touch the ref. So our lock has
a second name outside the refs, its draft: what is one file with a draft was left by one of us, and
whoever comes next removes it at once. One writer at a time has the refs of a repository
(`Objects.locked`).
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from treadle.errors import FileStateError
from treadle.workspace.git_durability import sync_refs

STALE_NS: Final = 60 * 10**9
"""A lock on a private ref that is older than this is nobody's: one writer has the thread, and git
holds such a lock for milliseconds. Without this a power cut in between would end all saving."""

_REF_MODE: Final = 0o666


def write_ref(common_dir: Path, ref: str, commit: str) -> bool:
    """Point a ref to a commit, durably, as git does; whether that could be done.

    It cannot where refs are kept in tables, where a file has only one name, nor while somebody
    holds its lock.
    """
    path, lock, draft = common_dir / ref, common_dir / f"{ref}.lock", _find_draft(common_dir, ref)
    if (common_dir / "reftable").exists():
        return False
    try:
        mode = stat.S_IMODE((common_dir / "refs").stat().st_mode)
        with suppress(FileExistsError):
            path.parent.mkdir()
            path.parent.chmod(mode)  # who shares a repository by a group says so there
        _remove_own_lock(lock, draft)
        with draft.open("xb") as file:
            file.write(f"{commit}\n".encode())
            file.flush()
            os.fchmod(file.fileno(), _REF_MODE & mode)
            os.fsync(file.fileno())
    except OSError:
        _remove(draft)
        return False
    try:
        lock.hardlink_to(draft)
    except OSError:
        _remove(draft)
        return False
    try:
        lock.replace(path)
    except OSError as error:
        _remove(lock)
        _remove(draft)
        raise FileStateError(f"{ref} cannot be written: {error.strerror}") from error
    _remove(draft)
    sync_refs({path: common_dir})
    return True


def remove_dead_lock(common_dir: Path, ref: str) -> bool:
    """Remove the lock of a ref if a dead process has left it, ours or git; whether it did.

    Of git's the age decides, by the clock of the file system.
    """
    lock = common_dir / f"{ref}.lock"
    try:
        if _remove_own_lock(lock, _find_draft(common_dir, ref)):
            return True
        if clock_ns(common_dir) - lock.stat().st_mtime_ns < STALE_NS:
            return False
        lock.unlink()
    except OSError:
        return False
    return True


def _find_draft(common_dir: Path, ref: str) -> Path:
    return common_dir / f"treadle-{ref.replace('/', '-')}"


def _remove_own_lock(lock: Path, draft: Path) -> bool:
    """Remove what a process of ours left that died: its draft, and the lock if it is the same."""
    try:
        is_own = lock.samefile(draft)
    except FileNotFoundError:
        is_own = False
    if is_own:
        lock.unlink()
    draft.unlink(missing_ok=True)
    return is_own


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def clock_ns(folder: Path) -> int:
    """Now, in nanoseconds, by the clock that stamps the files of this folder."""
    with tempfile.TemporaryFile(dir=folder) as fresh:
        return os.fstat(fresh.fileno()).st_mtime_ns
