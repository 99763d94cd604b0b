"""Endpoints about the caller: who it is, and its tokens."""

from __future__ import annotations

from typing import Final

from treadle.api.types import Me, NewToken, Token, Tokens
from treadle.server.accounts import accounts
from treadle.server.http.endpoints import Endpoint, EndpointRequest, EndpointResponse


def _get_current_user(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(accounts.get_current_user(request.context))


def _list_tokens(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(accounts.list_own_tokens(request.context))


def _make_token(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(accounts.make_own_token(request.context, request.body))


def _revoke_token(request: EndpointRequest) -> EndpointResponse:
    accounts.revoke_own_token(request.context, int(request.path["token_id"]))
    return EndpointResponse()


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/me",
        name="me",
        about="Who the caller is.",
        do=_get_current_user,
        answer=Me,
    ),
    Endpoint(
        method="GET",
        path="/api/tokens",
        name="list_own_tokens",
        about="The caller's tokens, without what opens anything.",
        do=_list_tokens,
        answer=Tokens,
    ),
    Endpoint(
        method="POST",
        path="/api/tokens",
        name="make_own_token",
        about="Make another token for the caller; it is not shown again.",
        do=_make_token,
        is_write=True,
        body=NewToken,
        status=201,
        answer=Token,
    ),
    Endpoint(
        method="DELETE",
        path="/api/tokens/{token_id}",
        name="revoke_own_token",
        about="Make one of the caller's tokens worthless, from the next request on.",
        do=_revoke_token,
        is_write=True,
        status=204,
    ),
)
