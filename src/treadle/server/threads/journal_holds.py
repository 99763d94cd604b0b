"""Threads to which workers append (`server/journals`), as all others who write see them.

A worker puts records beside the thread's row and does not touch the row. So a thread may be ahead
of its row, and whoever writes by the row waits until that is over.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, Row, delete, text

from treadle.server.context import Context
from treadle.server.data.database_errors import make_unavailable_refusal
from treadle.server.data.round_trips import execute_later
from treadle.server.data.schema import journals

NOW_MS: Final = "(extract(epoch from clock_timestamp()) * 1000)::bigint"
"""The time by the clock of the database: those of the machines may be an hour apart."""

_FIND_STATE: Final = text(f"""
    SELECT seq, problem, coalesce(lease_until > {NOW_MS}, false) AS is_held, name
    FROM journals LEFT JOIN writers ON writers.id = writer_id
    WHERE owner_id = :owner AND journals.id = :id
""")  # noqa: S608  ours
_TAKE: Final = text("""
    WITH free AS (
        SELECT owner_id, id FROM journals
        WHERE owner_id = :owner AND id = :id AND seq = :seq FOR UPDATE SKIP LOCKED
    )
    UPDATE journals SET epoch = epoch + 1, writer_id = NULL, seq = :new_seq FROM free
    WHERE journals.owner_id = free.owner_id AND journals.id = free.id
""")
"""Who has held it until a moment ago may be at its row, and then waits for the thread's: nobody
waits for him here."""
_NOTE_TAKEN_IN: Final = f"""
    UPDATE journals SET ahead_at = CASE WHEN seq > %(seq)s THEN {NOW_MS} END
    WHERE owner_id = %(owner)s AND id = %(id)s
"""  # noqa: S608


def take_from_workers(context: Context, row: Row[Any], seq: int) -> None:
    """See that no worker appends to a thread until this transaction ends, nor one who did before.

    Args:
        context: a transaction that writes.
        row: the thread's, held.
        seq: its last record from then on.

    Raises:
        Refusal: unavailable; a worker is at work on it, or its last records are not taken in yet.
    """
    its = {"owner": row.owner_id, "id": row.id}
    state = context.db.execute(_FIND_STATE, its).one()
    if why := _find_obstacle(state, row):
        raise make_unavailable_refusal(why)
    taken = context.db.execute(_TAKE, {**its, "seq": state.seq, "new_seq": seq})
    if taken.rowcount != 1:
        raise make_unavailable_refusal("a worker has just begun to work on this thread")


def find_obstacle(db: Connection, row: Row[Any]) -> str:
    """Why a thread cannot be taken from workers now; empty if it can."""
    if not row.has_journal:
        return ""
    return _find_obstacle(db.execute(_FIND_STATE, {"owner": row.owner_id, "id": row.id}).one(), row)


def _find_obstacle(state: Row[Any], row: Row[Any]) -> str:
    if state.is_held:
        return f"a worker is at work on this thread ({state.name})"
    if state.seq > row.version:
        why = f": {state.problem}" if state.problem else ""
        return f"the last records of a worker are not taken in yet{why}"
    return ""


def note_taken_in(context: Context, row: Row[Any], seq: int) -> None:
    """Say how far a thread's row is now, with what the transaction sends last."""
    execute_later(context.db, _NOTE_TAKEN_IN, {"owner": row.owner_id, "id": row.id, "seq": seq})


def remove_journal(context: Context, row: Row[Any]) -> None:
    """Nothing is left of a thread: there is nothing to append to, and its key is free."""
    mine = (journals.c.owner_id == row.owner_id, journals.c.id == row.id)
    context.db.execute(delete(journals).where(*mine))
