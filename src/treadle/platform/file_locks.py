"""Tells whether somebody holds the `flock` of a file, without trying to take it.

Trying is in the way of a writer that begins at that moment. Linux keeps `flock` apart from the
other locks and has no question for it, so the holder takes a lock of the other kind too, of which
one can ask; it belongs to the open file as `flock` does, and ends with it. On macOS the kinds are
one list, so that the question finds the `flock` itself. Elsewhere nobody is said to hold one.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias

from msgspec import Struct

FileControl: TypeAlias = Callable[[int, int, bytes], object]
"""`fcntl.fcntl`: the file, what is asked for, and a `struct flock`, which comes back changed."""


class LockQuestion(Struct, frozen=True):
    """How the holder of an exclusive `flock` is known to others. All take an open file.

    `announce` is called by who holds it, and never fails; `ask` is whether somebody holds it, also
    this process by another opening of the file. What a disk cannot answer is a no.
    """

    announce: Callable[[int], None]
    ask: Callable[[int], bool]


_LINUX_LOCK: Final = struct.Struct("hhqqi")
"""`struct flock` of Linux: type, whence, start, length, process."""
_MAC_LOCK: Final = struct.Struct("=qqihh")
"""`struct flock` of macOS: start, length, process, type, whence."""
MAC_GET_LOCK: Final = 7
MAC_READ_LOCK: Final = 1
MAC_NO_LOCK: Final = 2
"""`F_GETLK`, `F_RDLCK` and `F_UNLCK` of macOS, in its <fcntl.h>."""


def announce_by_file_lock(file: int) -> None:
    """See `LockQuestion`, for Linux."""
    with suppress(OSError):
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _LINUX_LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))


def ask_for_file_lock(file: int) -> bool:
    """See `LockQuestion`, for Linux: for what `announce_by_file_lock` has taken."""
    asked = _LINUX_LOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
    try:
        found = fcntl.fcntl(file, fcntl.F_OFD_GETLK, asked)
    except OSError:
        return False
    kind: int = _LINUX_LOCK.unpack(found)[0]
    return kind != fcntl.F_UNLCK


def ask_for_any_lock(file: int, control: FileControl = fcntl.fcntl) -> bool:
    """See `LockQuestion`, for macOS."""
    try:
        found = control(file, MAC_GET_LOCK, _MAC_LOCK.pack(0, 0, 0, MAC_READ_LOCK, os.SEEK_SET))
    except OSError:
        return False
    assert isinstance(found, bytes)
    kind: int = _MAC_LOCK.unpack(found)[3]
    return kind != MAC_NO_LOCK


def _announce_nothing(_: int) -> None:
    pass


def _know_nothing(_: int) -> bool:
    return False


BY_FILE_LOCK: Final = LockQuestion(announce_by_file_lock, ask_for_file_lock)
BY_ANY_LOCK: Final = LockQuestion(_announce_nothing, ask_for_any_lock)
UNKNOWN: Final = LockQuestion(_announce_nothing, _know_nothing)


def choose_lock_question(system: str, *, has_file_locks: bool) -> LockQuestion:
    """How this system tells of a lock's holder.

    Args:
        system: `sys.platform`.
        has_file_locks: whether locks that belong to an open file are there (`fcntl.F_OFD_SETLK`).
    """
    if system == "darwin":
        return BY_ANY_LOCK
    return BY_FILE_LOCK if system == "linux" and has_file_locks else UNKNOWN


lock_question: Final = choose_lock_question(
    sys.platform, has_file_locks=hasattr(fcntl, "F_OFD_SETLK")
)
"""See `LockQuestion`."""
