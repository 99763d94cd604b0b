"""How a journal comes to be held: begun, or taken from nobody or from somebody who is dead."""

from __future__ import annotations

from msgspec import Struct
from sqlalchemy import Connection

from treadle.api.marks import Mark
from treadle.errors import ThreadBusyError, UnknownThreadError
from treadle.server.accounts import access
from treadle.server.context import Context, Principal
from treadle.server.journals import statements
from treadle.server.journals.postgres_journal import JournalPlace
from treadle.server.journals.writer_lease import Hold
from treadle.server.threads.push import choose_key, create_thread
from treadle.server.threads.push_validation import read_batch
from treadle.store.local_store import utc_now
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.facts import ThreadCreated
from treadle.thread.record import Head, JournalCondition, scan_journal


class NewJournal(Struct, frozen=True):
    """What a journal begins with."""

    thread_id: str
    data: bytes
    key: bytes | None

    @property
    def is_records(self) -> bool:
        """Whether these are the first records of this thread; a store takes whatever bytes."""
        found = scan_journal(self.data)
        if found.condition is not JournalCondition.CLEAN or not found.records:
            return False
        try:
            header = decode_entry(found.records[0].event)
        except UnknownEntryError:
            return False
        return isinstance(header, ThreadCreated) and header.thread == self.thread_id


def measure_beginning(new: NewJournal) -> Head:
    """Where a journal ends that has just begun."""
    return scan_journal(new.data).head if new.is_records else Head(size=len(new.data))


def begin_journal(
    db: Connection, owner: Principal, writer_id: int, new: NewJournal, *, was_tried: bool
) -> JournalPlace | None:
    """Begin a journal, with its key and its thread; `None` if another one has its id or its key.

    Args:
        db: a transaction that writes.
        owner: whose it becomes.
        writer_id: who holds it from then on.
        new: its beginning.
        was_tried: whether the same was tried before, without an answer: then it may be there.

    Raises:
        Refusal: it says that it is private, goes on from what is not here, or is too much.
    """
    context = Context(db, owner, utc_now())
    is_records = new.is_records
    place = JournalPlace(owner.user_id or 0, new.thread_id, 1, is_records)
    values = place.make_values(writer=writer_id)
    if was_tried and db.exec_driver_sql(statements.FIND_OWN_BEGINNING, values).one_or_none():
        return place
    head = measure_beginning(new)
    row = access.find_own_thread(context, new.thread_id) if is_records else None
    if row is not None and row.purged_at is None:
        return None
    key = choose_key(context, new.thread_id) if row is None else row.key
    more = {"thread_key": key if is_records else None, "key": new.key}
    values |= {**more, "seq": head.seq, "size": head.size}
    if db.exec_driver_sql(statements.INSERT_JOURNAL, values).one_or_none() is None:
        return None
    if is_records:
        batch = read_batch(Mark(), new.data)
        create_thread(context, new.thread_id, row, batch, journal_key=key)
    else:
        db.exec_driver_sql(statements.INSERT_PIECE, values | {"body": new.data})
    return place


def take_journal(db: Connection, hold: Hold, writer_id: int) -> tuple[JournalPlace, Head]:
    """Hold a journal for a process that does not hold it already; where it ends.

    Args:
        db: a transaction that writes.
        hold: whose, and which.
        writer_id: who holds it from then on.

    Raises:
        UnknownThreadError: there is no such thread.
        ThreadBusyError: somebody else holds it, who is alive.
    """
    owner_id, thread_id = hold
    values = {"owner": owner_id, "id": thread_id, "writer": writer_id}
    locked = db.exec_driver_sql(statements.LOCK_JOURNAL, values).one_or_none()
    if locked is None:
        db.exec_driver_sql(statements.ADOPT_THREAD, values)
        locked = db.exec_driver_sql(statements.LOCK_JOURNAL, values).one_or_none()
    if locked is None:
        raise UnknownThreadError(f"there is no thread {thread_id}")
    taken = db.exec_driver_sql(statements.TAKE_JOURNAL, values).one_or_none()
    if taken is None:
        name = db.exec_driver_sql(statements.NAME_HOLDER, values).scalar_one_or_none()
        raise ThreadBusyError(thread_id, name or "")
    place = JournalPlace(owner_id, thread_id, taken.epoch, locked.thread_key is not None)
    if locked.thread_key is None:
        return place, Head(size=db.exec_driver_sql(statements.MEASURE_PIECES, values).scalar_one())
    values["thread_key"] = locked.thread_key
    last = db.exec_driver_sql(statements.READ_LAST_RECORD, values).one()
    _, size = db.exec_driver_sql(statements.MEASURE_RECORDS, values).one()
    version = db.exec_driver_sql(statements.READ_VERSION, values).scalar_one()
    end = {"seq": last.seq, "size": size, "is_ahead": last.seq > version}
    db.exec_driver_sql(statements.SET_HEAD, values | end)
    return place, Head(last.seq, last.hash, last.at, size)
