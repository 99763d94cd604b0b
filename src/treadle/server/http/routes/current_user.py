"""Endpoints about the caller: who it is, and its tokens."""

from __future__ import annotations

from typing import Final

from treadle.api.types import Me, NewToken, Token, Tokens
from treadle.server.accounts import accounts
from treadle.server.http.endpoints import Asked, Endpoint, EndpointResponse


def _me(asked: Asked) -> EndpointResponse:
    return EndpointResponse(accounts.me(asked.context))


def _tokens(asked: Asked) -> EndpointResponse:
    return EndpointResponse(accounts.own_tokens(asked.context))


def _make_token(asked: Asked) -> EndpointResponse:
    return EndpointResponse(accounts.make_own_token(asked.context, asked.body))


def _revoke_token(asked: Asked) -> EndpointResponse:
    accounts.revoke_own_token(asked.context, int(asked.path["token_id"]))
    return EndpointResponse()


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/me",
        name="me",
        about="Who the caller is.",
        do=_me,
        answer=Me,
    ),
    Endpoint(
        method="GET",
        path="/api/tokens",
        name="list_own_tokens",
        about="The caller's tokens, without what opens anything.",
        do=_tokens,
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
