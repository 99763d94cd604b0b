"""The values in requests and answers about webhooks."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct

WebhookEvent: TypeAlias = Literal["question", "finished", "failed"]
"""A call waits for a person's yes; a turn or a task is over; it has ended with an error."""

WEBHOOK_EVENTS: Final[tuple[WebhookEvent, ...]] = ("question", "finished", "failed")


class NewWebhook(Struct, frozen=True, forbid_unknown_fields=True):
    """A webhook to be made; by default for all events."""

    url: Annotated[str, Meta(min_length=1, max_length=1000)]
    events: Annotated[tuple[WebhookEvent, ...], Meta(min_length=1, max_length=3)] = WEBHOOK_EVENTS


class Webhook(Struct, frozen=True):
    """A webhook that was made; `secret` signs what is sent, and is not shown again."""

    id: int
    url: str
    events: tuple[WebhookEvent, ...]
    secret: str
    created_at: str


class WebhookLine(Struct, frozen=True):
    """A webhook as it is listed.

    `pending` deliveries wait, `delivered_at` is when the last one was taken. `failing_since` and
    `problem` say that and why none is taken since then; after days of that `is_disabled`.
    """

    id: int
    url: str
    events: tuple[WebhookEvent, ...]
    created_at: str
    pending: int = 0
    delivered_at: str | None = None
    failing_since: str | None = None
    problem: str = ""
    is_disabled: bool = False


class Webhooks(Struct, frozen=True):
    """The caller's webhooks, newest first."""

    webhooks: tuple[WebhookLine, ...]
