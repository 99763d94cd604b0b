"""What a thread has used of models, by day and model: counted as its records come in.

So nobody reads records to say it. A thread has the sums of its own records: what a fork goes on
from is counted with its base, what a sub-agent used in its own thread. A scrub counts anew what it
leaves. A purge leaves the sums, which are no words: what was paid for was paid for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from treadle.core.llm import Usage
from treadle.server.data.fold_cache import (
    decode_header,
    decode_record,
    find_base_key,
    make_initial_fold,
)
from treadle.server.data.round_trips import compile_postgresql, execute_later
from treadle.server.data.schema import model_usage, records, threads
from treadle.server.refusals import Refusal
from treadle.server.threads.columns import truncate_for_index
from treadle.thread.codec import Entry, UnknownEntryError, decode_entry
from treadle.thread.record import Record
from treadle.thread.usage import NOT_SAID, SUB_AGENT, AskedModel, UsageState, find_asked_model

_NANOS: Final = 10**9
"""Costs are kept in thousandths of a millionth of a dollar."""
_TOKENS_MAX: Final = 10**9
_COST_MAX: Final = 1000
"""What one request may count for: no request has more, and no sum of forged ones leaves 64 bits."""
_TELLING: Final = ('"usage"', '"configured"', '"task_given"')
"""What stands in each record that matters here."""
_READ_COUNT: Final = 500

_SUMS: Final = (
    *("requests", "input_tokens", "output_tokens", "cache_read_tokens", "unpriced_tokens"),
    *("estimates", "cost_nanos"),
)
"""The columns that are added up."""

_DELETE: Final = delete(model_usage).where(model_usage.c.thread_id == bindparam("its_key"))


def _make_addition(dialect: Any) -> Any:
    made = dialect.insert(model_usage)
    sums = {name: model_usage.c[name] + made.excluded[name] for name in _SUMS}
    return made.on_conflict_do_update(index_elements=["thread_id", "day", "model"], set_=sums)


_ADD_SQLITE: Final = _make_addition(sqlite)
_ADD_SQL: Final = compile_postgresql(
    _make_addition(postgresql), ["thread_id", "day", "model", *_SUMS]
)
_DELETE_SQL: Final = compile_postgresql(_DELETE)


def count_usage(
    asked: AskedModel, new_records: Iterable[Record], entries: Iterable[Entry], now: str
) -> dict[tuple[str, str], dict[str, int]]:
    """What records say was used: the columns to add, by day of UTC and model.

    A day that is yet to come is that of a clock that was wrong, and today instead.

    The model is empty where nobody knows: what was merged of another machine.

    Args:
        asked: who is asked before the first of them.
        new_records: in order.
        entries: what they say.
        now: the time.
    """
    return _sum_usage(asked, zip(new_records, entries, strict=True), now)


def _sum_usage(
    asked: AskedModel, entries: Iterable[tuple[Record, Entry]], now: str
) -> dict[tuple[str, str], dict[str, int]]:
    state = UsageState(asked)
    sums: dict[tuple[str, str], dict[str, int]] = {}
    for record, entry in entries:
        found = state.read_entry(record.seq, record.at, entry)
        if found is None or found.purpose == SUB_AGENT:
            continue
        place = (min(record.at, now)[:10], truncate_for_index(found.model) or "")
        known = sums.setdefault(place, dict.fromkeys(_SUMS, 0))
        for name, count in _make_counts(found.usage).items():
            known[name] += count
    return sums


def _make_counts(used: Usage) -> dict[str, int]:
    """The columns of one request. A cost that is none leaves all of its tokens unpriced."""
    read, written, cached, unpriced = (
        min(max(0, count), _TOKENS_MAX)
        for count in (
            *(used.input_tokens, used.output_tokens),
            *(used.cache_read_tokens, used.unpriced_tokens),
        )
    )
    cost = used.cost_usd
    if cost is None or not cost.is_finite() or not 0 <= cost <= _COST_MAX:
        cost, unpriced = None, read + written
    nanos = 0 if cost is None else round(cost * _NANOS)
    return dict(
        zip(_SUMS, (1, read, written, cached, unpriced, used.estimated, nanos), strict=True)
    )


def add_usage(
    db: Connection, key: str, sums: dict[tuple[str, str], dict[str, int]], *, is_new: bool
) -> None:
    """Add what was counted to what is known of a thread; with `is_new`, in place of it."""
    rows = [
        {"thread_id": key, "day": day, "model": model, **one} for (day, model), one in sums.items()
    ]
    if db.dialect.name == "postgresql":
        if is_new:
            execute_later(db, _DELETE_SQL, {"its_key": key})
        for row in rows:
            execute_later(db, _ADD_SQL, row)
        return
    if is_new:
        db.execute(_DELETE, {"its_key": key})
    if rows:
        db.execute(_ADD_SQLITE, rows)


def find_uncounted_thread(db: Connection, after: str) -> str | None:
    """The next thread that came in before anything was counted; `None` if none is left.

    Args:
        db: a transaction.
        after: the key of the last one; empty before the first.
    """
    query = select(threads.c.key).where(threads.c.key > after, threads.c.kind == "records")
    query = query.where(threads.c.is_usage_counted.is_(False)).order_by(threads.c.key).limit(1)
    return db.execute(query).scalar_one_or_none()


def count_thread(db: Connection, key: str, now: str) -> None:
    """Count a thread that came in before anything was counted, unless another process is at it.

    Args:
        db: a transaction that writes, and does nothing else.
        key: of the thread.
        now: the time.
    """
    mine = (threads.c.key == key, threads.c.is_usage_counted.is_(False))
    row = db.execute(select(threads).where(*mine).with_for_update(skip_locked=True)).first()
    if row is not None:
        sums = _sum_usage(_find_first_asked(db, row), _read_telling(db, row), now)
        add_usage(db, key, sums, is_new=True)
        db.execute(update(threads).where(*mine).values(is_usage_counted=True))


def _read_telling(db: Connection, row: Row[Any]) -> Iterable[tuple[Record, Entry]]:
    """The records of a thread that say something, which the database chooses by their text."""
    seq = 0
    while True:
        query = (
            select(records.c.seq, records.c.line)
            .where(records.c.thread_id == row.key)
            .where(records.c.seq > seq, records.c.seq <= row.version)
            .where(or_(*(records.c.line.contains(one) for one in _TELLING)))
            .order_by(records.c.seq)
            .limit(_READ_COUNT)
        )
        found: Sequence[Any] = db.execute(query).all()
        for one in found:
            record = decode_record(one.line.encode())
            try:
                yield record, decode_entry(record.event)
            except UnknownEntryError:  # it was taken in by a newer version
                continue
        if not found:
            return
        seq = found[-1].seq


def _find_first_asked(db: Connection, row: Row[Any]) -> AskedModel:
    """Who is asked before a record of a thread says so: a fork goes on as its base was."""
    first = db.execute(
        select(records.c.line).where(records.c.thread_id == row.key, records.c.seq == 1)
    ).scalar_one_or_none()
    try:
        header = None if first is None else decode_header(decode_record(first.encode()))
        if header is None or header.base is None:
            return NOT_SAID
        below = find_base_key(db, header.base, row.owner_id)
        return find_asked_model(make_initial_fold(db, row.key, header, below).fold)
    except Refusal:
        return NOT_SAID  # what it goes on from is not here, or cannot be read
