"""The threads that hang together with one, as far as the caller may see them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, or_, select

from treadle.api.types import ListedThread
from treadle.pages.thread_family import FAMILY_COUNT_MAX
from treadle.server.accounts import access
from treadle.server.context import Context
from treadle.server.data.schema import threads
from treadle.server.search.thread_lists import read_listed_threads


def list_family(context: Context, own: Row[Any]) -> list[ListedThread]:
    """What a thread goes on from or works for, and all that hangs on those.

    What the caller may not see is left out, and what hangs on that alone with it.

    Args:
        context: whose request it is.
        own: the row of the thread, which the caller may see.
    """
    visible = access.make_visibility_condition(context.caller, context.now)
    columns: tuple[Any, ...] = (
        *(threads.c.key, threads.c.id),
        *(threads.c.forked_from, threads.c.parent),
    )
    top = own
    found = {own.key: own.id}
    while (above := top.forked_from or top.parent) and len(found) < FAMILY_COUNT_MAX:
        # Several may have a thread of this id: of the same person's is the likely one.
        is_anothers = threads.c.owner_id != own.owner_id
        query = select(*columns).where(visible, threads.c.id == above).order_by(is_anothers)
        row = context.db.execute(query.limit(1)).first()
        if row is None or row.key in found:
            break
        found[row.key] = row.id
        top = row
    todo = {*found.values()}
    while todo and len(found) < FAMILY_COUNT_MAX:
        hangs = or_(threads.c.forked_from.in_(todo), threads.c.parent.in_(todo))
        query = select(*columns).where(visible, hangs, threads.c.key.not_in(found))
        rows = context.db.execute(query.limit(FAMILY_COUNT_MAX - len(found))).all()
        found |= {row.key: row.id for row in rows}
        todo = {row.id for row in rows}
    shown = read_listed_threads(context.db, [*found])
    return [shown[key][0] for key in found if key in shown]
