"""Records whose texts are not taken in yet, and taking them in behind the pushes.

Making the words of a long text and their lists costs several times what keeping it does. So a push
leaves a row that names its records, in its own transaction; their texts are taken in by later ones,
a few at a time. A process that dies loses nothing of that: the row goes with the transaction that
has taken in what it names.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy import text as sql

from treadle.server.data.fold_cache import decode_record, read_lines
from treadle.server.data.round_trips import insert_later
from treadle.server.data.schema import records
from treadle.server.search.text_index import index_records, search_pending
from treadle.thread.record import Record

ROW_COUNT: Final = 200
"""So many pushes are taken in at a time."""
SIZE_MAX: Final = 256 * 1024
"""About so many bytes of records are taken in at a time: SQLite has no other writer meanwhile."""

_INSERT: Final = insert(search_pending)
_INSERT_SQL: Final = (
    "search_pending (thread_id, first, last, size)",
    "(%(thread_id)s, %(first)s, %(last)s, %(size)s)",
)
_SELECT_LINES: Final = (
    select(search_pending.c.thread_id, records.c.line)
    .join(records, records.c.thread_id == search_pending.c.thread_id)
    .where(records.c.seq >= search_pending.c.first, records.c.seq <= search_pending.c.last)
    .order_by(records.c.thread_id, records.c.seq)
)


def add_pending_records(db: Connection, key: str, new_records: Sequence[Record], size: int) -> None:
    """Have the texts of records taken in once this transaction is committed.

    Args:
        db: a transaction that writes.
        key: of the thread whose records they are.
        new_records: in order; they follow all that were named before.
        size: how many bytes they have.
    """
    row = {"thread_id": key, "first": new_records[0].seq, "last": new_records[-1].seq, "size": size}
    if db.dialect.name == "postgresql":
        insert_later(db, *_INSERT_SQL, [row])
    else:
        db.execute(_INSERT, row)


def index_oldest_pending(db: Connection) -> bool:
    """Take in the texts of a few pushes, the oldest first, or a piece of a large one.

    Several processes may do so: none takes what another one has begun with.

    Args:
        db: a transaction that writes, and does nothing else.

    Returns:
        Whether there was something to take in, so that there may be more.
    """
    if db.dialect.name == "postgresql":
        # What a power cut takes back is pending again: the rows go with the texts.
        db.execute(sql("SET LOCAL synchronous_commit = off"))
    query = select(search_pending).order_by(search_pending.c.id).limit(ROW_COUNT)
    rows = _select_indexable(db, db.execute(query.with_for_update(skip_locked=True)).all())
    if rows and rows[0].size > SIZE_MAX:
        _index_piece(db, rows[0])
    elif rows:
        sizes = accumulate(row.size for row in rows)
        _index_rows(db, [row for row, size in zip(rows, sizes, strict=True) if size <= SIZE_MAX])
    return bool(rows)


def _select_indexable(db: Connection, rows: Sequence[Row[Any]]) -> list[Row[Any]]:
    """Those of the threads of which nobody else is taking in earlier records."""
    if not rows:
        return []
    query = select(search_pending.c.thread_id, func.min(search_pending.c.id).label("oldest"))
    query = query.where(search_pending.c.id <= rows[-1].id).group_by(search_pending.c.thread_id)
    oldest = {row.thread_id: row.oldest for row in db.execute(query)}
    ids = {row.thread_id: row.id for row in reversed(rows)}
    return [row for row in rows if oldest.get(row.thread_id) == ids[row.thread_id]]


def _index_rows(db: Connection, rows: Sequence[Row[Any]]) -> None:
    """Take in all that these rows name; at most `SIZE_MAX` bytes of records."""
    mine = search_pending.c.id.in_([row.id for row in rows])
    found: dict[str, list[Record]] = {}
    for key, line in db.execute(_SELECT_LINES.where(mine)):
        found.setdefault(key, []).append(decode_record(line.encode()))
    for key, taken in found.items():
        index_records(db, key, taken)
    db.execute(delete(search_pending).where(mine))


def _index_piece(db: Connection, row: Row[Any]) -> None:
    """Take in the first of the records that a row names, about `SIZE_MAX` bytes."""
    found: list[Record] = []
    size = 0
    for line in read_lines(db, row.thread_id, row.first - 1, row.last):
        found.append(decode_record(line))
        size += len(line)
        if size >= SIZE_MAX:
            break
    index_records(db, row.thread_id, found)
    mine = search_pending.c.id == row.id
    if found and found[-1].seq < row.last:
        left = {"first": found[-1].seq + 1, "size": max(0, row.size - size)}
        db.execute(update(search_pending).where(mine).values(**left))
    else:
        db.execute(delete(search_pending).where(mine))


def find_newest_pending(db: Connection) -> int:
    """The last row that is there; 0 if none is."""
    return int(db.execute(select(func.coalesce(func.max(search_pending.c.id), 0))).scalar_one())


def has_pending_through(db: Connection, through: int) -> bool:
    """Whether one of the rows up to this one is still there."""
    query = select(search_pending.c.id).where(search_pending.c.id <= through).limit(1)
    return db.execute(query).one_or_none() is not None
