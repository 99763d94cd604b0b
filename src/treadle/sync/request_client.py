"""What people ask of their machines by way of a server: left there, fetched, told of its end."""

from __future__ import annotations

from typing import Self
from urllib.parse import quote

import msgspec

from treadle.api.types import (
    NewRemoteRequest,
    RemoteRequest,
    RemoteRequests,
    RequestOutcome,
)
from treadle.sync.credentials import Account
from treadle.sync.http_transport import JSON_TYPE, ServerTransport


class RequestClient:
    """Requests at a server. Each method raises as those of `Remote`.

    Args:
        account: where it is, and who asks.
    """

    def __init__(self, account: Account) -> None:
        self._transport = ServerTransport(account.url, account.token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._transport.close()

    def leave(self, new: NewRemoteRequest) -> RemoteRequest:
        """Leave a request for a machine."""
        return self._send("POST", "/api/requests", new)

    def list_open(self, machine: str) -> tuple[RemoteRequest, ...]:
        """What a machine has to look at."""
        found = self._transport.request_value(
            "GET", "/api/requests", RemoteRequests, params={"machine": machine}
        )
        return found.requests

    def get(self, request_id: str) -> RemoteRequest:
        """A request, and what became of it."""
        return self._transport.request_value("GET", _make_path(request_id), RemoteRequest)

    def settle(self, request_id: str, outcome: RequestOutcome) -> RemoteRequest:
        """Say what became of a request."""
        return self._send("PUT", f"{_make_path(request_id)}/outcome", outcome)

    def _send(self, method: str, path: str, value: object) -> RemoteRequest:
        body, headers = msgspec.json.encode(value), {"content-type": JSON_TYPE}
        return self._transport.request_value(
            method, path, RemoteRequest, body=body, headers=headers
        )


def _make_path(request_id: str) -> str:
    return f"/api/requests/{quote(request_id, safe='')}"
