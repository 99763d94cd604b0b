"""Who has read threads that are not their own: a row for each reader, thread and hour.

Noted is whoever was given what was said: a document, records, an output, a page, hits of a search.
What lists show (titles, states) is not noted, nor that an owner reads what is his.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, select, update

from treadle.api.audit_types import ReadLine, ReadWay, ThreadReads
from treadle.api.error_codes import ErrorCode
from treadle.server.accounts import access, audit
from treadle.server.accounts.accounts import check_admin
from treadle.server.context import Context, ThreadRead, Verb
from treadle.server.data import schema
from treadle.server.data.schema import thread_reads, threads, users
from treadle.server.refusals import Refusal
from treadle.server.threads.commits import insert_if_absent

ADDRESS_COUNT_MAX: Final = 20
"""Addresses of a row; of more it says that there were more."""
MORE: Final = "more"
ANYBODY: Final = "anybody"
HOUR_LENGTH: Final = len("2026-11-21T08")


class ReadNote(ThreadRead, frozen=True):
    """A read as it is kept: by whom and of what, how, from where, and in which hour."""

    way: ReadWay = "api"
    address: str = ""
    hour: str = ""


def keep_reads(db: Connection, notes: Mapping[ReadNote, str]) -> None:
    """Keep that threads were read; what is known already changes nothing.

    Args:
        db: a transaction that writes.
        notes: what was read, and when.
    """
    # In one order, so that two processes do not wait for each other.
    for note, at in sorted(notes.items(), key=lambda one: _get_place(one[0])):
        place = dict(
            zip(("thread_id", "hour", "user_id", "share_id"), _get_place(note), strict=True)
        )
        values = {"first_at": at, "last_at": at, "ways": note.way, "addresses": note.address}
        if insert_if_absent(db, thread_reads, {**place, **values}):
            continue
        mine = [thread_reads.c[name] == value for name, value in place.items()]
        row = db.execute(select(thread_reads).where(*mine).with_for_update()).one()
        ways, addresses = _add(row.ways, note.way), _add(row.addresses, note.address)
        if (ways, addresses) != (row.ways, row.addresses):
            later = {"last_at": max(row.last_at, at), "ways": ways, "addresses": addresses}
            db.execute(update(thread_reads).where(*mine).values(**later))


def _get_place(note: ReadNote) -> tuple[str, str, int, int]:
    return note.key, note.hour, note.user_id, note.share_id


def _add(words: str, word: str) -> str:
    """The words with one more; of too many it is said that there are more."""
    known = words.split()
    if word in known or MORE in known:
        return words
    return f"{words} {word if len(known) < ADDRESS_COUNT_MAX else MORE}"


def list_readers(
    context: Context, thread_id: str, limit: int = 100, before: int | None = None
) -> ThreadReads:
    """Who has read a thread, newest first, for its owner.

    Where a colleague has read it is told to admins alone: it may be his home.

    Args:
        context: whose request it is.
        thread_id: the thread.
        limit: how many lines, 1 to `audit.LINE_COUNT_MAX`.
        before: only lines with a smaller id, to go on where an answer ended.

    Raises:
        Refusal: the caller is not the owner; `limit` is out of bounds.
    """
    row = access.find_thread(context, thread_id, Verb.SHARE)
    return _list_reads(
        context, limit, before, thread_reads.c.thread_id == row.key, tells_colleagues=False
    )


def list_reads(
    context: Context,
    limit: int = 100,
    before: int | None = None,
    thread_id: str | None = None,
    user: str | None = None,
) -> ThreadReads:
    """Who has read threads of others, newest first, for admins.

    Args:
        context: whose request it is.
        limit: how many lines, 1 to `audit.LINE_COUNT_MAX`.
        before: only lines with a smaller id, to go on where an answer ended.
        thread_id: only of threads of this id.
        user: only what this user has read.

    Raises:
        Refusal: the caller is no admin; `limit` is out of bounds.
    """
    check_admin(context)
    conditions: list[ColumnElement[bool]] = []
    if thread_id is not None:
        conditions.append(threads.c.id == thread_id)
    if user is not None:
        conditions.append(users.c.name == user)
    return _list_reads(context, limit, before, *conditions)


def _list_reads(
    context: Context,
    limit: int,
    before: int | None,
    *conditions: ColumnElement[bool],
    tells_colleagues: bool = True,
) -> ThreadReads:
    if not 1 <= limit <= audit.LINE_COUNT_MAX:
        raise Refusal(ErrorCode.BAD_REQUEST, f"limit is a number from 1 to {audit.LINE_COUNT_MAX}")
    owners = schema.users.alias("owners")
    query: Any = (
        select(
            thread_reads, users.c.name, threads.c.id.label("thread"), owners.c.name.label("owner")
        )
        .select_from(thread_reads)
        .join(threads, threads.c.key == thread_reads.c.thread_id)
        .join(owners, owners.c.id == threads.c.owner_id)
        .outerjoin(users, users.c.id == thread_reads.c.user_id)
        .where(*conditions)
        .order_by(thread_reads.c.id.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(thread_reads.c.id < before)
    lines = []
    for row in context.db.execute(query):
        is_stranger = row.user_id == 0
        stranger = f"link {row.share_id}" if row.share_id else ANYBODY
        told = row.addresses.split() if is_stranger or tells_colleagues else ()
        lines.append(
            ReadLine(
                row.id,
                row.thread,
                row.owner,
                stranger if is_stranger else row.name,
                row.first_at,
                row.last_at,
                tuple(row.ways.split()),
                tuple(told),
            )
        )
    return ThreadReads(tuple(lines))
