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
    OrganizationUpdate,
    StorageUse,
    Token,
    Tokens,
    User,
    Users,
    UserUpdate,
)
from treadle.api.usage_types import ModelUsage
from treadle.server.accounts import accounts, audit, model_usage, quotas
from treadle.server.http.endpoints import Endpoint, EndpointRequest, EndpointResponse

_ERROR_CODES: Final = (ErrorCode.FORBIDDEN,)


class AuditQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A page of the audit log, newest first; `before` is the id of the last line seen."""

    limit: Annotated[int, Meta(ge=1, le=audit.LINE_COUNT_MAX)] = 100
    before: Annotated[int, Meta(ge=1, le=SEQ_MAX)] | None = None


class ModelUsageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """From which day of UTC on; empty for all."""

    since: Annotated[str, Meta(pattern=r"^([0-9]{4}-[0-9]{2}-[0-9]{2})?$")] = ""


def _list_organizations(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(accounts.list_organizations(request.context))


def _make_organization(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(accounts.make_organization(request.context, request.body))


def _change_organization(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(
        accounts.change_organization(request.context, request.path["name"], request.body)
    )


def _read_usage(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(quotas.read_usage(request.context))


def _read_model_usage(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(model_usage.read_model_usage(request.context, request.query.since))


def _list_users(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(accounts.list_users(request.context))


def _make_user(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(accounts.make_user(request.context, request.body))


def _get_user(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(accounts.get_user(request.context, request.path["name"]))


def _change_user(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(
        accounts.change_user(request.context, request.path["name"], request.body)
    )


def _list_user_tokens(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(accounts.list_user_tokens(request.context, request.path["name"]))


def _make_user_token(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(
        accounts.make_user_token(request.context, request.path["name"], request.body)
    )


def _list_all_tokens(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(accounts.list_all_tokens(request.context))


def _revoke_token(request: EndpointRequest) -> EndpointResponse:
    accounts.revoke_token(request.context, int(request.path["token_id"]))
    return EndpointResponse()


def _list_audit_lines(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(
        audit.list_lines(request.context, request.query.limit, request.query.before)
    )


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/admin/organizations",
        name="list_organizations",
        about="All organizations.",
        do=_list_organizations,
        answer=Organizations,
        codes=_ERROR_CODES,
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
        codes=_ERROR_CODES,
    ),
    Endpoint(
        method="PATCH",
        path="/api/admin/organizations/{name}",
        name="change_organization",
        about="Change what the members of an organization may keep together.",
        do=_change_organization,
        is_write=True,
        body=OrganizationUpdate,
        answer=Organization,
        codes=_ERROR_CODES,
    ),
    Endpoint(
        method="GET",
        path="/api/admin/usage",
        name="read_usage",
        about="What each user keeps, and may keep.",
        do=_read_usage,
        answer=StorageUse,
        codes=_ERROR_CODES,
    ),
    Endpoint(
        method="GET",
        path="/api/admin/usage/models",
        name="read_model_usage",
        about="What each user has used of each model, by day.",
        do=_read_model_usage,
        query=ModelUsageQuery,
        answer=ModelUsage,
        codes=_ERROR_CODES,
    ),
    Endpoint(
        method="GET",
        path="/api/admin/users",
        name="list_users",
        about="All users.",
        do=_list_users,
        answer=Users,
        codes=_ERROR_CODES,
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
        codes=_ERROR_CODES,
    ),
    Endpoint(
        method="GET",
        path="/api/admin/users/{name}",
        name="get_user",
        about="A user.",
        do=_get_user,
        answer=User,
        codes=_ERROR_CODES,
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
        codes=_ERROR_CODES,
    ),
    Endpoint(
        method="GET",
        path="/api/admin/users/{name}/tokens",
        name="list_tokens_of_user",
        about="The tokens of a user, without what opens anything.",
        do=_list_user_tokens,
        answer=Tokens,
        codes=_ERROR_CODES,
    ),
    Endpoint(
        method="POST",
        path="/api/admin/users/{name}/tokens",
        name="make_token_of_user",
        about="Make a token for a user; it is not shown again.",
        do=_make_user_token,
        is_write=True,
        body=NewToken,
        status=201,
        answer=Token,
        codes=_ERROR_CODES,
    ),
    Endpoint(
        method="GET",
        path="/api/admin/tokens",
        name="list_tokens",
        about="Everybody's tokens, without what opens anything.",
        do=_list_all_tokens,
        answer=Tokens,
        codes=_ERROR_CODES,
    ),
    Endpoint(
        method="DELETE",
        path="/api/admin/tokens/{token_id}",
        name="revoke_token",
        about="Make a token worthless, from the next request on.",
        do=_revoke_token,
        is_write=True,
        status=204,
        codes=_ERROR_CODES,
    ),
    Endpoint(
        method="GET",
        path="/api/admin/audit",
        name="audit",
        about="Who changed what about who may see or do something, newest first.",
        do=_list_audit_lines,
        query=AuditQuery,
        answer=Audit,
        codes=_ERROR_CODES,
    ),
)
