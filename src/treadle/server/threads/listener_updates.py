"""What one look at the database brings for all who listen: what is new, and who they are now."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from msgspec import Struct
from sqlalchemy import Connection, and_, select

from treadle.api.types import ThreadHead
from treadle.server.accounts import tokens
from treadle.server.accounts.access import AccessAttributes, get_deletion_state
from treadle.server.context import ANONYMOUS, Context, Principal
from treadle.server.data.schema import changes, threads
from treadle.server.threads.change_feed import find_newest_change, make_head

CHANGE_COUNT_MAX: Final = 1000
"""Changes that one look brings; what was before them, each listener reads for itself."""


class ChangeNotice(Struct, frozen=True):
    """A change, and what says who may hear of it: the thread as it is at the time of the look."""

    head: ThreadHead
    key: str
    place: AccessAttributes


class ListenerUpdate(Struct, frozen=True):
    """What a look found.

    Args:
        change: the newest one; nothing after it was seen.
        told: the changes after the last look, oldest first, at most `CHANGE_COUNT_MAX`.
        floor: `told` is complete after this change.
        asked: the tokens that were looked for.
        callers: whose they are, of those that are good.
    """

    change: int
    told: tuple[ChangeNotice, ...]
    floor: int
    asked: frozenset[int]
    callers: dict[int, Principal]


def read_listener_update(
    db: Connection, now: str, after: int | None, token_ids: Collection[int]
) -> ListenerUpdate:
    """Look once for all listeners of a process.

    Args:
        db: a transaction that reads.
        now: the time.
        after: the change up to which the last look went; `None`: there was none.
        token_ids: what the listeners have brought.
    """
    asked = frozenset(token_ids)
    callers = tokens.identify_callers(db, asked, now)
    newest = find_newest_change(Context(db, ANONYMOUS, now))
    if after is None or newest <= after:
        # Fewer than there were: an older backup was put back, and numbers begin anew from there.
        return ListenerUpdate(newest, (), newest, asked, callers)
    floor = max(after, newest - CHANGE_COUNT_MAX)
    query = (
        select(
            changes,
            threads.c.id,
            threads.c.owner_id,
            threads.c.organization_id,
            threads.c.visibility,
            threads.c.deleted_at,
            threads.c.purged_at,
        )
        .join(threads, and_(threads.c.key == changes.c.thread_id))
        .where(changes.c.change > floor, changes.c.change <= newest)
        .order_by(changes.c.change)
    )
    found = []
    for row in db.execute(query):
        place = AccessAttributes(
            row.owner_id, row.organization_id, row.visibility, get_deletion_state(row)
        )
        found.append(ChangeNotice(make_head(row), row.thread_id, place))
    return ListenerUpdate(newest, tuple(found), floor, asked, callers)
