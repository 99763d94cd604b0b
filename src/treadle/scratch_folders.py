"""Temporary folders that last as long as a `with`, and those that dead processes left.

`kill -9` leaves a folder behind, and neither name nor age says whether somebody works in it. A lock
on the folder itself does: the system opens it when its process ends, however that comes. Who makes
a folder removes the unlocked ones of its user first.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Final

PREFIX: Final = "treadle-scratch-"

_NAME: Final = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}")
"""As `tempfile` makes them; what a person calls almost so is the person's."""


@contextmanager
def scratch_folder() -> Iterator[str]:
    """A private folder, gone at the end with all that is in it."""
    _remove_left(gettempdir())
    made, fd = _make()
    try:
        with made as folder:
            yield folder
    finally:
        os.close(fd)


def _make() -> tuple[TemporaryDirectory[str], int]:
    """A new folder, and the lock on it."""
    while True:
        made = TemporaryDirectory(prefix=PREFIX)
        try:
            fd = _open(made.name)
        except FileNotFoundError:
            made.cleanup()
            continue  # another process has taken it for a left one even before it was opened
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # between its making and its locking, another process has taken it for a left one
        except OSError:
            return made, fd  # no locks on this file system: nobody takes any folder for a left one
        else:
            if _is_there(fd, made.name):
                return made, fd
        os.close(fd)
        made.cleanup()


@cache
def _remove_left(place: str) -> None:
    """Remove the folders whose processes are gone; looked for once in the life of this one."""
    with os.scandir(place) as entries:
        found = [entry for entry in entries if _NAME.fullmatch(entry.name)]
    for entry in found:
        try:
            status = entry.stat(follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                continue
            fd = _open(entry.path)
        except OSError:  # gone meanwhile, or shut by a command
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(fd, entry.path):
                _remove(entry.path)
        except OSError:  # somebody works there, or there are no locks
            continue
        finally:
            os.close(fd)


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _is_there(fd: int, path: str) -> bool:
    """Whether the open folder is still the one of this path."""
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


def _remove(path: str) -> None:
    """Remove a folder in which commands may have worked: no link is followed."""
    for folder, names, _ in os.walk(path):
        for inner in (Path(folder, name) for name in names):
            if not inner.is_symlink():
                inner.chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)
