"""Endpoints for admins: organizations, users, everybody's tokens, the audit log."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import SEQ_MAX
from treadle.api.types import (
    Audit,
    NewOrganization,
    NewToken,
    NewUser,
    Organization,
    Organizations,
    Token,
    Tokens,
    User,
    Users,
    UserUpdate,
)
from treadle.server.accounts import accounts, audit
from treadle.server.http.endpoints import Asked, Endpoint, EndpointResponse

_CODES: Final = (ErrorCode.FORBIDDEN,)


class AuditQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A page of the audit log, newest first; `before` is the id of the last line seen."""

    limit: Annotated[int, Meta(ge=1, le=audit.LINE_COUNT_MAX)] = 100
    before: Annotated[int, Meta(ge=1, le=SEQ_MAX)] | None = None


def _organizations(asked: Asked) -> EndpointResponse:
    return EndpointResponse(accounts.organizations(asked.context))


def _make_organization(asked: Asked) -> EndpointResponse:
    return EndpointResponse(accounts.make_organization(asked.context, asked.body))


def _users(asked: Asked) -> EndpointResponse:
    return EndpointResponse(accounts.users(asked.context))


def _make_user(asked: Asked) -> EndpointResponse:
    return EndpointResponse(accounts.make_user(asked.context, asked.body))


def _user(asked: Asked) -> EndpointResponse:
    return EndpointResponse(accounts.user(asked.context, asked.path["name"]))


def _change_user(asked: Asked) -> EndpointResponse:
    return EndpointResponse(accounts.change_user(asked.context, asked.path["name"], asked.body))


def _tokens_of(asked: Asked) -> EndpointResponse:
    return EndpointResponse(accounts.tokens_of(asked.context, asked.path["name"]))


def _make_token(asked: Asked) -> EndpointResponse:
    return EndpointResponse(accounts.make_token_of(asked.context, asked.path["name"], asked.body))


def _all_tokens(asked: Asked) -> EndpointResponse:
    return EndpointResponse(accounts.all_tokens(asked.context))


def _revoke_token(asked: Asked) -> EndpointResponse:
    accounts.revoke_token(asked.context, int(asked.path["token_id"]))
    return EndpointResponse()


def _audit(asked: Asked) -> EndpointResponse:
    return EndpointResponse(audit.lines(asked.context, asked.query.limit, asked.query.before))


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/admin/organizations",
        name="list_organizations",
        about="All organizations.",
        do=_organizations,
        answer=Organizations,
        codes=_CODES,
    ),
    Endpoint(
        method="POST",
        path="/api/admin/organizations",
        name="make_organization",
        about="Make an organization.",
        do=_make_organization,
        is_write=True,
        body=NewOrganization,
        status=201,
        answer=Organization,
        codes=_CODES,
    ),
    Endpoint(
        method="GET",
        path="/api/admin/users",
        name="list_users",
        about="All users.",
        do=_users,
        answer=Users,
        codes=_CODES,
    ),
    Endpoint(
        method="POST",
        path="/api/admin/users",
        name="make_user",
        about="Make a user.",
        do=_make_user,
        is_write=True,
        body=NewUser,
        status=201,
        answer=User,
        codes=_CODES,
    ),
    Endpoint(
        method="GET",
        path="/api/admin/users/{name}",
        name="get_user",
        about="A user.",
        do=_user,
        answer=User,
        codes=_CODES,
    ),
    Endpoint(
        method="PATCH",
        path="/api/admin/users/{name}",
        name="change_user",
        about="Change what a user is, or disable or enable it.",
        do=_change_user,
        is_write=True,
        body=UserUpdate,
        answer=User,
        codes=_CODES,
    ),
    Endpoint(
        method="GET",
        path="/api/admin/users/{name}/tokens",
        name="list_tokens_of_user",
        about="The tokens of a user, without what opens anything.",
        do=_tokens_of,
        answer=Tokens,
        codes=_CODES,
    ),
    Endpoint(
        method="POST",
        path="/api/admin/users/{name}/tokens",
        name="make_token_of_user",
        about="Make a token for a user; it is not shown again.",
        do=_make_token,
        is_write=True,
        body=NewToken,
        status=201,
        answer=Token,
        codes=_CODES,
    ),
    Endpoint(
        method="GET",
        path="/api/admin/tokens",
        name="list_tokens",
        about="Everybody's tokens, without what opens anything.",
        do=_all_tokens,
        answer=Tokens,
        codes=_CODES,
    ),
    Endpoint(
        method="DELETE",
        path="/api/admin/tokens/{token_id}",
        name="revoke_token",
        about="Make a token worthless, from the next request on.",
        do=_revoke_token,
        is_write=True,
        status=204,
        codes=_CODES,
    ),
    Endpoint(
        method="GET",
        path="/api/admin/audit",
        name="audit",
        about="Who changed what about who may see or do something, newest first.",
        do=_audit,
        query=AuditQuery,
        answer=Audit,
        codes=_CODES,
    ),
)
