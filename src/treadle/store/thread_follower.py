"""Follows a thread while another process works on it: reads what is new, holds no lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from enum import Enum
from typing import Final

from treadle.errors import DamagedJournalError, UnknownThreadError
from treadle.store.folders import JOURNAL_SUFFIX, StoreFolders
from treadle.store.journal import JournalReader, convert_os_errors, journal_has_head
from treadle.thread.record import Head, JournalCondition, JournalScanner, Record

KNOWN_COUNT_MAX: Final = 64
"""How many records are remembered, evenly spread, to find how far a rewritten journal is still what
it was."""


class JournalChange(Enum):
    """What became of a thread's journal, other than that it grew."""

    REWRITTEN = "rewritten"
    """Records that were read stand there no more, or otherwise: what follows is read anew."""
    TRASHED = "trashed"
    """The thread is in the trash now; nothing follows."""
    REMOVED = "removed"
    """There is no such thread any more; nothing follows."""


class ThreadFollower:
    """Reads a thread's records as they come, each once; verifies the chain from one to the next.

    A record is read as soon as it is in the file, which is a moment before it is durable. If the
    disk loses it after all, the journal counts as rewritten. What is being written is waited for.
    A look costs what is new and nothing else, however long the thread is.

    Args:
        folders: where the thread is.
        thread_id: the thread.

    Raises:
        UnknownThreadError: there is no such thread.
        DiskError: the disk refused.
    """

    def __init__(self, folders: StoreFolders, thread_id: str) -> None:
        self._folders = folders
        self._thread_id = thread_id
        self._path, self._was_in_trash = folders.find(thread_id)
        self._head = Head()
        self._known: list[tuple[int, str]] = []
        self._stride = 1
        self.is_over = False
        """Whether nothing can follow any more."""

    def read_new(self) -> Iterator[Record | JournalChange]:
        """What is new since the last time, which may be nothing; to be read to its end.

        Raises:
            DamagedJournalError: what stands there now cannot be an unfinished write.
            DiskError: the disk refused.
        """
        if self.is_over:
            return
        if self._is_unchanged():
            yield from self._read_after(self._head.seq)
            return
        change = self._find_change()
        if change is not None:
            self.is_over = change is not JournalChange.REWRITTEN
            yield change
        if change is JournalChange.REWRITTEN:
            self._drop_changed_records()
            self._head = Head()
            yield from self._read_after(self._known[-1][0] if self._known else 0)

    def _is_unchanged(self) -> bool:
        """Whether what was read last is where it was."""
        disk = self._folders.disk
        return self._head.seq == 0 or journal_has_head(disk, self._path, self._head)

    def _find_change(self) -> JournalChange | None:
        """What became of the journal, by where it is; `None` if that is not decided yet."""
        if self._has_journal(in_trash=self._was_in_trash):
            return JournalChange.REWRITTEN
        if self._has_journal(in_trash=not self._was_in_trash):
            return JournalChange.REMOVED if self._was_in_trash else JournalChange.TRASHED
        try:
            self._folders.find(self._thread_id)
        except UnknownThreadError:
            return JournalChange.REMOVED
        return None

    def _has_journal(self, *, in_trash: bool) -> bool:
        path = self._folders.path(self._thread_id, JOURNAL_SUFFIX, in_trash=in_trash)
        with convert_os_errors("read", path):
            try:
                self._folders.disk.read_range(path, 0, 1)
            except FileNotFoundError:
                return False
        return True

    def _drop_changed_records(self) -> None:
        """A hash covers all that stands before it: one that is there still vouches for them."""
        standing = 0
        known = dict(self._known)
        for record in JournalReader(self._folders.disk, self._path):
            if known.get(record.seq) == record.hash:
                standing = record.seq
        self._known = [(seq, digest) for seq, digest in self._known if seq <= standing]

    def _read_after(self, seq: int) -> Iterator[Record]:
        scanner = JournalScanner(self._head)
        pieces = self._folders.disk.pieces(self._path, self._head.size)
        with convert_os_errors("read", self._path), closing(pieces):
            try:
                for piece in pieces:
                    records = scanner.feed(piece)
                    self._head = scanner.head
                    for record in records:
                        if record.seq > seq:
                            self._remember(record)
                            yield record
            except FileNotFoundError:
                return  # it is looked for the next time
        found = scanner.end()
        if found.condition is JournalCondition.CORRUPT and self._is_unchanged():
            raise DamagedJournalError(self._path, found.head.size, found.reason)

    def _remember(self, record: Record) -> None:
        if record.seq % self._stride:
            return
        self._known.append((record.seq, record.hash))
        if len(self._known) > KNOWN_COUNT_MAX:
            self._stride *= 2
            self._known = [known for known in self._known if known[0] % self._stride == 0]
