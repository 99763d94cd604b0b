"""What workers have recorded comes into lists, pages, commits and the search, behind their backs.

A worker waits for its records to be durable, and for nothing else. What the server makes of them is
made a moment later, by the code that takes in a push, a thread at a time and a few records of it.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, Row, select, text, update

from treadle.api.marks import SEQ_MAX, Mark
from treadle.server.context import Context, Principal
from treadle.server.data.fold_cache import decode_record, load_fold, read_lines
from treadle.server.data.round_trips import clear_state
from treadle.server.data.schema import journals, threads
from treadle.server.refusals import Refusal
from treadle.server.threads.push import RECORDS_KIND, append_records
from treadle.server.threads.push_validation import Batch
from treadle.thread.output_references import list_output_references

SIZE_MAX: Final = 256 * 1024
"""About so many bytes of records are taken in at a time."""

_FIND_OLDEST: Final = (
    select(threads)
    .join(journals, journals.c.thread_key == threads.c.key)
    .where(journals.c.ahead_at.is_not(None), journals.c.problem == "")
    .order_by(journals.c.ahead_at)
    .limit(1)
    # Not for an update of its key: the records that a worker appends meanwhile refer to it.
    .with_for_update(of=threads, key_share=True, skip_locked=True)
)
_COPY_BLOB: Final = text("""
    INSERT INTO blobs (thread_id, sha256, size, body)
    SELECT :key, :sha256, length(body), body FROM (
        SELECT body FROM journal_blobs WHERE owner_id = :owner AND sha256 = :sha256
        UNION ALL
        SELECT body FROM blobs JOIN threads ON key = thread_id
        WHERE owner_id = :owner AND sha256 = :sha256
        LIMIT 1
    ) AS found
    ON CONFLICT DO NOTHING RETURNING size
""")


def take_in_oldest_journal(db: Connection, now: str) -> bool:
    """Take in a few records of the thread that has waited longest.

    Several processes may do so: none takes a thread that another one is at.

    Args:
        db: a transaction that writes, and does nothing else.
        now: the time.

    Returns:
        Whether there was a thread that waited, so that there may be more.
    """
    if db.dialect.name != "postgresql":
        return False  # there are no workers
    row = db.execute(_FIND_OLDEST).first()
    if row is None:
        return False
    caller = Principal(user_id=row.owner_id, organization_id=row.organization_id)
    context = Context(db, caller, now)
    try:
        _take_in(context, row)
    except Refusal as refusal:
        # A newer version has made them, say: it is not tried again before somebody works on it.
        clear_state(db)
        mine = (journals.c.owner_id == row.owner_id, journals.c.id == row.id)
        db.execute(update(journals).where(*mine).values(problem=str(refusal)))
    return True


def _take_in(context: Context, row: Row[Any]) -> None:
    lines = _read_next_lines(context.db, row)
    if not lines:  # what was ahead is gone
        mine = (journals.c.owner_id == row.owner_id, journals.c.id == row.id)
        context.db.execute(update(journals).where(*mine).values(ahead_at=None))
        return
    batch = Batch([decode_record(line) for line in lines], lines)
    folded = load_fold(context.db, row.key, Mark(row.version, row.hash))
    append_records(
        context, _copy_blobs(context.db, row, batch), folded, batch, RECORDS_KIND, is_kept=True
    )


def _read_next_lines(db: Connection, row: Row[Any]) -> list[bytes]:
    lines: list[bytes] = []
    size = 0
    for line in read_lines(db, row.key, row.version, SEQ_MAX):
        size += len(line) + 1
        if lines and size > SIZE_MAX:
            break
        lines.append(line)
    return lines


def _copy_blobs(db: Connection, row: Row[Any], batch: Batch) -> Row[Any]:
    """Put the large outputs that records name beside their thread; the row with its new size."""
    size = 0
    for digest in {ref.sha256 for _, ref in list_output_references(batch.records)}:
        values = {"key": row.key, "sha256": digest, "owner": row.owner_id}
        size += db.execute(_COPY_BLOB, values).scalar_one_or_none() or 0
    if not size:
        return row
    mine = threads.c.key == row.key
    db.execute(update(threads).where(mine).values(size=threads.c.size + size))
    return db.execute(select(threads).where(mine)).one()
