"""Around every request: a line in the log, numbers, and an answer when the server has a fault."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from treadle.api.error_codes import ErrorCode
from treadle.server.http import logs, responses
from treadle.server.http.limits import ClientDisconnect
from treadle.server.http.metrics import Metrics
from treadle.server.http.responses import Send

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

UNKNOWN_ROUTE: Final = "-"
"""The route of what leads nowhere: paths that callers make up are not named."""

COUNTED_METHODS: Final = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
"""Others are counted together: callers can make up any."""


class RequestLogFields:
    """What is known of a request while it is answered, for its line in the log."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.route = UNKNOWN_ROUTE
        self.name = UNKNOWN_ROUTE
        self.user_id: int | None = None
        self.code: ErrorCode | None = None
        self.refusal_text: str | None = None
        self.status = 0
        self.has_read_body = False
        self.body_size = 0
        self.sent_size = 0

    @property
    def has_response_started(self) -> bool:
        """Whether the head of the answer is out."""
        return bool(self.status)


async def monitor_request(
    application: Application,
    scope: MutableMapping[str, Any],
    receive: Receive,
    send: Send,
    metrics: Metrics,
) -> None:
    """Have a request answered, and note how.

    Args:
        application: answers it; finds a `RequestLogFields` in the scope under `treadle`.
        scope: of ASGI.
        receive: of ASGI.
        send: of ASGI.
        metrics: the numbers of the process.

    Raises:
        Exception: the server's fault, when it is too late to say so; the connection ends.
    """
    seen = RequestLogFields(secrets.token_hex(8))
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
    except ClientDisconnect:
        logs.log_event("gone", request_id=seen.request_id, route=seen.route, level=logging.DEBUG)
    except Exception as error:  # whatever it is: the caller gets an answer, and the log a line
        logs.log_event(
            "fault",
            level=logging.ERROR,
            error=error,
            request_id=seen.request_id,
            route=seen.route,
        )
        if seen.has_response_started:
            raise
        seen.code = ErrorCode.INTERNAL
        is_page = responses.wants_page(scope)
        await responses.send_server_error(sent, seen.request_id, is_page=is_page)
    finally:
        _report_request(seen, metrics, scope["method"], time.perf_counter() - began)


def _report_request(
    log_fields: RequestLogFields, metrics: Metrics, method: str, time_s: float
) -> None:
    method = method if method in COUNTED_METHODS else "other"
    metrics.requests.labels(method, log_fields.route, str(log_fields.status)).inc()
    if log_fields.name != "changes":
        metrics.durations.labels(method, log_fields.route).observe(time_s)
    if log_fields.code is not None:
        metrics.refused.labels(log_fields.code.value).inc()
        if log_fields.code.status == 409:
            metrics.conflicts.inc()
        if log_fields.code is ErrorCode.UNAVAILABLE:
            metrics.database_errors.inc()
    logs.log_event(
        "request",
        method=method,
        route=log_fields.route,
        status=log_fields.status,
        code=log_fields.code.value if log_fields.code is not None else None,
        why=log_fields.refusal_text,
        duration_ms=round(time_s * 1000, 2),
        user_id=log_fields.user_id,
        request_id=log_fields.request_id,
        bytes_in=log_fields.body_size,
        bytes_out=log_fields.sent_size,
    )
