"""What goes on from a thread that a scrub has rewritten: its records stay, all made of them goes.

A fork knows its base by the first hash of a record, which a scrub leaves. But what the server has
made of a fork (its row, its snapshots, its folds in memory) holds the history that it shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Row, delete, select, update

from treadle.api.marks import Mark
from treadle.server.context import Context
from treadle.server.data.fold_cache import (
    FOLD_CACHE,
    CachedFold,
    decode_header,
    decode_record,
    find_base_key,
    find_base_mark,
    load_fold,
    make_initial_fold,
    read_lines,
    store_snapshot,
)
from treadle.server.data.schema import documents, threads
from treadle.server.threads.push import make_thread_values
from treadle.thread.branches import collect_merged_branch, map_events_by_id
from treadle.thread.record import Record


class StoredFork(Struct, frozen=True):
    """A thread that goes on from another one: its row, the key of its base, its first line."""

    row: Row[Any]
    below: str
    first: bytes


def find_forks(context: Context, row: Row[Any]) -> list[StoredFork]:
    """All that goes on from a thread, at any depth, each after its base; their rows are held."""
    found: dict[str, StoredFork] = {}
    todo = {row.key: row.id}
    while todo:
        query = select(threads).where(threads.c.forked_from.in_(todo.values()))
        query = query.where(threads.c.kind == "records", threads.c.purged_at.is_(None))
        more: dict[str, str] = {}
        for one in context.db.execute(query.order_by(threads.c.key).with_for_update()).all():
            first = next(iter(read_lines(context.db, one.key, 0, 1)))
            base = decode_header(decode_record(first)).base
            below = None if base is None else find_base_key(context.db, base, one.owner_id)
            if below is not None and below in todo and one.key not in found and one.key != row.key:
                found[one.key] = StoredFork(one, below, first)
                more[one.key] = one.id
        todo = more
    return list(found.values())


def rebuild_fork(
    context: Context,
    fork: StoredFork,
    row: Row[Any],
    old_records: Sequence[Record],
    new_records: Sequence[Record],
) -> Mark:
    """Make anew what is made of a fork; where it stands, for its machines and watchers.

    Args:
        context: a transaction that writes; what it goes on from was done already.
        fork: the fork.
        row: of the thread that was rewritten.
        old_records: the records of that, as they were.
        new_records: those it has now.

    Raises:
        Refusal: unfoldable.
    """
    db, key = context.db, fork.row.key
    first = decode_record(fork.first)
    db.execute(delete(documents).where(documents.c.thread_id == key))
    FOLD_CACHE.remove_thread(key)
    folded = _make_fork_fold(context, fork, row, old_records, new_records)
    folded.add_record(first, len(fork.first) + 1)
    store_snapshot(db, folded)
    folded = load_fold(db, key, Mark(fork.row.version, fork.row.hash))
    values = make_thread_values(context, folded, fork.row)
    db.execute(update(threads).where(threads.c.key == key).values(**values))
    return folded.mark


def _make_fork_fold(
    context: Context,
    fork: StoredFork,
    row: Row[Any],
    old_records: Sequence[Record],
    new_records: Sequence[Record],
) -> CachedFold:
    """The fold before a fork's first record.

    What it goes on from may be on a branch that the new records do not hold as a whole: then the
    old ones are folded once more, with what the scrub has left of each.
    """
    header = decode_header(decode_record(fork.first))
    base = header.base
    is_there = (
        base is None
        or fork.below != row.key
        or find_base_mark(context.db, row.key, base) is not None
        or collect_merged_branch(new_records, base.version, base.hash) is not None
    )
    if base is None or is_there:
        return make_initial_fold(context.db, fork.row.key, header, fork.below)
    events = map_events_by_id(new_records)
    top = decode_header(new_records[0])
    above = None if top.base is None else find_base_key(context.db, top.base, row.owner_id)
    folded = make_initial_fold(context.db, row.key, top, above)
    for record in old_records[: base.version]:
        event = events.get(record.id, bytes(record.event))
        folded.add_record(
            Record(record.seq, record.at, msgspec.Raw(event), record.hash), len(event)
        )
    return CachedFold(fork.row.key, folded.fold.make_fork(header), Mark(), folded.size)
