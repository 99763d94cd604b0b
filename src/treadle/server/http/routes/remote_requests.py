"""Endpoints of what people ask of their own machines from elsewhere."""

from __future__ import annotations

from typing import Final

from treadle.api.types import (
    NewRemoteRequest,
    RemoteRequest,
    RemoteRequestQuery,
    RemoteRequests,
    RequestOutcome,
)
from treadle.server.http.endpoints import Endpoint, EndpointRequest, EndpointResponse
from treadle.server.threads import remote_requests

_PATH: Final = "/api/requests"
LISTENING: Final = "list_requests"
"""The endpoint that a machine asks for what is asked of it, again and again while it listens."""


def _leave(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(remote_requests.leave_request(request.context, request.body))


def _list(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(remote_requests.list_requests(request.context, request.query.machine))


def _get(request: EndpointRequest) -> EndpointResponse:
    found = remote_requests.get_request(request.context, request.path["request_id"])
    return EndpointResponse(found)


def _settle(request: EndpointRequest) -> EndpointResponse:
    request_id = request.path["request_id"]
    return EndpointResponse(
        remote_requests.settle_request(request.context, request_id, request.body)
    )


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path=_PATH,
        name="leave_request",
        about="Ask something of a machine of the caller; it is told by the stream of changes.",
        do=_leave,
        is_write=True,
        body=NewRemoteRequest,
        status=201,
        answer=RemoteRequest,
    ),
    Endpoint(
        method="GET",
        path=_PATH,
        name=LISTENING,
        about="What a machine of the caller has to look at.",
        do=_list,
        query=RemoteRequestQuery,
        answer=RemoteRequests,
    ),
    Endpoint(
        method="GET",
        path=_PATH + "/{request_id}",
        name="get_request",
        about="A request of the caller, and what became of it.",
        do=_get,
        answer=RemoteRequest,
    ),
    Endpoint(
        method="PUT",
        path=_PATH + "/{request_id}/outcome",
        name="settle_request",
        about="Say what became of a request, or take it back while nobody has it.",
        do=_settle,
        is_write=True,
        body=RequestOutcome,
        answer=RemoteRequest,
    ),
)
