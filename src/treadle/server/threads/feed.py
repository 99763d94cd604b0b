"""The changes of all threads, in one order: machines and watchers follow it from where they were.

A change takes its number last in its transaction, and holds the counter until the end of it. So
whoever has seen a number has seen every smaller one. PostgreSQL waits neither for a round trip nor
for the disk while the counter is held, or there were one push per flush, however many processes
there are; it waits for the disk right after that, before anything is answered.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import Row, and_, bindparam, insert, or_, select, update

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.api.types import ThreadHead, ThreadHeads
from treadle.server.accounts import access
from treadle.server.context import Context, Verb
from treadle.server.data.round_trips import commit_with
from treadle.server.data.schema import changes as rows
from treadle.server.data.schema import counters, threads
from treadle.server.problems import Refusal, unauthorized

Kind: TypeAlias = Literal[
    "records", "document", "deleted", "restored", "visibility", "purged", "rewritten"
]

LIMIT_MAX: Final = 1000
"""Heads or changes in one answer."""

# Made once: every push executes them, and making them costs more than executing them.
_ALL_AT_ONCE: Final = """
    WITH taken AS (UPDATE counters SET value = value + 1 WHERE name = 'change' RETURNING value),
    noted AS (
        INSERT INTO changes (change, thread_id, version, hash, kind, at)
        SELECT value, %(thread_id)s, %(version)s, %(hash)s, %(kind)s, %(at)s FROM taken
    )
    UPDATE threads SET change = taken.value FROM taken WHERE threads.key = %(thread_id)s
    RETURNING taken.value, threads.id, threads.deleted_at, threads.purged_at
"""
"""For PostgreSQL, which does it in one go."""
_TAKE_NUMBER: Final = (
    update(counters)
    .where(counters.c.name == "change")
    .values(value=counters.c.value + 1)
    .returning(counters.c.value)
)
_NOTE_CHANGE: Final = insert(rows)
_NUMBER_ROW: Final = (
    update(threads)
    .where(threads.c.key == bindparam("its_key"))
    .values(change=bindparam("its_change"))
    .returning(threads.c.id, threads.c.deleted_at, threads.c.purged_at)
)


def announce(context: Context, key: str, mark: Mark, kind: Kind) -> ThreadHead:
    """Give a change its number; the last thing that a transaction does, and its end on PostgreSQL.

    Args:
        context: the request that changed the thread; its row stands as it is to be seen.
        key: of the thread.
        mark: where it is now.
        kind: what has changed.
    """
    values = {
        "thread_id": key,
        "version": mark.seq,
        "hash": mark.hash,
        "kind": kind,
        "at": context.now,
    }
    if context.db.dialect.name == "postgresql":
        numbered = commit_with(context.db, _ALL_AT_ONCE, values)
        change, thread_id, deleted_at, purged_at = numbered
    else:
        change = int(context.db.execute(_TAKE_NUMBER).scalar_one())
        context.db.execute(_NOTE_CHANGE, {"change": change, **values})
        its = {"its_key": key, "its_change": change}
        thread_id, deleted_at, purged_at = context.db.execute(_NUMBER_ROW, its).one()
    is_purged = purged_at is not None
    is_deleted = deleted_at is not None and not is_purged
    return ThreadHead(thread_id, mark.seq, mark.hash, change, is_deleted, is_purged)


def head_of(row: Row[Any]) -> ThreadHead:
    """Where a thread is, by its row."""
    is_purged = row.purged_at is not None
    is_deleted = row.deleted_at is not None and not is_purged
    return ThreadHead(row.id, row.version, row.hash, row.change, is_deleted, is_purged)


def heads(context: Context, after: int = 0, limit: int = LIMIT_MAX, stamp: str = "") -> ThreadHeads:
    """The caller's own threads of records that changed after a change, each as it is now.

    Deleted and purged ones are among them, so that other machines learn of it.

    Args:
        context: whose request it is.
        after: a change that the caller has seen; 0 for none.
        limit: how many, 1 to `LIMIT_MAX`.
        stamp: what the answer with that change had; empty if that is not known. If the change is
            not here, or is another one, an older backup was put back: the answer begins anew, and
            says so.

    Raises:
        Refusal: it is nobody in particular; a number is out of bounds.
    """
    if context.caller.user_id is None:
        raise unauthorized()
    _check(after, limit)
    is_another = bool(stamp) and stamp != _stamp_of(context, after)
    is_reset = after > 0 and (after > newest_change(context) or is_another)
    if is_reset:
        after = 0
    query = (
        select(threads)
        .where(threads.c.owner_id == context.caller.user_id, threads.c.change > after)
        .where(threads.c.kind == "records")
        .order_by(threads.c.change)
        .limit(limit + 1)
    )
    found = context.db.execute(query).all()
    listed = tuple(map(head_of, found[:limit]))
    last = listed[-1].change if listed else after
    return ThreadHeads(listed, last, len(found) <= limit, _stamp_of(context, last), is_reset)


def _stamp_of(context: Context, change: int) -> str:
    """What tells a change from any other that may take its number; empty if there is none.

    The ids and hashes in it cannot be guessed, so it tells nothing of threads of others.
    """
    query = select(rows.c.thread_id, rows.c.version, rows.c.hash).where(rows.c.change == change)
    found = context.db.execute(query).one_or_none()
    if found is None:
        return ""
    return sha256(f"{found.thread_id} {found.version} {found.hash}".encode()).hexdigest()[:16]


def changes(context: Context, after: int = 0, limit: int = LIMIT_MAX) -> list[ThreadHead]:
    """Changes of threads that the caller may see now, oldest first.

    What was deleted, or is not to be seen any more, is told to its owner alone.

    Args:
        context: whose request it is.
        after: the last change that the caller has seen; 0 for none.
        limit: how many, 1 to `LIMIT_MAX`.

    Raises: as `heads`.
    """
    if context.caller.user_id is None:
        raise unauthorized()
    _check(after, limit)
    is_own = threads.c.owner_id == context.caller.user_id
    may_see = access.visible(context.caller, context.now, verb=Verb.PULL)
    query = (
        select(rows, threads.c.id, threads.c.deleted_at, threads.c.purged_at)
        .join(threads, and_(threads.c.key == rows.c.thread_id))
        .where(rows.c.change > after, or_(is_own, may_see))
        .order_by(rows.c.change)
        .limit(limit)
    )
    found: list[ThreadHead] = []
    for row in context.db.execute(query):
        is_purged = row.purged_at is not None
        is_deleted = row.deleted_at is not None and not is_purged
        head = ThreadHead(row.id, row.version, row.hash, row.change, is_deleted, is_purged)
        found.append(head)
    return found


def newest_change(context: Context) -> int:
    """The number of the last change; who follows from there hears of what happens from now on."""
    query = select(counters.c.value).where(counters.c.name == "change")
    return int(context.db.execute(query).scalar_one())


def _check(after: int, limit: int) -> None:
    if not 0 <= after < 2**63 or not 1 <= limit <= LIMIT_MAX:
        raise Refusal(ErrorCode.BAD_REQUEST, f"limit is a number from 1 to {LIMIT_MAX}")
