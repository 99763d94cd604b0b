"""The webhooks of a user: made, listed, tried and removed by nobody else."""

from __future__ import annotations

import base64
import secrets
from typing import Final

from sqlalchemy import ColumnElement, delete, func, insert, select, update

from treadle.api.error_codes import ErrorCode
from treadle.api.webhook_types import WEBHOOK_EVENTS, NewWebhook, Webhook, WebhookLine, Webhooks
from treadle.server.accounts import audit
from treadle.server.context import Context
from treadle.server.data.schema import webhook_deliveries, webhooks
from treadle.server.refusals import Refusal, make_not_found_refusal, make_unauthorized_refusal
from treadle.web.public_requests import PublicRequests
from treadle.web.web_address import WebFailure, read_address

COUNT_MAX: Final = 20
"""Webhooks of a user."""

SECRET_SIZE: Final = 32
"""Random bytes."""

TEST_EVENT: Final = "test"


def make_webhook(
    context: Context, new: NewWebhook, origin: str, *, allows_private: bool
) -> Webhook:
    """Have the caller told of events at an address.

    Args:
        context: a transaction that writes.
        new: the address, and of what.
        origin: what links to threads begin with, without a slash at the end.
        allows_private: whether the address may be one of a private network.

    Raises:
        Refusal: nobody is told there; the caller has many already, or is nobody in particular.
    """
    user_id = _require_user_id(context)
    requests = PublicRequests(allows_private=allows_private, connect_s_max=1, total_s_max=1)
    try:
        why = requests.find_refusal(read_address(new.url))
    except WebFailure as failure:
        why = failure.message
    if why:
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            f"nothing can be sent there: {why}",
            hint="`treadle serve --private-webhooks` lets private networks be told",
        )
    count = select(func.count()).where(webhooks.c.user_id == user_id)
    if context.db.execute(count).scalar_one() >= COUNT_MAX:
        raise Refusal(ErrorCode.BAD_REQUEST, f"you have {COUNT_MAX} webhooks", hint="remove some")
    secret = f"whsec_{base64.b64encode(secrets.token_bytes(SECRET_SIZE)).decode()}"
    events = tuple(one for one in WEBHOOK_EVENTS if one in new.events)
    made_id = context.db.execute(
        insert(webhooks)
        .values(
            user_id=user_id,
            url=new.url,
            secret=secret,
            events=f",{','.join(events)},",
            origin=origin,
            created_at=context.now,
        )
        .returning(webhooks.c.id)
    ).scalar_one()
    # The path may be a secret of the receiver's.
    host = read_address(new.url).authority
    audit.log_action(context, "webhook_made", detail=f"webhook {made_id} to {host}")
    return Webhook(made_id, new.url, events, secret, context.now)


def list_webhooks(context: Context) -> Webhooks:
    """The caller's webhooks, newest first, without what signs.

    Raises:
        Refusal: the caller is nobody in particular.
    """
    waiting = (
        select(func.count())
        .where(webhook_deliveries.c.webhook_id == webhooks.c.id)
        .scalar_subquery()
    )
    query = (
        select(webhooks, waiting.label("pending"))
        .where(webhooks.c.user_id == _require_user_id(context))
        .order_by(webhooks.c.id.desc())
    )
    return Webhooks(
        tuple(
            WebhookLine(
                row.id,
                row.url,
                tuple(one for one in WEBHOOK_EVENTS if f",{one}," in row.events),
                row.created_at,
                row.pending,
                row.delivered_at,
                row.failing_since,
                row.problem or "",
                row.disabled_at is not None,
            )
            for row in context.db.execute(query)
        )
    )


def try_webhook(context: Context, webhook_id: int) -> None:
    """Have a webhook told that this is a test; one that was disabled is enabled by that.

    Raises:
        Refusal: the caller has no such webhook.
    """
    change = update(webhooks).where(*_find_own(context, webhook_id))
    healed = {"disabled_at": None, "failing_since": None, "problem": None}
    if context.db.execute(change.values(**healed)).rowcount == 0:
        raise make_not_found_refusal()
    queue = webhook_deliveries.c
    is_test = (queue.webhook_id == webhook_id) & (queue.event == TEST_EVENT)
    context.db.execute(delete(webhook_deliveries).where(is_test))  # one at a time
    context.db.execute(
        insert(webhook_deliveries).values(
            webhook_id=webhook_id,
            message_id=f"msg_{secrets.token_hex(16)}",
            event=TEST_EVENT,
            version=0,
            created_at=context.now,
            attempt_count=0,
            next_at=context.now,
        )
    )


def remove_webhook(context: Context, webhook_id: int) -> None:
    """Send nothing there any more, also of what waits.

    Raises:
        Refusal: the caller has no such webhook.
    """
    mine = _find_own(context, webhook_id)
    if context.db.execute(select(webhooks.c.id).where(*mine)).one_or_none() is None:
        raise make_not_found_refusal()
    waiting = webhook_deliveries.c.webhook_id == webhook_id
    context.db.execute(delete(webhook_deliveries).where(waiting))
    context.db.execute(delete(webhooks).where(*mine))
    audit.log_action(context, "webhook_removed", detail=f"webhook {webhook_id}")


def _find_own(context: Context, webhook_id: int) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return webhooks.c.id == webhook_id, webhooks.c.user_id == _require_user_id(context)


def _require_user_id(context: Context) -> int:
    if context.caller.user_id is None:
        raise make_unauthorized_refusal()
    return context.caller.user_id
