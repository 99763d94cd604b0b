"""Endpoints of links and of support's access to a thread."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from treadle.api.error_codes import ErrorCode
from treadle.api.types import NewShare, Share, SharedThread, Shares, SupportAccess
from treadle.pages.page_queries import NUMBER_MAX
from treadle.server.accounts import share_links, support
from treadle.server.http.endpoints import HTML, Endpoint, EndpointRequest, EndpointResponse
from treadle.server.threads import threads

_SHARE_PATH: Final = "/api/threads/{thread_id}/share"
_SUPPORT_PATH: Final = "/api/threads/{thread_id}/support-access"


def _create_link(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(
        share_links.create_link(request.context, request.thread_id, request.body, request.origin)
    )


def _list_links(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(share_links.list_links(request.context, request.thread_id))


def _revoke_links(request: EndpointRequest) -> EndpointResponse:
    share_links.revoke_links(request.context, request.thread_id)
    return EndpointResponse()


def _open_link(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(
        share_links.open_link(request.context, request.path["token"], request.thread_id)
    )


class PageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which page of the conversation."""

    page: Annotated[int, Meta(ge=1, le=NUMBER_MAX)] = 1


def _render_link_page(request: EndpointRequest) -> EndpointResponse:
    text = share_links.render_link_page(request.context, request.path["token"], request.query.page)
    return EndpointResponse(raw=text.encode())


def _get_support_status(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(support.get_status(request.context, request.thread_id))


def _grant_support(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(support.grant_access(request.context, request.thread_id))


def _end_support(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(threads.end_support_access(request.context, request.thread_id))


def _request_support(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(support.request_access(request.context, request.thread_id))


def _approve_support(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(support.approve_requests(request.context, request.thread_id))


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path=_SHARE_PATH,
        name="share",
        about="Make a link that shows the thread to whoever has it; the one before it ends.",
        do=_create_link,
        is_write=True,
        body=NewShare,
        is_body_optional=True,
        status=201,
        answer=Share,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="GET",
        path=_SHARE_PATH,
        name="list_shares",
        about="The links that were made, without what opens them.",
        do=_list_links,
        answer=Shares,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="DELETE",
        path=_SHARE_PATH,
        name="unshare",
        about="End every link of the thread.",
        do=_revoke_links,
        is_write=True,
        status=204,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="GET",
        path=_SHARE_PATH + "/{token}",
        name="open_share",
        way="link",
        about="What the holder of a link sees.",
        do=_open_link,
        is_open=True,
        answer=SharedThread,
        codes=(ErrorCode.UNAUTHORIZED, ErrorCode.GONE),
    ),
    Endpoint(
        method="GET",
        path="/share/{token}",
        name="share_page",
        way="link",
        about="The same as a page.",
        do=_render_link_page,
        is_open=True,
        query=PageQuery,
        answer=HTML,
        codes=(ErrorCode.UNAUTHORIZED, ErrorCode.GONE),
    ),
    Endpoint(
        method="GET",
        path=_SUPPORT_PATH,
        name="support_access",
        about="Whether support may read the thread.",
        do=_get_support_status,
        answer=SupportAccess,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="POST",
        path=_SUPPORT_PATH,
        name="grant_support_access",
        about="Let support read the thread for 31 days.",
        do=_grant_support,
        is_write=True,
        status=201,
        answer=SupportAccess,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="DELETE",
        path=_SUPPORT_PATH,
        name="end_support_access",
        about="End support's access, or refuse it.",
        do=_end_support,
        is_write=True,
        answer=SupportAccess,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="POST",
        path=_SUPPORT_PATH + "/request",
        name="request_support_access",
        about="Support asks the owner for access.",
        do=_request_support,
        is_write=True,
        status=201,
        answer=SupportAccess,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="POST",
        path=_SUPPORT_PATH + "/approve",
        name="approve_support_access",
        about="The owner says yes, for 31 days.",
        do=_approve_support,
        is_write=True,
        answer=SupportAccess,
        codes=(ErrorCode.FORBIDDEN, ErrorCode.BAD_REQUEST),
    ),
)
