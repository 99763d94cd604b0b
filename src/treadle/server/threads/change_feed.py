"""The changes of all threads, in one order: machines and watchers follow it from where they were.

A change takes its number last in its transaction, and nobody takes another until the end of it. So
whoever has seen a number has seen every smaller one. PostgreSQL waits neither for a round trip nor
for the disk meanwhile, or there were one push per flush, however many processes there are; it waits
for the disk right after that, before anything is answered. Its counter is a row: who comes as it is
free takes it, though others wait. A lock that is handed to who waits longest made all wait for who
sleeps, and four processes a quarter slower.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import Row, and_, bindparam, func, or_, select, update

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.api.types import ThreadHead, ThreadHeads
from treadle.server.accounts import access
from treadle.server.context import Context, Verb
from treadle.server.data.round_trips import execute_and_commit, execute_later
from treadle.server.data.schema import changes as rows
from treadle.server.data.schema import threads
from treadle.server.refusals import Refusal, make_unauthorized_refusal

ChangeKind: TypeAlias = Literal[
    "records", "document", "deleted", "restored", "visibility", "purged", "rewritten", "request"
]

LIMIT_MAX: Final = 1000
"""Heads or changes in one answer."""

_INSERT_SQLITE: Final = (
    "INSERT INTO changes (thread_id, version, hash, kind, at) "
    "VALUES (:thread_id, :version, :hash, :kind, :at) RETURNING change"
)
"""SQLite gives the number that follows the largest; it has one writer at a time."""
# Made once: every push executes it, and making it costs more than executing it.
_UPDATE_THREAD: Final = (
    update(threads)
    .where(threads.c.key == bindparam("its_key"))
    .returning(threads.c.change, threads.c.id, threads.c.deleted_at, threads.c.purged_at)
)


@cache
def _make_publish_sql(columns: tuple[str, ...]) -> str:
    """For PostgreSQL, which does it in one go."""
    news = "".join(f", {name} = %(its_{name})s" for name in columns)
    return f"""
    WITH taken AS (UPDATE counters SET value = value + 1 WHERE name = 'change' RETURNING value),
    noted AS (
        INSERT INTO changes (change, thread_id, version, hash, kind, at)
        SELECT value, %(thread_id)s, %(version)s, %(hash)s, %(kind)s, %(at)s FROM taken
    )
    UPDATE threads SET change = taken.value{news} FROM taken WHERE key = %(thread_id)s
    RETURNING taken.value, id, deleted_at, purged_at
"""  # noqa: S608  names of columns


def publish_change(
    context: Context,
    key: str,
    mark: Mark,
    kind: ChangeKind,
    columns: Mapping[str, object] = MappingProxyType({}),
    others: Mapping[str, Mark] = MappingProxyType({}),
) -> ThreadHead:
    """Give a change its number; the last thing that a transaction does, and its end on PostgreSQL.

    Args:
        context: the request that changed the thread; its row is held.
        key: of the thread.
        mark: where it is now.
        kind: what has changed.
        columns: what its row says now, where that does not stand there yet: written once with the
            number.
        others: threads that the same has happened to with it, which get numbers before it.
    """
    if context.db.dialect.name == "postgresql":
        for other, its_mark in others.items():
            values = _make_values(context, other, its_mark, kind)
            execute_later(context.db, _make_publish_sql(()), values)
        values = _make_values(context, key, mark, kind)
        values |= {f"its_{name}": value for name, value in columns.items()}
        numbered = execute_and_commit(context.db, _make_publish_sql(tuple(columns)), values)
    else:
        for other, its_mark in others.items():
            _publish_on_sqlite(context, _make_values(context, other, its_mark, kind))
        numbered = _publish_on_sqlite(context, _make_values(context, key, mark, kind), **columns)
    change, thread_id, deleted_at, purged_at = numbered
    is_purged = purged_at is not None
    is_deleted = deleted_at is not None and not is_purged
    return ThreadHead(thread_id, mark.seq, mark.hash, change, is_deleted, is_purged)


def _make_values(context: Context, key: str, mark: Mark, kind: ChangeKind) -> dict[str, object]:
    named = {"thread_id": key, "version": mark.seq, "hash": mark.hash}
    return {**named, "kind": kind, "at": context.now}


def _publish_on_sqlite(context: Context, values: dict[str, object], **more: object) -> Row[Any]:
    change = int(context.db.exec_driver_sql(_INSERT_SQLITE, values).scalar_one())
    its = {"its_key": values["thread_id"], "change": change, **more}
    return context.db.execute(_UPDATE_THREAD, its).one()


def make_head(row: Row[Any]) -> ThreadHead:
    """Where a thread is, by its row; or by a change with what the row says of its end."""
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
    return [make_head(row) for row in context.db.execute(query)]


def find_newest_change(context: Context) -> int:
    """The number of the last change; who follows from there hears of what happens from now on."""
    return context.db.execute(select(func.max(rows.c.change))).scalar_one() or 0


def _check_range(after: int, limit: int) -> None:
    if not 0 <= after < 2**63 or not 1 <= limit <= LIMIT_MAX:
        raise Refusal(ErrorCode.BAD_REQUEST, f"limit is a number from 1 to {LIMIT_MAX}")
