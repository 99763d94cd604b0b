"""What the team server is to tell elsewhere: the person's own webhooks there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from treadle.api.webhook_types import WEBHOOK_EVENTS, Webhook, WebhookEvent, WebhookLine
from treadle.errors import RemoteRefusedError, UsageError
from treadle.store.local_store import LocalStore
from treadle.sync.credentials import require_account
from treadle.sync.webhook_client import WebhookClient, open_webhook_client


def make_webhook(
    store: LocalStore, url: str, events: Sequence[WebhookEvent] = WEBHOOK_EVENTS
) -> Webhook:
    """Have the server tell an address of what happens in the person's threads.

    Args:
        store: knows who is logged in, and where.
        url: the address.
        events: of what.

    Raises:
        NotLoggedInError: there is no server.
        RemoteRefusedError: it sends nothing there.
        RemoteUnavailableError: it cannot be reached.
    """
    with _open(store) as client:
        return client.make(url, events)


def list_webhooks(store: LocalStore) -> tuple[WebhookLine, ...]:
    """The person's webhooks, newest first. Raises as `make_webhook`."""
    with _open(store) as client:
        return client.list().webhooks


def try_webhook(store: LocalStore, number: int) -> None:
    """Have a test sent, which enables a webhook again that was disabled.

    Raises:
        UsageError: there is no such webhook. Else as `make_webhook`.
    """
    with _open(store, number) as client:
        client.try_one(number)


def remove_webhook(store: LocalStore, number: int) -> None:
    """Have nothing sent there any more. Raises as `try_webhook`."""
    with _open(store, number) as client:
        client.remove(number)


@contextmanager
def _open(store: LocalStore, number: int | None = None) -> Iterator[WebhookClient]:
    try:
        with open_webhook_client(require_account(store.places, os.environ)) as client:
            yield client
    except RemoteRefusedError as error:
        if number is None or error.status != 404:
            raise
        raise UsageError(
            f"you have no webhook {number} there", hint="`treadle webhooks list` has all of them"
        ) from error
