"""The deliveries that wait: who takes one has it for a time, and says what became of it.

A process that dies between the delivery and the word that it was taken leaves one whose time runs
out: it is sent again, under the same id. So each is sent at least once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Row, delete, func, select, update

from treadle.server.accounts import audit
from treadle.server.accounts.times import shift_time
from treadle.server.context import ANONYMOUS, Context
from treadle.server.data.schema import threads, users, webhook_deliveries, webhooks
from treadle.server.webhooks.webhook_settings import TEST_EVENT
from treadle.thread.document import ThreadSummary
from treadle.thread.safe_text import sanitize_text

RETRY_DELAYS_S: Final = (5, 30, 120, 600, 3600, *[4 * 3600] * 6, *[12 * 3600] * 8)
"""After each attempt that failed; when they are used up, five days later, it is given up."""

DISABLE_DAYS: Final = 5
"""So long a webhook may fail, without a delivery that is taken, before it is disabled."""

LEASE_S: Final = 60
"""So long whoever has taken a delivery has it; sending takes less."""

PENDING_MAX: Final = 1000
"""Deliveries of a webhook that wait: of what happens while so many do, it is not told."""

USER_SHARE_MAX: Final = 2
"""Deliveries of a user's webhooks that go out at a time: slow receivers hold up no others'."""

TITLE_LENGTH_MAX: Final = 200
PROBLEM_LENGTH_MAX: Final = 300


class Delivery(Struct, frozen=True):
    """What is to be sent, where, and what signs it."""

    id: int
    webhook_id: int
    user_id: int
    url: str
    secret: str
    message_id: str
    attempt_count: int
    body: bytes


def has_due(db: Connection, now: str) -> bool:
    """Whether a delivery is due. Asked often, and answered by an index."""
    query = select(webhook_deliveries.c.id).where(webhook_deliveries.c.next_at <= now).limit(1)
    return db.execute(query).one_or_none() is not None


def take_due(db: Connection, now: str, count: int, busy: Mapping[int, int]) -> list[Delivery]:
    """Take deliveries that are due, one of each webhook and few of each user at most.

    So what is slow delays itself alone, however much of it is due.

    Args:
        db: a transaction that writes.
        now: the time.
        count: how many at most.
        busy: webhooks that the caller is sending to, and whose each is.
    """
    queue = webhook_deliveries.c
    oldest = func.min(queue.next_at)
    due = (
        select(queue.webhook_id, webhooks.c.user_id)
        .join(webhooks, webhooks.c.id == queue.webhook_id)
        .where(queue.next_at <= now, queue.webhook_id.not_in([*busy]))
        .group_by(queue.webhook_id, webhooks.c.user_id)
        .order_by(oldest, queue.webhook_id)
    )
    shares = Counter(busy.values())
    found: list[Delivery] = []
    for webhook_id, user_id in db.execute(due).all():
        if len(found) == count:
            break
        if shares[user_id] < USER_SHARE_MAX:
            taken = _take_oldest(db, now, webhook_id)
            found += [taken] if taken else []
            shares[user_id] += 1
    return found


def _take_oldest(db: Connection, now: str, webhook_id: int) -> Delivery | None:
    """Take what of a webhook is due for longest; `None` if there is nothing that may be sent."""
    queue = webhook_deliveries.c
    query = (
        select(
            webhook_deliveries,
            webhooks.c.user_id,
            webhooks.c.url,
            webhooks.c.secret,
            webhooks.c.origin,
            webhooks.c.disabled_at,
            users.c.disabled_at.label("user_disabled_at"),
        )
        .join(webhooks, webhooks.c.id == queue.webhook_id)
        .join(users, users.c.id == webhooks.c.user_id)
        .where(queue.next_at <= now, queue.webhook_id == webhook_id)
        .order_by(queue.next_at, queue.id)
        .limit(1)
        .with_for_update(of=webhook_deliveries, skip_locked=True)
    )
    row = db.execute(query).one_or_none()
    if row is None:  # another process takes it just now
        return None
    told = _describe(db, row) if row.disabled_at is row.user_disabled_at is None else None
    if told is None:
        db.execute(delete(webhook_deliveries).where(queue.id == row.id))
        return None
    attempts = row.attempt_count + 1
    values = {"attempt_count": attempts, "next_at": shift_time(now, seconds=LEASE_S)}
    db.execute(update(webhook_deliveries).where(queue.id == row.id).values(**values))
    return Delivery(
        row.id,
        row.webhook_id,
        row.user_id,
        row.url,
        row.secret,
        row.message_id,
        attempts,
        msgspec.json.encode({"type": row.event, "timestamp": row.created_at, "data": told}),
    )


def _describe(db: Connection, row: Row[Any]) -> dict[str, object] | None:
    """What is said of the thread, as it is now; `None` if nothing may be said any more."""
    if row.event == TEST_EVENT:
        return {"url": f"{row.origin}/account"}
    query = select(threads).where(threads.c.key == row.thread_id)
    thread = db.execute(query).one_or_none()
    if thread is None or thread.deleted_at or thread.purged_at or thread.visibility == "private":
        return None
    summary = msgspec.json.decode(thread.summary, type=ThreadSummary)
    title = sanitize_text(" ".join((summary.title or "").split()))
    return {
        "thread": thread.id,
        "title": title[:TITLE_LENGTH_MAX],
        "version": row.version,
        "questions": summary.questions,
        "url": f"{row.origin}/threads/{thread.id}",
    }


def finish(db: Connection, delivery: Delivery, now: str, problem: str) -> None:
    """Note what became of a delivery.

    Args:
        db: a transaction that writes.
        delivery: as it was taken.
        now: the time.
        problem: why it was not taken there; empty if it was.
    """
    mine = webhook_deliveries.c.id == delivery.id
    its = update(webhooks).where(webhooks.c.id == delivery.webhook_id)
    tried = delivery.attempt_count
    if problem and tried <= len(RETRY_DELAYS_S):
        again = shift_time(now, seconds=RETRY_DELAYS_S[tried - 1])
        db.execute(update(webhook_deliveries).where(mine).values(next_at=again))
    else:
        db.execute(delete(webhook_deliveries).where(mine))
    if not problem:
        db.execute(its.values(delivered_at=now, failing_since=None, problem=None))
        return
    known = select(webhooks).where(webhooks.c.id == delivery.webhook_id)
    row = db.execute(known).one_or_none()
    if row is None:  # removed meanwhile
        return
    since = row.failing_since or now
    is_over = since <= shift_time(now, days=-DISABLE_DAYS)
    db.execute(
        its.values(
            failing_since=since,
            problem=problem[:PROBLEM_LENGTH_MAX],
            disabled_at=now if is_over else row.disabled_at,
        )
    )
    if is_over and row.disabled_at is None:
        theirs = webhook_deliveries.c.webhook_id == delivery.webhook_id
        db.execute(delete(webhook_deliveries).where(theirs))
        told = f"webhook {delivery.webhook_id}, which failed since {since}"
        audit.log_action(Context(db, ANONYMOUS, now), "webhook_disabled", detail=told)
