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
    FOLDS,
    Folded,
    begun,
    find_base,
    fold_at,
    header_of,
    keep_snapshot,
    lines_between,
    mark_of_base,
    record_of,
)
from treadle.server.data.schema import documents, threads
from treadle.server.threads.feed import announce
from treadle.server.threads.push import values_of
from treadle.thread.branches import branch_through, events_by_id
from treadle.thread.record import Record


class Fork(Struct, frozen=True):
    """A thread that goes on from another one: its row, the key of its base, its first line."""

    row: Row[Any]
    below: str
    first: bytes


def forks_of(context: Context, row: Row[Any]) -> list[Fork]:
    """All that goes on from a thread, at any depth, each after its base; their rows are held."""
    found: dict[str, Fork] = {}
    todo = {row.key: row.id}
    while todo:
        query = select(threads).where(threads.c.forked_from.in_(todo.values()))
        query = query.where(threads.c.kind == "records", threads.c.purged_at.is_(None))
        more: dict[str, str] = {}
        for one in context.db.execute(query.order_by(threads.c.key).with_for_update()).all():
            first = next(iter(lines_between(context.db, one.key, 0, 1)))
            base = header_of(record_of(first)).base
            below = None if base is None else find_base(context.db, base, one.owner_id)
            if below is not None and below in todo and one.key not in found and one.key != row.key:
                found[one.key] = Fork(one, below, first)
                more[one.key] = one.id
        todo = more
    return list(found.values())


def refold(
    context: Context, fork: Fork, row: Row[Any], old: Sequence[Record], new: Sequence[Record]
) -> None:
    """Make anew what is made of a fork, and tell its machines and watchers.

    Args:
        context: a transaction that writes; what it goes on from was done already.
        fork: the fork.
        row: of the thread that was rewritten.
        old: the records of that, as they were.
        new: those it has now.

    Raises:
        Refusal: unfoldable.
    """
    db, key = context.db, fork.row.key
    first = record_of(fork.first)
    db.execute(delete(documents).where(documents.c.thread_id == key))
    FOLDS.forget(key)
    folded = _begun(context, fork, row, old, new)
    folded.add_record(first, len(fork.first) + 1)
    keep_snapshot(db, folded)
    folded = fold_at(db, key, Mark(fork.row.version, fork.row.hash))
    values = values_of(context, folded, fork.row)
    db.execute(update(threads).where(threads.c.key == key).values(**values))
    announce(context, key, folded.mark, "rewritten")


def _begun(
    context: Context, fork: Fork, row: Row[Any], old: Sequence[Record], new: Sequence[Record]
) -> Folded:
    """The fold before a fork's first record.

    What it goes on from may be on a branch that the new records do not hold as a whole: then the
    old ones are folded once more, with what the scrub has left of each.
    """
    header = header_of(record_of(fork.first))
    base = header.base
    is_there = (
        base is None
        or fork.below != row.key
        or mark_of_base(context.db, row.key, base) is not None
        or branch_through(new, base.version, base.hash) is not None
    )
    if base is None or is_there:
        return begun(context.db, fork.row.key, header, fork.below)
    events = events_by_id(new)
    top = header_of(new[0])
    above = None if top.base is None else find_base(context.db, top.base, row.owner_id)
    folded = begun(context.db, row.key, top, above)
    for record in old[: base.version]:
        event = events.get(record.id, bytes(record.event))
        folded.add_record(
            Record(record.seq, record.at, msgspec.Raw(event), record.hash), len(event)
        )
    return Folded(fork.row.key, folded.fold.branch(header), Mark(), folded.size)
