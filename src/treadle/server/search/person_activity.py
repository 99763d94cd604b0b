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
    last = func.max(threads.c.last_activity_at)
    query = (
        select(users.c.id, users.c.name, func.count().label("thread_count"), last.label("last"))
        .join(threads, threads.c.owner_id == users.c.id)
        .where(visible, is_here)
        .group_by(users.c.id, users.c.name)
        .order_by(last.desc(), users.c.name)
        .limit(PERSON_COUNT_MAX)
    )
    found = []
    for row in context.db.execute(query).all():
        newest = (
            select(threads.c.key)
            .where(visible, is_here, threads.c.owner_id == row.id)
            .order_by(threads.c.last_activity_at.desc(), threads.c.key.desc())
            .limit(THREAD_COUNT)
        )
        keys = list(context.db.execute(newest).scalars())
        shown = read_listed_threads(context.db, keys)
        found.append(
            BusyPerson(row.name, row.thread_count, row.last, tuple(shown[key][0] for key in keys))
        )
    return tuple(found)
