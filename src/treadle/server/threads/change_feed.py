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
from treadle.server.data.round_trips import execute_and_commit
from treadle.server.data.schema import changes as rows
from treadle.server.data.schema import counters, threads
from treadle.server.refusals import Refusal, make_unauthorized_refusal

ChangeKind: TypeAlias = Literal[
    "records", "document", "deleted", "restored", "visibility", "purged", "rewritten", "request"
]

LIMIT_MAX: Final = 1000
"""Heads or changes in one answer."""

# Made once: every push executes them, and making them costs more than executing them.
_PUBLISH_SQL: Final = """
    WITH taken AS (UPDATE counters SET value = value + 1 WHERE name = 'change' RETURNING value),
    noted AS (
        INSERT INTO changes (change, thread_id, version, hash, kind, at)
        SELECT value, %(thread_id)s, %(version)s, %(hash)s, %(kind)s, %(at)s FROM taken
    )
    UPDATE threads SET change = taken.value FROM taken WHERE threads.key = %(thread_id)s
    RETURNING taken.value, threads.id, threads.deleted_at, threads.purged_at
"""
"""For PostgreSQL, which does it in one go."""
_INCREMENT_COUNTER: Final = (
    update(counters)
    .where(counters.c.name == "change")
    .values(value=counters.c.value + 1)
    .returning(counters.c.value)
)
_INSERT_CHANGE: Final = insert(rows)
_SET_THREAD_CHANGE: Final = (
    update(threads)
    .where(threads.c.key == bindparam("its_key"))
    .values(change=bindparam("its_change"))
    .returning(threads.c.id, threads.c.deleted_at, threads.c.purged_at)
)


def publish_change(context: Context, key: str, mark: Mark, kind: ChangeKind) -> ThreadHead:
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
        numbered = execute_and_commit(context.db, _PUBLISH_SQL, values)
        change, thread_id, deleted_at, purged_at = numbered
    else:
        change = int(context.db.execute(_INCREMENT_COUNTER).scalar_one())
        context.db.execute(_INSERT_CHANGE, {"change": change, **values})
        its = {"its_key": key, "its_change": change}
        thread_id, deleted_at, purged_at = context.db.execute(_SET_THREAD_CHANGE, its).one()
    is_purged = purged_at is not None
    is_deleted = deleted_at is not None and not is_purged
    return ThreadHead(thread_id, mark.seq, mark.hash, change, is_deleted, is_purged)


def make_head(row: Row[Any]) -> ThreadHead:
    """Where a thread is, by its row."""
    is_purged = row.purged_at is not None
    is_deleted = row.deleted_at is not None and not is_purged
    return ThreadHead(row.id, row.version, row.hash, row.change, is_deleted, is_purged)


def list_heads(
    context: Context, after: int = 0, limit: int = LIMIT_MAX, stamp: str = ""
) -> ThreadHeads:
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
        raise make_unauthorized_refusal()
    _check_range(after, limit)
    is_another = bool(stamp) and stamp != _make_stamp(context, after)
    is_reset = after > 0 and (after > find_newest_change(context) or is_another)
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
    listed = tuple(map(make_head, found[:limit]))
    last = listed[-1].change if listed else after
    return ThreadHeads(listed, last, len(found) <= limit, _make_stamp(context, last), is_reset)


def _make_stamp(context: Context, change: int) -> str:
    """What tells a change from any other that may take its number; empty if there is none.

    The ids and hashes in it cannot be guessed, so it tells nothing of threads of others.
    """
    query = select(rows.c.thread_id, rows.c.version, rows.c.hash).where(rows.c.change == change)
    found = context.db.execute(query).one_or_none()
    if found is None:
        return ""
    return sha256(f"{found.thread_id} {found.version} {found.hash}".encode()).hexdigest()[:16]


def list_changes(context: Context, after: int = 0, limit: int = LIMIT_MAX) -> list[ThreadHead]:
    """Changes of threads that the caller may see now, oldest first.

    What was deleted, or is not to be seen any more, is told to its owner alone.

    Args:
        context: whose request it is.
        after: the last change that the caller has seen; 0 for none.
        limit: how many, 1 to `LIMIT_MAX`.

    Raises: as `heads`.
    """
    if context.caller.user_id is None:
        raise make_unauthorized_refusal()
    _check_range(after, limit)
    is_own = threads.c.owner_id == context.caller.user_id
    may_see = access.make_visibility_condition(context.caller, context.now, verb=Verb.PULL)
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


def find_newest_change(context: Context) -> int:
    """The number of the last change; who follows from there hears of what happens from now on."""
    query = select(counters.c.value).where(counters.c.name == "change")
    return int(context.db.execute(query).scalar_one())


def _check_range(after: int, limit: int) -> None:
    if not 0 <= after < 2**63 or not 1 <= limit <= LIMIT_MAX:
        raise Refusal(ErrorCode.BAD_REQUEST, f"limit is a number from 1 to {LIMIT_MAX}")
