"""Endpoints of legal holds, for admins."""

from __future__ import annotations

from typing import Final

from treadle.api.error_codes import ErrorCode
from treadle.api.retention_types import Hold, Holds, NewHold
from treadle.server.http.endpoints import Endpoint, EndpointRequest, EndpointResponse
from treadle.server.threads import legal_holds

_PATH: Final = "/api/admin/holds"


def _list(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(legal_holds.list_holds(request.context))


def _place(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(legal_holds.place_hold(request.context, request.body))


def _lift(request: EndpointRequest) -> EndpointResponse:
    legal_holds.lift_hold(request.context, int(request.path["hold_id"]))
    return EndpointResponse()


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path=_PATH,
        name="list_holds",
        about="Legal holds, those that were lifted among them.",
        do=_list,
        answer=Holds,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="POST",
        path=_PATH,
        name="place_hold",
        about="Let nobody remove anything of a thread, a user or an organization.",
        do=_place,
        is_write=True,
        body=NewHold,
        status=201,
        answer=Hold,
        codes=(ErrorCode.FORBIDDEN, ErrorCode.NOT_FOUND),
    ),
    Endpoint(
        method="DELETE",
        path=_PATH + "/{hold_id}",
        name="lift_hold",
        about="Let what was held be removed again.",
        do=_lift,
        is_write=True,
        status=204,
        codes=(ErrorCode.FORBIDDEN,),
    ),
)
