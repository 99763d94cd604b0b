"""Endpoints about the server itself; the application answers them, in no transaction."""

from __future__ import annotations

from typing import Final

from treadle.api.error_codes import ErrorCode
from treadle.api.types import Health
from treadle.server.http.endpoints import JSON, Endpoint, EndpointRequest, EndpointResponse

TEXT: Final = "text/plain"

APPLICATION_ENDPOINTS: Final = frozenset(("health", "ready", "metrics", "openapi"))
"""The names of what the application answers by itself; these count for no rate."""


def _make_empty_response(_: EndpointRequest) -> EndpointResponse:
    return EndpointResponse()


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/health",
        name="health",
        about="Whether the server and its database work.",
        do=_make_empty_response,
        is_open=True,
        more_statuses=(503,),
        answer=Health,
    ),
    Endpoint(
        method="GET",
        path="/ready",
        name="ready",
        about="Whether requests are to be sent here: the tables are there, it is not stopping.",
        do=_make_empty_response,
        is_open=True,
        more_statuses=(503,),
        answer=Health,
    ),
    Endpoint(
        method="GET",
        path="/metrics",
        name="metrics",
        about="Numbers for Prometheus: for admins, and for callers on this machine.",
        do=_make_empty_response,
        is_open=True,
        answer=TEXT,
        codes=(ErrorCode.UNAUTHORIZED, ErrorCode.NOT_FOUND),
    ),
    Endpoint(
        method="GET",
        path="/api/openapi.json",
        name="openapi",
        about="This document.",
        do=_make_empty_response,
        is_open=True,
        answer=JSON,
    ),
)
