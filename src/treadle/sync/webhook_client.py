"""The caller's webhooks at a server, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from treadle.api.webhook_types import NewWebhook, Webhook, WebhookEvent, Webhooks
from treadle.sync.credentials import Account
from treadle.sync.http_transport import JSON_TYPE, ServerTransport

_PATH: Final = "/api/webhooks"


class WebhookClient:
    """Asks about webhooks. Raises as `Remote`.

    Args:
        transport: leads to the server.
    """

    def __init__(self, transport: ServerTransport) -> None:
        self._transport = transport

    def make(self, url: str, events: Sequence[WebhookEvent]) -> Webhook:
        """Make one; what signs stands in the answer, and nowhere else ever again."""
        return self._transport.request_value(
            "POST",
            _PATH,
            Webhook,
            body=msgspec.json.encode(NewWebhook(url, tuple(events))),
            headers={"content-type": JSON_TYPE},
        )

    def list(self) -> Webhooks:
        """All of the caller's."""
        return self._transport.request_value("GET", _PATH, Webhooks)

    def try_one(self, number: int) -> None:
        """Have a test sent."""
        self._transport.request_status("POST", f"{_PATH}/{number}/test")

    def remove(self, number: int) -> None:
        """Have nothing sent there any more."""
        self._transport.request_status("DELETE", f"{_PATH}/{number}")


@contextmanager
def open_webhook_client(account: Account) -> Iterator[WebhookClient]:
    """A client for an account; its connections are given back at the end."""
    transport = ServerTransport(account.url, account.token)
    try:
        yield WebhookClient(transport)
    finally:
        transport.close()
