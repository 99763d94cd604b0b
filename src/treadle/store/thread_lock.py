"""The lock of a thread: held by its one writer, freed by the kernel when that process ends."""

from __future__ import annotations

import errno
import os
from typing import Final, NoReturn

import msgspec
from msgspec import Struct

from treadle.errors import DiskError, ThreadBusyError
from treadle.store.disk import Disk
from treadle.store.journal import convert_os_errors

NOTE_SIZE_MAX: Final = 1024
"""Bytes of a lock file that are read; what is longer was not written here."""

WORD_LENGTH_MAX: Final = 200
"""Characters of a host's or a program's name."""

_NO_LOCK_ERRORS: Final = frozenset(
    (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EPROTONOSUPPORT)
)
"""What file systems without locks say, those of networks above all."""


class Holder(Struct, frozen=True):
    """Who has a thread open for writing, as it says itself.

    It is for people to read. Whether the thread is free is the kernel's to say: a number may be
    another process by now, and a host's name another machine.

    Args:
        pid: the process.
        host: the machine.
        since: UTC, in the form of records.
        program: what people know it by (`treadle run`); may be empty.
    """

    pid: int
    host: str
    since: str
    program: str = ""

    @property
    def is_own(self) -> bool:
        """Whether that is this process, which holds a lock as another one would."""
        return (self.pid, self.host) == (os.getpid(), os.uname().nodename)

    @property
    def description(self) -> str:
        """In words: `pid 1234 on loom, since 2026-11-21 10:15 UTC (treadle run)`."""
        since = self.since[:16].replace("T", " ")
        program = f" ({self.program})" if self.program else ""
        return f"pid {self.pid} on {self.host}, since {since} UTC{program}"


_decode: Final = msgspec.json.Decoder(Holder).decode


def make_own_holder(since: str, program: str) -> Holder:
    """This process as a holder."""
    return Holder(os.getpid(), os.uname().nodename, since, program)


def acquire_lock(disk: Disk, path: str, thread_id: str, holder: Holder | None = None) -> int:
    """Hold the lock, or fail at once.

    Args:
        disk: where the lock file is.
        path: the file.
        thread_id: whose lock it is.
        holder: who will hold it; written into the file for whoever finds it held.

    Raises:
        ThreadBusyError: it is held; it says by which process, as far as that is known.
        DiskError: there can be no lock here.
    """
    note = b"" if holder is None else msgspec.json.encode(holder) + b"\n"
    try:
        lock = disk.lock(path, note)
    except OSError as error:
        if error.errno in _NO_LOCK_ERRORS:
            _raise_no_locks(path, error)
        raise DiskError("lock", path, error) from error
    if lock is None:
        if (found := read_holder(disk, path)) is None:
            raise ThreadBusyError(thread_id)
        raise ThreadBusyError(thread_id, found.description, is_own=found.is_own)
    return lock


def _raise_no_locks(path: str, cause: OSError) -> NoReturn:
    """Without locks two writers could not be kept apart: nothing is opened there at all."""
    words = "its file system has no locks, without which two writers could not be kept apart"
    folder = os.path.dirname(path)
    refused = DiskError("keep threads in", folder, OSError(cause.errno, words, folder))
    refused.hint = "nothing was written; set TREADLE_HOME to a folder on a disk of this machine"
    raise refused from cause


def find_holder(disk: Disk, path: str) -> Holder | str | None:
    """Who holds the lock now; an empty string if somebody unknown does, `None` if nobody.

    Takes nothing: no writer fails because somebody asks. Raises `DiskError`.
    """
    with convert_os_errors("read", path):
        is_locked = disk.is_locked(path)
    return (read_holder(disk, path) or "") if is_locked else None


def read_holder(disk: Disk, path: str) -> Holder | None:
    """What the lock file says; `None` if that is torn, foreign or nothing.

    It may be what an earlier holder wrote, for the moment that the present one takes to write.
    """
    try:
        found = _decode(disk.read_range(path, 0, NOTE_SIZE_MAX))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    texts = (found.host, found.since, found.program)
    # It is shown in terminals, and anybody may have written it.
    if found.pid <= 0 or not all(t.isprintable() and len(t) <= WORD_LENGTH_MAX for t in texts):
        return None
    return found
