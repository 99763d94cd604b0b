"""What of a push a person may want to be told: a question waits, something is over or has failed.

A push leaves a row for each webhook that wants to hear of it, in its own transaction. On PostgreSQL
it goes with what the transaction sends anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from sqlalchemy import bindparam, func, insert, literal_column, select

from treadle.api.webhook_types import WebhookEvent
from treadle.core.events import CancelRequested, CompactionFailed, LlmEvent
from treadle.server.accounts.times import shift_time
from treadle.server.context import Context
from treadle.server.data.round_trips import compile_postgresql, execute_later
from treadle.server.data.schema import webhook_deliveries, webhooks
from treadle.server.webhooks.delivery_queue import PENDING_MAX
from treadle.thread.codec import Entry
from treadle.thread.fold import CHAT, ThreadFold

NEWS_S_MAX: Final = 3600
"""What was longer ago is no news: the first sync of a machine tells nobody of all it ever did."""

_TURN_ENDS: Final[Mapping[type, WebhookEvent | None]] = MappingProxyType(
    {
        LlmEvent.Completed: "finished",
        LlmEvent.Error: "failed",
        CompactionFailed: "failed",
        CancelRequested: None,  # the person was there
    }
)
_TASK_ENDS: Final[Mapping[str, WebhookEvent]] = MappingProxyType(
    {"done": "finished", "error": "failed", "planning": "failed"}
)
"""By the state that a task rests in; in the last one no model has answered."""

_COLUMNS: Final = (
    *("message_id", "event", "thread_id", "version", "created_at", "attempt_count", "next_at"),
)
_PENDING: Final = (
    select(func.count()).where(webhook_deliveries.c.webhook_id == webhooks.c.id).scalar_subquery()
)
_INSERT: Final = insert(webhook_deliveries).from_select(
    ["webhook_id", *_COLUMNS],
    select(
        webhooks.c.id,
        *(bindparam(f"its_{name}", type_=webhook_deliveries.c[name].type) for name in _COLUMNS),
    ).where(
        webhooks.c.user_id == bindparam("its_user_id"),
        webhooks.c.disabled_at.is_(None),
        webhooks.c.events.like(bindparam("its_pattern")),
        literal_column(str(PENDING_MAX)) > _PENDING,
    ),
)
_INSERT_SQL: Final = compile_postgresql(_INSERT)


class Standing(Struct, frozen=True):
    """Where a thread was before records came: what it had asked, and whether it rested."""

    questions: frozenset[str]
    state: str
    is_at_rest: bool


def read_standing(fold: ThreadFold) -> Standing:
    """Where a thread is. Costs the same however long it is."""
    machine = fold.machine
    asked = frozenset(question.call.id for question in machine.questions)
    return Standing(asked, fold.state_kind, machine.is_at_rest)


def find_event(before: Standing, fold: ThreadFold, entries: Sequence[Entry]) -> WebhookEvent | None:
    """What has happened with these entries that a person may want to be told; pure.

    Args:
        before: where the thread was.
        fold: with the entries.
        entries: what came.
    """
    now = read_standing(fold)
    if fold.is_trashed or fold.is_private or fold.visibility == "private":
        return None
    if now.questions - before.questions:
        return "question"
    # What a sub-agent has ended, its agent goes on with.
    if now.questions or not now.is_at_rest or fold.header.parent is not None:
        return None
    if fold.header.machine == CHAT:
        ends = [kind for kind in map(type, entries) if kind in _TURN_ENDS]
        return _TURN_ENDS[ends[-1]] if ends else None
    has_moved = (now.state, now.is_at_rest) != (before.state, before.is_at_rest)
    return _TASK_ENDS.get(now.state) if has_moved else None


def queue_event(
    context: Context,
    key: str,
    owner_id: int | None,
    before: Standing,
    fold: ThreadFold,
    entries: Sequence[Entry],
) -> None:
    """Have those of the owner's webhooks told that want it, once this transaction is committed."""
    event = find_event(before, fold, entries)
    if event is None or fold.last_activity_at < shift_time(context.now, seconds=-NEWS_S_MAX):
        return
    told = f"{key} {fold.version} {fold.updated_at} {event}"
    values = {
        "its_message_id": f"msg_{sha256(told.encode()).hexdigest()[:32]}",
        "its_event": event,
        "its_thread_id": key,
        "its_version": fold.version,
        "its_created_at": context.now,
        "its_attempt_count": 0,
        "its_next_at": context.now,
        "its_user_id": owner_id,
        "its_pattern": f"%,{event},%",
    }
    if context.db.dialect.name == "postgresql":
        execute_later(context.db, _INSERT_SQL, values)
    else:
        context.db.execute(_INSERT, values)
