"""Who works on what: the people whose threads a caller sees, each with those that changed last."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from sqlalchemy import func, select

from treadle.api.types import ListedThread
from treadle.server.accounts import access
from treadle.server.context import Context
from treadle.server.data.schema import threads, users
from treadle.server.search.thread_lists import read_listed_threads

PERSON_COUNT_MAX: Final = 50
THREAD_COUNT: Final = 3
"""Threads that are shown of each."""


class BusyPerson(Struct, frozen=True):
    """Somebody of the caller's organization: how many threads the caller sees, and the newest."""

    name: str
    count: int
    last_activity_at: str
    threads: tuple[ListedThread, ...]


def list_busy_people(context: Context) -> tuple[BusyPerson, ...]:
    """The people of the caller's organization, who did something last first."""
    visible = access.make_visibility_condition(context.caller, context.now)
    is_here = threads.c.organization_id == context.caller.organization_id
    newest_first = (threads.c.last_activity_at.desc(), threads.c.key.desc())
    owner = threads.c.owner_id
    seen = (
        select(
            owner,
            threads.c.key,
            func.count().over(partition_by=owner).label("thread_count"),
            func.max(threads.c.last_activity_at).over(partition_by=owner).label("last"),
            func.row_number().over(partition_by=owner, order_by=newest_first).label("nth"),
        )
        .where(visible, is_here)
        .subquery()
    )
    query = (
        select(users.c.name, seen.c.key, seen.c.thread_count, seen.c.last)
        .join(seen, seen.c.owner_id == users.c.id)
        .where(seen.c.nth <= THREAD_COUNT)
        .order_by(seen.c.last.desc(), users.c.name, seen.c.nth)
        .limit(PERSON_COUNT_MAX * THREAD_COUNT)
    )
    rows = context.db.execute(query).all()
    shown = read_listed_threads(context.db, [row.key for row in rows])
    found: dict[str, BusyPerson] = {}
    for row in rows:
        before = found.get(row.name)
        newest = (*(before.threads if before else ()), shown[row.key][0])
        found[row.name] = BusyPerson(row.name, row.thread_count, row.last, newest)
    return tuple(found.values())[:PERSON_COUNT_MAX]
