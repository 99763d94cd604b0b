"""Around every request: a line in the log, numbers, and an answer when the server has a fault."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from treadle.api.error_codes import ErrorCode
from treadle.server.http import logs, responses
from treadle.server.http.limits import Disconnected
from treadle.server.http.metrics import Metrics
from treadle.server.http.responses import Send

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

NOWHERE: Final = "-"
"""The route of what leads nowhere: paths that callers make up are not named."""

METHODS: Final = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
"""Others are counted together: callers can make up any."""


class Seen:
    """What is known of a request while it is answered, for its line in the log."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.route = NOWHERE
        self.name = NOWHERE
        self.user_id: int | None = None
        self.code: ErrorCode | None = None
        self.why: str | None = None
        self.status = 0
        self.has_read = False
        self.body_size = 0
        self.sent_size = 0

    @property
    def has_begun(self) -> bool:
        """Whether the head of the answer is out."""
        return bool(self.status)


async def observed(
    application: Application,
    scope: MutableMapping[str, Any],
    receive: Receive,
    send: Send,
    metrics: Metrics,
) -> None:
    """Have a request answered, and note how.

    Args:
        application: answers it; finds a `Seen` in the scope under `treadle`.
        scope: of ASGI.
        receive: of ASGI.
        send: of ASGI.
        metrics: the numbers of the process.

    Raises:
        Exception: the server's fault, when it is too late to say so; the connection ends.
    """
    seen = Seen(secrets.token_hex(8))
    scope["treadle"] = seen
    began = time.perf_counter()

    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            seen.status = message["status"]
            message["headers"].append((b"x-request-id", seen.request_id.encode()))
        else:
            seen.sent_size += len(message.get("body", b""))
        await send(message)

    try:
        await application(scope, receive, sent)
    except Disconnected:
        logs.say("gone", request_id=seen.request_id, route=seen.route, level=logging.DEBUG)
    except Exception as error:  # whatever it is: the caller gets an answer, and the log a line
        logs.say(
            "fault",
            level=logging.ERROR,
            error=error,
            request_id=seen.request_id,
            route=seen.route,
        )
        if seen.has_begun:
            raise
        seen.code = ErrorCode.INTERNAL
        await responses.failure(sent, seen.request_id)
    finally:
        _note(seen, metrics, scope["method"], time.perf_counter() - began)


def _note(seen: Seen, metrics: Metrics, method: str, time_s: float) -> None:
    method = method if method in METHODS else "other"
    metrics.requests.labels(method, seen.route, str(seen.status)).inc()
    if seen.name != "changes":
        metrics.durations.labels(method, seen.route).observe(time_s)
    if seen.code is not None:
        metrics.refused.labels(seen.code.value).inc()
        if seen.code.status == 409:
            metrics.conflicts.inc()
        if seen.code is ErrorCode.UNAVAILABLE:
            metrics.database_errors.inc()
    logs.say(
        "request",
        method=method,
        route=seen.route,
        status=seen.status,
        code=seen.code.value if seen.code is not None else None,
        why=seen.why,
        duration_ms=round(time_s * 1000, 2),
        user_id=seen.user_id,
        request_id=seen.request_id,
        bytes_in=seen.body_size,
        bytes_out=seen.sent_size,
    )
