"""Endpoints for admins: who at a provider of OpenID Connect is which user."""

from __future__ import annotations

from typing import Final

from treadle.api.error_codes import ErrorCode
from treadle.api.types import Identities, IdentityLine, NewIdentity
from treadle.server.accounts import identities
from treadle.server.http.endpoints import Endpoint, EndpointRequest, EndpointResponse

_PATH: Final = "/api/admin/identities"


def _list(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(identities.list_identities(request.context))


def _add(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(identities.add_identity(request.context, request.body))


def _remove(request: EndpointRequest) -> EndpointResponse:
    identities.remove_any_identity(request.context, int(request.path["identity_id"]))
    return EndpointResponse()


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path=_PATH,
        name="list_identities",
        about="Who at a provider of OpenID Connect is which user.",
        do=_list,
        answer=Identities,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="POST",
        path=_PATH,
        name="add_identity",
        about="Say who at a provider a user is.",
        do=_add,
        is_write=True,
        body=NewIdentity,
        status=201,
        answer=IdentityLine,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="DELETE",
        path=f"{_PATH}/{{identity_id}}",
        name="remove_identity",
        about="Let nobody in by an identity any more; whom it has signed in is signed out.",
        do=_remove,
        is_write=True,
        status=204,
        codes=(ErrorCode.FORBIDDEN,),
    ),
)
