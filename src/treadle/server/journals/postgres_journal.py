"""A journal on PostgreSQL that this process holds."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any, Final

from msgspec import Struct

from treadle.errors import StaleWriterError, StoreError
from treadle.server.journals import statements
from treadle.server.journals.writer_lease import WriterLease
from treadle.thread.record import Head, JournalCondition, JournalScanner


class JournalPlace(Struct, frozen=True):
    """Where a held journal is: whose, and what its holder was given."""

    owner_id: int
    thread_id: str
    epoch: int
    is_records: bool
    """Whether its bytes are the records of a thread; else they are kept in pieces."""

    def make_values(self, **more: object) -> dict[str, Any]:
        """The values of a statement about it."""
        return {"owner": self.owner_id, "id": self.thread_id, "epoch": self.epoch, **more}


class _Append(Struct, frozen=True):
    """What an append says, and how to see whether it was done."""

    statement: str
    values: Mapping[str, object]
    look: str
    head: Head


class PostgresJournal:
    """See `treadle.HeldJournal`. Others are kept out by the epoch that each append names.

    Args:
        lease: of this process.
        place: where it is.
        head: its end.
    """

    def __init__(self, lease: WriterLease, place: JournalPlace, head: Head) -> None:
        self._lease = lease
        self._place = place
        self._head = head
        self._lock: Final = Lock()
        self._is_closed = False

    def append(self, data: bytes, size: int) -> None:
        """See `HeldJournal.append`.

        A database that does not answer is waited for. The same append is said once more then: it
        changes nothing unless the journal has the size that it names, and the epoch. So where it
        was done after all, it is found there.
        """
        self._check_open()
        if size != self._head.size:
            raise self._make_stale_error()
        new = self._make_record_append(data) if self._place.is_records else self._make_piece(data)
        is_repeated = False

        def attempt() -> bool:
            nonlocal is_repeated
            was_tried, is_repeated = is_repeated, True
            if self._lease.execute(new.statement, new.values):
                return True
            return was_tried and bool(self._lease.query(new.look, new.values))

        if not self._lease.repeat(attempt):
            raise self._make_stale_error()
        self._head = new.head

    def _make_record_append(self, data: bytes) -> _Append:
        scanner = JournalScanner(self._head)
        records = scanner.feed(data)
        head = scanner.head
        is_whole = scanner.end().condition is JournalCondition.CLEAN
        try:
            lines = data[:-1].decode().split("\n")
        except UnicodeDecodeError:
            lines = []
        if not records or not is_whole or not lines or b"\0" in data:
            raise StoreError(
                f"what is to be appended to {self._place.thread_id} are no records that follow its "
                "last one",
                hint="nothing was appended; this is a fault of the program",
            )
        values = self._place.make_values(
            size=self._head.size,
            grown=len(data),
            last=head.seq,
            hash=head.hash,
            seqs=[record.seq for record in records],
            hashes=[record.hash for record in records],
            times=[record.at for record in records],
            lines=lines,
        )
        return _Append(statements.APPEND_RECORDS, values, statements.HAS_RECORD, head)

    def _make_piece(self, data: bytes) -> _Append:
        values = self._place.make_values(size=self._head.size, grown=len(data), body=data)
        head = Head(size=self._head.size + len(data))
        return _Append(statements.APPEND_PIECE, values, statements.HAS_PIECE, head)

    def cut(self, size: int) -> str:
        """See `HeldJournal.cut`; an append of records is there as a whole or not at all."""
        self._check_open()
        if size == self._head.size:
            return ""
        if self._place.is_records or size > self._head.size:
            raise StoreError(
                f"nothing of {self._place.thread_id} can be cut off at byte {size}: all of it was "
                "appended whole"
            )
        values = self._place.make_values(cut=size)
        if not self._lease.repeat(lambda: self._lease.query(statements.CUT_PIECES, values)):
            raise self._make_stale_error()
        self._head = Head(size=size)
        return ""

    def close(self) -> None:
        """See `HeldJournal.close`. If the database cannot be reached, it is told when it can."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if was_closed:
            return
        place = self._place
        self._lease.free((place.owner_id, place.thread_id), place.epoch)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreError(
                f"the journal of {self._place.thread_id} was given free", hint="hold it again"
            )

    def _make_stale_error(self) -> StaleWriterError:
        return StaleWriterError(
            f"thread {self._place.thread_id} is not as this process left it: another one was given "
            "it meanwhile",
            hint="nothing was appended; open the thread again",
        )
