"""Endpoints of how long threads are kept, for admins."""

from __future__ import annotations

from typing import Final

from treadle.api.error_codes import ErrorCode
from treadle.api.retention_types import (
    RetentionChange,
    RetentionPlan,
    RetentionRule,
    RetentionRules,
)
from treadle.server.accounts.accounts import check_admin
from treadle.server.http.endpoints import Endpoint, EndpointRequest, EndpointResponse
from treadle.server.threads import retention

_PATH: Final = "/api/admin/retention"
RUN_NAME: Final = "run_retention"


def _list(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(retention.list_rules(request.context))


def _change(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(retention.change_rule(request.context, request.body))


def _plan(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(retention.make_plan(request.context))


def _run(request: EndpointRequest) -> EndpointResponse:
    """That the caller may; the application goes on."""
    check_admin(request.context)
    return EndpointResponse()


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path=_PATH,
        name="list_retention",
        about="For how long threads are kept.",
        do=_list,
        answer=RetentionRules,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="PATCH",
        path=_PATH,
        name="change_retention",
        about="Say for how long the threads of an organization, or of all, are kept.",
        do=_change,
        is_write=True,
        body=RetentionChange,
        answer=RetentionRule,
        codes=(ErrorCode.FORBIDDEN, ErrorCode.NOT_FOUND),
    ),
    Endpoint(
        method="GET",
        path=_PATH + "/plan",
        name="plan_retention",
        about="Which threads a run would put away or remove now, and which it would keep and why.",
        do=_plan,
        answer=RetentionPlan,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="POST",
        path=_PATH + "/run",
        name=RUN_NAME,
        about="Have the server do now what it does each hour.",
        do=_run,
        is_write=True,
        status=202,
        codes=(ErrorCode.FORBIDDEN,),
    ),
)
