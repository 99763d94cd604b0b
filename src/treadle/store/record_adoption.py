"""Taking in what another machine did with a thread: records behind its own, or another journal.

Both happen under the thread's lock, and after all was folded: a thread that cannot be read by this
version is left as it was. From then on the thread counts as made elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from treadle.errors import DamagedJournalError, ReadOnlyThreadError, UsageError
from treadle.store.file_replacement import drafts_folder, remove_drafts, replace_file
from treadle.store.folder_source import FolderSource
from treadle.store.folders import JOURNAL_SUFFIX, SNAPSHOT_SUFFIX
from treadle.store.journal import convert_os_errors, cut_torn_tail, sync_journal
from treadle.store.local_store import LocalStore
from treadle.store.thread_reader import ThreadReader, decode_header
from treadle.thread.codec import UnknownEntryError
from treadle.thread.fold import ThreadFold
from treadle.thread.record import Head, JournalCondition, Record, scan_journal

WRITE_COUNT_MAX: Final = 32
"""More writes than this are not appended one by one: the file is replaced as a whole instead."""


class LockedThread(Struct, frozen=True):
    """A thread under its lock: its id, its path, its bytes, the records in them."""

    id: str
    path: str
    data: bytes
    records: list[Record]
    in_trash: bool

    @property
    def head(self) -> Head:
        """Where it ends."""
        last = self.records[-1]
        return Head(last.seq, last.hash, last.at, len(self.data))


@contextmanager
def open_locked(store: LocalStore, thread_id: str) -> Iterator[LockedThread]:
    """A thread under its lock, all of it in memory. A torn end is quarantined and cut first.

    Its snapshot is not looked at, nor what it goes on from: a journal that has lost its end, or
    whose base was scrubbed, is what is mended by what another machine has.

    Raises:
        UnknownThreadError: there is no such thread.
        ThreadBusyError: another process has it open.
        DamagedJournalError: acknowledged records are damaged; nothing was touched.
        DiskError: the disk refused.
    """
    folders = store.folders
    folders.find(thread_id)
    lock = store.lock(thread_id)
    try:
        path, in_trash = folders.find(thread_id)
        sync_journal(folders.disk, path)
        found = scan_journal(_read_file(store, path))
        if found.condition is JournalCondition.TORN:
            cut_torn_tail(folders.disk, path, found, folders.quarantine)
        if found.condition is JournalCondition.CORRUPT or not found.records:
            raise DamagedJournalError(path, found.head.size, found.reason or "it holds no record")
        remove_drafts(folders.disk, drafts_folder(path), thread_id)
        data = _read_file(store, path)[: found.head.size]
        yield LockedThread(thread_id, path, data, found.records, in_trash)
    finally:
        folders.disk.close(lock)


def _read_file(store: LocalStore, path: str) -> bytes:
    with convert_os_errors("read", path):
        try:
            return store.folders.disk.read(path)
        except FileNotFoundError:
            return b""


def append_records(store: LocalStore, thread: LockedThread, data: bytes) -> ThreadFold:
    """Append records to a thread that is held, write by write, each durable before the next.

    Args:
        store: where it is.
        thread: the thread, as it was before.
        data: the lines of the records after its last one.

    Returns:
        The fold of all.

    Raises:
        UsageError: they are not what follows there; nothing was changed.
        ReadOnlyThreadError: this version cannot fold them; nothing was changed.
        DamagedJournalError: what it goes on from is not here; nothing was changed.
        DiskError: some of them may be there; do it again.
    """
    fold = fold_journal(store, thread.id, thread.data + data)
    writes = list(split_writes(data))
    if not writes:
        return fold
    store.adopted.mark_updated(thread.id)
    disk = store.folders.disk
    if len(writes) > WRITE_COUNT_MAX:
        _finish_move(store, thread)
        replace_file(disk, thread.path, thread.data + data)
        return fold
    with convert_os_errors("write", thread.path, len(data)):
        handle = disk.open_append(thread.path)
        try:
            for write in writes:
                disk.write(handle, write)
                disk.sync(handle)
        finally:
            disk.close(handle)
    return fold


def replace_journal(store: LocalStore, thread: LockedThread, data: bytes) -> ThreadFold:
    """Put another journal in the place of that of a thread which is held.

    The snapshot goes first: it may know a version that the new journal does not reach, and would
    tell of lost records. Before it goes the second name that a move to the trash or out of it may
    have left when its process died: under that the old journal would be another thread.

    Args:
        store: where it is.
        thread: the thread, as it was before.
        data: the whole new journal.

    Returns:
        The fold of it.

    Raises:
        UsageError: it is no intact journal of this thread; nothing was changed.
        ReadOnlyThreadError: this version cannot fold it; nothing was changed.
        DamagedJournalError: what it goes on from is not here; nothing was changed.
        DiskError: the thread is as it was, or has the new journal.
    """
    thread_id = thread.id
    fold = fold_journal(store, thread_id, data)
    disk = store.folders.disk
    _finish_move(store, thread)
    snapshot = store.folders.path(thread_id, SNAPSHOT_SUFFIX, in_trash=thread.in_trash)
    with convert_os_errors("remove", snapshot):
        if disk.stat(snapshot) is not None:
            disk.unlink(snapshot)
            disk.sync_folder(os.path.dirname(snapshot))
    store.adopted.mark_updated(thread_id)
    replace_file(disk, thread.path, data)
    return fold


def _finish_move(store: LocalStore, thread: LockedThread) -> None:
    """Take away what a move that was cut has left of a thread in the other folder.

    Whoever moves a thread holds it, so nobody is moving it now. Its own name is durable: a move
    takes one away only after the other one is there.
    """
    disk, folders = store.folders.disk, store.folders
    left = folders.path(thread.id, JOURNAL_SUFFIX, in_trash=not thread.in_trash)
    with convert_os_errors("remove", left):
        found, own = disk.stat(left), disk.stat(thread.path)
        if found is None or own is None:
            return
        # It may be a copy: a scrub writes both names anew. Its torn end was never acknowledged.
        if found.inode != own.inode and not thread.data.startswith(
            drop_unfinished_line(disk.read(left))
        ):
            return  # two different threads: `Trash` tells of them
        disk.sync_folder(os.path.dirname(thread.path))
        for path in (folders.path(thread.id, SNAPSHOT_SUFFIX, in_trash=not thread.in_trash), left):
            if disk.stat(path) is not None:
                disk.unlink(path)
                disk.sync_folder(os.path.dirname(path))


def fold_journal(store: LocalStore, thread_id: str, data: bytes) -> ThreadFold:
    """The fold of a whole journal that is about to be a thread's. Raises as `replace_journal`."""
    found = scan_journal(data)
    if not found.records or found.condition is not JournalCondition.CLEAN:
        raise UsageError(f"this is no intact journal: {found.reason or 'it holds no record'}")
    try:
        if decode_header(found.records[0]).thread != thread_id:
            raise UsageError("this is the journal of another thread")
        fold, problem = ThreadReader(FolderSource(store.folders)).fold_records(found.records)
    except UnknownEntryError as error:
        raise _make_version_error(error) from error
    if problem:
        raise ReadOnlyThreadError(problem)
    return fold


