"""How a journal comes to be held: begun, or taken from nobody or from somebody who is dead."""

from __future__ import annotations

from typing import Final, Self

from msgspec import Struct
from sqlalchemy import Connection

from treadle.errors import ThreadBusyError, UnknownThreadError
from treadle.server.accounts import access
from treadle.server.context import Context, Principal
from treadle.server.data.round_trips import PreliminaryQuery, pop_query_rows
from treadle.server.journals import statements
from treadle.server.journals.postgres_journal import JournalPlace
from treadle.server.journals.writer_lease import Hold, WriterLease
from treadle.server.threads.push import create_thread
from treadle.server.threads.push_validation import make_batch
from treadle.store.local_store import utc_now
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.facts import ThreadCreated
from treadle.thread.record import Head, JournalCondition, JournalScan, scan_journal

_INSERT: Final = "journal"


class NewJournal(Struct, frozen=True):
    """What a journal begins with.

    `found` are its records, if these are the first ones of this thread; a store takes whatever
    bytes.
    """

    thread_id: str
    data: bytes
    key: bytes | None
    found: JournalScan | None

    @classmethod
    def of(cls, thread_id: str, data: bytes, key: str) -> Self:
        """One of these bytes."""
        found = scan_journal(data)
        are_first = found.condition is JournalCondition.CLEAN and bool(found.records)
        try:
            header = decode_entry(found.records[0].event) if are_first else None
        except UnknownEntryError:
            header = None
        is_its = isinstance(header, ThreadCreated) and header.thread == thread_id
        return cls(thread_id, data, key.encode() or None, found if is_its else None)

    @property
    def head(self) -> Head:
        """Where it ends."""
        return Head(size=len(self.data)) if self.found is None else self.found.head

    def make_query(self, owner: Principal, writer_id: int | None) -> PreliminaryQuery:
        """What puts it where nothing is; `begin_journal` goes on from there."""
        values = {
            "owner": owner.user_id,
            "user": owner.user,
            "id": self.thread_id,
            "is_records": self.found is not None,
            "key": self.key,
            "writer": writer_id,
            "seq": self.head.seq,
            "size": self.head.size,
        }
        return PreliminaryQuery(_INSERT, self.thread_id, statements.INSERT_JOURNAL, values)


def begin_journal(
    db: Connection, owner: Principal, writer_id: int | None, new: NewJournal, *, was_tried: bool
) -> JournalPlace | None:
    """Begin a journal, with its key and its thread; `None` if another one has its id or its key.

    Args:
        db: a transaction that writes, and has begun with `new.make_query`.
        owner: whose it becomes.
        writer_id: who holds it from then on; nobody if there is none.
        new: its beginning.
        was_tried: whether the same was tried before, without an answer: then it may be there.

    Raises:
        Refusal: it says that it is private, goes on from what is not here, or is too much.
    """
    place = JournalPlace(owner.user_id or 0, new.thread_id, 1, new.found is not None)
    values = place.make_values(writer=writer_id)
    inserted = pop_query_rows(db, _INSERT, new.thread_id)
    if not inserted:
        is_there = was_tried and db.exec_driver_sql(statements.FIND_OWN_BEGINNING, values).all()
        return place if is_there else None
    if new.found is None:
        db.exec_driver_sql(statements.INSERT_PIECE, values | {"body": new.data})
        return place
    context = Context(db, owner, utc_now())
    [row] = inserted
    purged = access.find_own_thread(context, new.thread_id) if row.was_purged else None
    batch = make_batch(new.found.records, new.data)
    create_thread(context, new.thread_id, purged, batch, journal_key=row.thread_key)
    return place


def take_journal(lease: WriterLease, hold: Hold) -> tuple[JournalPlace, Head]:
    """Hold a journal for a process that does not hold it already; where it ends.

    Args:
        lease: of the process that holds it from then on.
        hold: whose, and which.

    Raises:
        UnknownThreadError: there is no such thread.
        ThreadBusyError: somebody else holds it, who is alive.
    """
    owner_id, thread_id = hold
    values = {"owner": owner_id, "id": thread_id, "writer": lease.ensure_writer()}
    taking = (statements.LOCK_JOURNAL, statements.TAKE_JOURNAL)
    locked, taken = lease.query_together(taking, values)
    if not locked:
        lease.execute(statements.ADOPT_THREAD, values)
        locked, taken = lease.query_together(taking, values)
    if not locked:
        raise UnknownThreadError(f"there is no thread {thread_id}")
    if not taken:
        name = lease.query(statements.NAME_HOLDER, values)
        raise ThreadBusyError(thread_id, name[0][0] if name else "")
    [(epoch, is_records, size, seq, chain_hash, at)] = taken
    place = JournalPlace(owner_id, thread_id, epoch, is_records)
    return place, Head(seq, chain_hash, at, size) if is_records else Head(size=size)
