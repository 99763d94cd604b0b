"""Journals in a data folder as any store has them: bytes, begun, held, appended to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from treadle.errors import DiskError, StaleWriterError
from treadle.store.disk import Disk
from treadle.store.folders import JOURNAL_SUFFIX, StoreFolders
from treadle.store.journal import Journal, convert_os_errors, cut_torn_tail, sync_journal
from treadle.store.thread_keys import ThreadKeys
from treadle.thread.record import Head, JournalCondition, JournalScan


def check_lock(disk: Disk, lock: int, thread_id: str) -> None:
    """A lock file that somebody has removed locks nobody out: there may be a second writer.

    Raises:
        StaleWriterError: it was removed.
        DiskError: the disk refused.
    """
    try:
        with convert_os_errors("look at the lock of", thread_id):
            disk.size(lock)
    except DiskError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise StaleWriterError(
                f"the lock file of thread {thread_id} was removed: another process may "
                "have it open by now",
                hint="open the thread again",
            ) from error
        raise


class HeldFile:
    """A journal that is held by its lock. See `HeldJournal`."""

    def __init__(
        self, folders: StoreFolders, thread_id: str, path: str, journal: Journal, lock: int
    ) -> None:
        self._folders: Final = folders
        self._thread_id: Final = thread_id
        self._path: Final = path
        self._journal = journal
        self._lock = lock

    def append(self, data: bytes, size: int) -> None:
        """See `HeldJournal`."""
        if self._journal.is_usable:
            check_lock(self._folders.disk, self._lock, self._thread_id)
            if size != self._journal.head.size:
                raise StaleWriterError(
                    f"{self._path} has {self._journal.head.size} bytes, not {size}",
                    hint="open the thread again",
                )
        self._journal.append(data, Head(size=size + len(data)))
        self._journal.sync()

    def cut(self, size: int) -> str:
        """See `HeldJournal`; what is cut off is kept."""
        found = JournalScan([], Head(size=size), JournalCondition.TORN)
        kept = cut_torn_tail(self._folders.disk, self._path, found, self._folders.quarantine)
        self._journal.head = found.head
        return kept

    def close(self) -> None:
        """See `HeldJournal`."""
        self._journal.close()
        if self._lock >= 0:
            self._folders.disk.close(self._lock)
            self._lock = -1


def begin_journal(
    folders: StoreFolders,
    keys: ThreadKeys,
    lock_thread: Callable[[str], int],
    thread_id: str,
    data: bytes,
    key: str,
) -> HeldFile | None:
    """See `Store.begin`."""
    path = folders.path(thread_id, JOURNAL_SUFFIX)
    with convert_os_errors("make", folders.threads):
        folders.disk.make_folder(folders.threads)
    lock = lock_thread(thread_id)
    try:
        journal = Journal.create_from(folders.disk, path, data)
    except BaseException:
        folders.disk.close(lock)
        raise
    held, has_key = HeldFile(folders, thread_id, path, journal, lock), False
    try:
        has_key = not key or keys.publish(key, thread_id) == thread_id
    finally:
        if not has_key:  # somebody else began it at this moment
            try:
                remove_journal(folders, thread_id)
            finally:
                held.close()
    return held if has_key else None


def hold_journal(
    folders: StoreFolders, lock_thread: Callable[[str], int], thread_id: str
) -> HeldFile:
    """See `Store.hold`."""
    path, _ = folders.find(thread_id)
    lock = lock_thread(thread_id)
    try:
        sync_journal(folders.disk, path)
        journal = Journal.open(folders.disk, path, Head())
        size = folders.disk.stat(path)
        journal.head = Head(size=0 if size is None else size.size)
    except BaseException:
        folders.disk.close(lock)
        raise
    return HeldFile(folders, thread_id, path, journal, lock)


def remove_journal(folders: StoreFolders, thread_id: str) -> None:
    """Remove a journal that was just made and that nobody has been told of."""
    path = folders.path(thread_id, JOURNAL_SUFFIX)
    with convert_os_errors("remove", path):
        folders.disk.unlink(path)
        folders.disk.sync_folder(folders.threads)
