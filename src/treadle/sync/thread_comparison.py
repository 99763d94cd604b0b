"""What this machine has of each thread, and how that stands to what the server has. Reads only."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.api.marks import Mark
from treadle.api.types import ThreadHead
from treadle.errors import DiskError, TreadleError, UnknownThreadError
from treadle.store.disk import Disk
from treadle.store.journal import convert_os_errors, journal_has_head, read_journal
from treadle.store.local_store import LocalStore
from treadle.sync.cursors import Cursor
from treadle.sync.operations import (
    LocalAvailability,
    LocalPosition,
    ServerPosition,
    ThreadComparison,
)
from treadle.sync.send_queue import PendingSyncEntry
from treadle.sync.shareable_thread import ThreadDependencies, read_dependencies
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.facts import Scrubbed
from treadle.thread.record import Head, JournalCondition, Record

_WINDOW_SIZE: Final = 64 * 1024
_LAST_LINE: Final = re.compile(
    rb'\{"seq":(\d{1,16}),"at":"([^"]{0,64})".*,"hash":"([0-9a-f]{32})"\}'
)


TAIL_SIZE_MAX: Final = 1024 * 1024
"""Bytes after the last acknowledged record in which words about privacy are looked for."""

_PRIVACY_WORDS: Final = (b'"privacy_set"', b'"merged')
"""A branch that was merged may have become private."""


class SyncRequest(Struct, frozen=True):
    """How a sync was asked for: by a person, and for which threads by name."""

    is_wanted: bool = False
    named: frozenset[str] = frozenset()


class ThreadComparer:
    """One look at the threads of a store. What it has seen it does not look at again.

    Args:
        store: the store.
        url: the server that it is compared with.
    """

    def __init__(self, store: LocalStore, url: str = "") -> None:
        self._store = store
        self._url = url
        self._disk = store.folders.disk
        self._dependencies: dict[str, ThreadDependencies] = {}
        self._own_privacy: dict[str, bool] = {}

    def compare_thread(
        self,
        thread_id: str,
        cursor: Cursor | None,
        head: ThreadHead | None = None,
        entry: PendingSyncEntry | None = None,
        request: SyncRequest = SyncRequest(),  # noqa: B008  frozen
    ) -> ThreadComparison:
        """What is known of a thread.

        Args:
            thread_id: the thread.
            cursor: how far it is synced; `None` if it never was.
            head: where the server says it is, if it has just said so.
            entry: what is known of earlier attempts.
            request: how the sync was asked for.

        Raises:
            DiskError: the disk refused.
        """
        theirs = _compare_server(cursor, head)
        is_deleted = head.is_deleted if head is not None else bool(cursor and cursor.is_deleted)
        # A cursor that was lost says nothing; what the server says that it has was sent.
        has_copy = head is not None and not head.is_purged
        was_sent = has_copy or (cursor is not None and not cursor.is_purged)
        try:
            path, in_trash = self._store.folders.find(thread_id)
        except UnknownThreadError:
            gone = ThreadComparison(LocalAvailability.MISSING, theirs=theirs, is_deleted=is_deleted)
            return replace(gone, was_sent=cursor is not None and cursor.seq > 0)
        end = read_journal_end(self._disk, path)
        acked = Mark() if cursor is None else cursor.acknowledged_mark
        is_borrowed = self._is_borrowed(thread_id, end, cursor, head)
        unread = ThreadComparison(LocalAvailability.UNREADABLE, theirs=theirs, was_sent=was_sent)
        try:
            is_acked = end is not None and (
                _mark_of(end) == acked or self._is_privacy_unchanged(path, end, cursor)
            )
            if self.is_private(thread_id, is_acked=is_acked or is_borrowed):
                return ThreadComparison(LocalAvailability.PRIVATE, theirs=theirs, was_sent=was_sent)
            if end is None:
                return unread
        except DiskError:
            raise
        except UnknownThreadError:
            # It was being made when its process died.
            return ThreadComparison(LocalAvailability.MISSING)
        except TreadleError:
            # A journal that has lost its end can be had from the server, whatever its snapshot
            # makes of it; that it is not private is seen again before anything is sent.
            if end is None or not 0 < end.seq < acked.seq:
                return unread
        return ThreadComparison(
            LocalAvailability.THERE,
            self._compare_local(path, end, cursor),
            theirs,
            was_sent,
            bool(cursor and cursor.is_purged),
            self._store.find_holder(thread_id) is not None,
            _is_parked(entry, end),
            request.is_wanted,
            thread_id in request.named,
            is_deleted,
            in_trash,
            is_borrowed,
        )

    def dependencies(self, thread_id: str) -> ThreadDependencies:
        """What a thread hangs on, as far as that is here."""
        if thread_id not in self._dependencies:
            try:
                self._dependencies[thread_id] = read_dependencies(self._store, thread_id)
            except DiskError:
                raise
            except TreadleError:
                self._dependencies[thread_id] = ThreadDependencies()
        return self._dependencies[thread_id]

    def list_with_dependencies(self, thread_id: str) -> list[str]:
        """The thread and all that it hangs on, at any depth; itself last."""
        found: dict[str, None] = {}
        todo = [thread_id]
        while todo:
            one = todo.pop()
            if one not in found:
                found[one] = None
                todo += self.dependencies(one).ids
        return list(found)[::-1]

    def is_private(self, thread_id: str, *, is_acked: bool = False) -> bool:
        """Whether a thread, or anything it hangs on, may not leave this machine.

        Args:
            thread_id: the thread.
            is_acked: whether the server has all of its own records, or those it has not say nothing
                of privacy: then it was not private by itself when the last of them was sent, and
                nothing has changed since. Before anything is sent all of it is looked at again.

        Raises:
            TreadleError: the thread cannot be read.
        """
        family = self.list_with_dependencies(thread_id)
        for one in family[:-1]:
            try:
                if self._is_private(one):
                    return True
            except DiskError:
                raise
            except TreadleError:
                continue  # it is looked at again, and refused, before anything is sent
        return False if is_acked else self._is_private(thread_id)

    def _is_borrowed(
        self, thread_id: str, end: Head | None, cursor: Cursor | None, head: ThreadHead | None
    ) -> bool:
        # Where the user has an own copy there, the server says where it is, or has said so.
        if end is None or cursor is not None or head is not None:
            return False
        return self._store.adopted.is_borrowed(thread_id, end.seq, self._url)

    def _is_privacy_unchanged(self, path: str, end: Head, cursor: Cursor | None) -> bool:
        """Whether what follows the last acknowledged record is short and no word about privacy."""
        size = 0 if cursor is None else end.size - cursor.size
        if cursor is None or not cursor.size or not 0 < size <= TAIL_SIZE_MAX:
            return False
        if not journal_has_head(self._disk, path, Head(cursor.seq, cursor.hash, "", cursor.size)):
            return False
        with convert_os_errors("read", path):
            data = self._disk.read_range(path, cursor.size, size)
        return not any(word in data for word in _PRIVACY_WORDS)

    def find_private_dependency(self, thread_id: str) -> str | None:
        """What a thread hangs on that is private, if the thread is not so by itself."""
        *above, own = self.list_with_dependencies(thread_id)
        for one in (own, *above[::-1]):
            try:
                if self._is_private(one):
                    return None if one == own else one
            except DiskError:
                raise
            except TreadleError:
                continue
        return None

    def _is_private(self, thread_id: str) -> bool:
        if thread_id not in self._own_privacy:
            self._own_privacy[thread_id] = self._store.load(thread_id).fold.is_private
        return self._own_privacy[thread_id]

    def _compare_local(self, path: str, end: Head, cursor: Cursor | None) -> LocalPosition:
        if cursor is None or not cursor.seq:
            return LocalPosition.NEVER
        if _mark_of(end) == cursor.acknowledged_mark:
            return LocalPosition.SAME
        if end.seq < cursor.seq:
            return LocalPosition.BEHIND
        known = Head(cursor.seq, cursor.hash, "", cursor.size)
        if end.seq > cursor.seq and cursor.size and journal_has_head(self._disk, path, known):
            return LocalPosition.AHEAD
        found = read_journal(self._disk, path, Head())
        records = found.records if found is not None else []
        if len(records) > cursor.seq and records[cursor.seq - 1].hash == cursor.hash:
            return LocalPosition.AHEAD
        is_scrubbed = any(decode_scrub(one) is not None for one in records[cursor.seq :])
        return LocalPosition.SCRUBBED if is_scrubbed else LocalPosition.OFF


def _compare_server(cursor: Cursor | None, head: ThreadHead | None) -> ServerPosition:
    if head is not None:
        if head.is_purged:
            return (
                ServerPosition.UNKNOWN
                if cursor is not None and cursor.is_anew
                else ServerPosition.PURGED
            )
        acked = Mark() if cursor is None else cursor.acknowledged_mark
        return (
            ServerPosition.SAME if Mark(head.version, head.hash) == acked else ServerPosition.MOVED
        )
    if cursor is None:
        return ServerPosition.UNKNOWN
    if cursor.is_purged:
        return ServerPosition.UNKNOWN if cursor.is_anew else ServerPosition.PURGED
    if cursor.server_mark != cursor.acknowledged_mark:
        return ServerPosition.MOVED
    return ServerPosition.SAME if cursor.seq else ServerPosition.UNKNOWN


def _is_parked(entry: PendingSyncEntry | None, end: Head) -> bool:
    """Whether a thread was held back or refused as it is."""
    is_same = entry is not None and (entry.version, entry.hash) == (end.seq, end.hash)
    return is_same and entry is not None and entry.parked != ""


def decode_scrub(record: Record) -> Scrubbed | None:
    """What a record says of a scrub; `None` if it says something else."""
    if b'"scrubbed"' not in bytes(record.event):
        return None
    try:
        entry = decode_entry(record.event)
    except UnknownEntryError:
        return None
    return entry if isinstance(entry, Scrubbed) else None


def read_journal_end(disk: Disk, path: str) -> Head | None:
    """Where a journal ends, by its last line; `None` if it is damaged or holds no record.

    An unfinished write at the end is left out. That the records before the last one are intact is
    looked at when they are sent.

    Raises:
        DiskError: the disk refused.
    """
    with convert_os_errors("read", path):
        status = disk.stat(path)
        if status is None:
            return None
        window = _WINDOW_SIZE
        while True:
            start = max(0, status.size - window)
            data = disk.read_range(path, start, status.size - start)
            lines = data.split(b"\n")
            # The first line may have lost its beginning, the last one lacks its end.
            if data.endswith(b"\n") and len(lines) > (2 if start else 1):
                found = _LAST_LINE.fullmatch(lines[-2])
                if found is not None:
                    digest, at = found[3].decode(), found[2].decode("utf-8", "replace")
                    return Head(int(found[1]), digest, at, start + len(data))
                break
            if not start:
                break
            window *= 16
    found_all = read_journal(disk, path, Head())
    if (
        found_all is None
        or found_all.condition is JournalCondition.CORRUPT
        or not found_all.records
    ):
        return None
    return found_all.head


def _mark_of(head: Head) -> Mark:
    return Mark(head.seq, head.hash)