def ensure_thread(store: LocalStore, thread_id: str, data: bytes, *, is_own: bool) -> None:
    """A thread of this id with this journal, durable when this returns; fine if it is there.

    Args:
        store: where.
        thread_id: an id that nobody else makes.
        data: its journal.
        is_own: whether it is this user's own; otherwise it counts as made elsewhere.

    Raises:
        UsageError: there is another thread of this id.
        DiskError: nothing was acknowledged; do it again.
    """
    fold_journal(store, thread_id, data)
    lock = store.lock(thread_id)
    disk, path = store.folders.disk, store.folders.path(thread_id, JOURNAL_SUFFIX)
    try:
        if thread_id in store.folders.ids() or thread_id in store.folders.ids(in_trash=True):
            found, _ = store.folders.find(thread_id)
            with convert_os_errors("read", found):
                is_same = disk.read(found).startswith(data)
            if not is_same:
                raise UsageError(f"there is another thread {thread_id}")
            return
        if not is_own:
            store.adopted.mark(thread_id)
        replace_file(disk, path, data)
    finally:
        disk.close(lock)


def split_writes(data: bytes) -> Iterator[bytes]:
    """The lines of a journal, those that were written together in one piece."""
    start = end = 0
    while end < len(data):
        stop = data.find(b"\n", end) + 1 or len(data)
        # A record that was written with earlier ones says so right after its time.
        if b'"batch":' not in data[end : end + 100].partition(b'"event"')[0] and end > start:
            yield data[start:end]
            start = end
        end = stop
    if end > start:
        yield data[start:end]


def split_journal_lines(data: bytes) -> list[bytes]:
    """The lines of a journal, line breaks included. Lines end at LF and nowhere else."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


def drop_unfinished_line(data: bytes) -> bytes:
    """A journal without the unfinished line at its end."""
    return data[: data.rfind(b"\n") + 1]


def _make_version_error(error: UnknownEntryError) -> ReadOnlyThreadError:
    return ReadOnlyThreadError(
        f"another machine has gone on with it by a newer Treadle: {error.message}",
        hint="use that one here too",
    )
