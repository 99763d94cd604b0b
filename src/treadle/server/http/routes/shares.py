"""Endpoints of links and of support's access to a thread."""

from __future__ import annotations

from typing import Final

from treadle.api.error_codes import ErrorCode
from treadle.api.types import NewShare, Share, SharedThread, Shares, SupportAccess
from treadle.server.accounts import share_links, support
from treadle.server.http.endpoints import HTML, Asked, Endpoint, EndpointResponse
from treadle.server.threads import threads

_SHARE: Final = "/api/threads/{thread_id}/share"
_SUPPORT: Final = "/api/threads/{thread_id}/support-access"


def _share(asked: Asked) -> EndpointResponse:
    return EndpointResponse(
        share_links.create(asked.context, asked.thread_id, asked.body, asked.origin)
    )


def _shares(asked: Asked) -> EndpointResponse:
    return EndpointResponse(share_links.links(asked.context, asked.thread_id))


def _unshare(asked: Asked) -> EndpointResponse:
    share_links.revoke(asked.context, asked.thread_id)
    return EndpointResponse()


def _opened(asked: Asked) -> EndpointResponse:
    return EndpointResponse(share_links.opened(asked.context, asked.path["token"], asked.thread_id))


def _page(asked: Asked) -> EndpointResponse:
    return EndpointResponse(raw=share_links.page(asked.context, asked.path["token"]).encode())


def _status(asked: Asked) -> EndpointResponse:
    return EndpointResponse(support.status(asked.context, asked.thread_id))


def _grant(asked: Asked) -> EndpointResponse:
    return EndpointResponse(support.grant(asked.context, asked.thread_id))


def _end(asked: Asked) -> EndpointResponse:
    return EndpointResponse(threads.end_support(asked.context, asked.thread_id))


def _request(asked: Asked) -> EndpointResponse:
    return EndpointResponse(support.request(asked.context, asked.thread_id))


def _approve(asked: Asked) -> EndpointResponse:
    return EndpointResponse(support.approve(asked.context, asked.thread_id))


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path=_SHARE,
        name="share",
        about="Make a link that shows the thread to whoever has it; the one before it ends.",
        do=_share,
        is_write=True,
        body=NewShare,
        is_body_optional=True,
        status=201,
        answer=Share,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="GET",
        path=_SHARE,
        name="list_shares",
        about="The links that were made, without what opens them.",
        do=_shares,
        answer=Shares,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="DELETE",
        path=_SHARE,
        name="unshare",
        about="End every link of the thread.",
        do=_unshare,
        is_write=True,
        status=204,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="GET",
        path=_SHARE + "/{token}",
        name="open_share",
        about="What the holder of a link sees.",
        do=_opened,
        is_open=True,
        answer=SharedThread,
        codes=(ErrorCode.UNAUTHORIZED, ErrorCode.GONE),
    ),
    Endpoint(
        method="GET",
        path="/share/{token}",
        name="share_page",
        about="The same as a page.",
        do=_page,
        is_open=True,
        answer=HTML,
        codes=(ErrorCode.UNAUTHORIZED, ErrorCode.GONE),
    ),
    Endpoint(
        method="GET",
        path=_SUPPORT,
        name="support_access",
        about="Whether support may read the thread.",
        do=_status,
        answer=SupportAccess,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="POST",
        path=_SUPPORT,
        name="grant_support_access",
        about="Let support read the thread for 31 days.",
        do=_grant,
        is_write=True,
        status=201,
        answer=SupportAccess,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="DELETE",
        path=_SUPPORT,
        name="end_support_access",
        about="End support's access, or refuse it.",
        do=_end,
        is_write=True,
        answer=SupportAccess,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="POST",
        path=_SUPPORT + "/request",
        name="request_support_access",
        about="Support asks the owner for access.",
        do=_request,
        is_write=True,
        status=201,
        answer=SupportAccess,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="POST",
        path=_SUPPORT + "/approve",
        name="approve_support_access",
        about="The owner says yes, for 31 days.",
        do=_approve,
        is_write=True,
        answer=SupportAccess,
        codes=(ErrorCode.FORBIDDEN, ErrorCode.BAD_REQUEST),
    ),
)
