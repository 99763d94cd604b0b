"""Endpoints of invitations: made, listed and revoked; they are accepted on a page."""

from __future__ import annotations

from typing import Final

from treadle.api.error_codes import ErrorCode
from treadle.api.types import Invitation, Invitations, NewInvitation
from treadle.server.accounts import invitations
from treadle.server.http.endpoints import Endpoint, EndpointRequest, EndpointResponse

_PATH: Final = "/api/invitations"


def _make(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(
        invitations.make_invitation(request.context, request.body, request.origin)
    )


def _list(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(invitations.list_invitations(request.context))


def _revoke(request: EndpointRequest) -> EndpointResponse:
    invitations.revoke_invitation(request.context, int(request.path["invitation_id"]))
    return EndpointResponse()


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path=_PATH,
        name="make_invitation",
        about="Make a link by which one person becomes a user of an organization.",
        do=_make,
        is_write=True,
        body=NewInvitation,
        status=201,
        answer=Invitation,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="GET",
        path=_PATH,
        name="list_invitations",
        about="Invitations to where the caller may invite, without what opens anything.",
        do=_list,
        answer=Invitations,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="DELETE",
        path=f"{_PATH}/{{invitation_id}}",
        name="revoke_invitation",
        about="Let nobody in by an invitation any more.",
        do=_revoke,
        is_write=True,
        status=204,
        codes=(ErrorCode.FORBIDDEN,),
    ),
)
