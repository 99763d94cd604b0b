"""Endpoints of who has read what: for the owner of a thread, and for admins."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from treadle.api.audit_types import ThreadReads
from treadle.api.error_codes import ErrorCode
from treadle.api.marks import SEQ_MAX
from treadle.api.types import Name, ThreadId
from treadle.server.accounts.audit import LINE_COUNT_MAX
from treadle.server.http.endpoints import Endpoint, EndpointRequest, EndpointResponse
from treadle.server.threads import thread_reads

_Limit = Annotated[int, Meta(ge=1, le=LINE_COUNT_MAX)]
_Before = Annotated[int, Meta(ge=1, le=SEQ_MAX)]


class ReadersQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A page of who has read, newest first; `before` is the id of the last line seen."""

    limit: _Limit = 100
    before: _Before | None = None


class ReadsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The same, of one thread or one reader if that is said."""

    limit: _Limit = 100
    before: _Before | None = None
    thread: ThreadId | None = None
    user: Name | None = None


def _list_readers(request: EndpointRequest) -> EndpointResponse:
    query = request.query
    return EndpointResponse(
        thread_reads.list_readers(request.context, request.thread_id, query.limit, query.before)
    )


def _list_reads(request: EndpointRequest) -> EndpointResponse:
    query = request.query
    return EndpointResponse(
        thread_reads.list_reads(
            request.context, query.limit, query.before, query.thread, query.user
        )
    )


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/threads/{thread_id}/readers",
        name="list_readers",
        about="Who else has read the caller's thread, when and how, newest first.",
        do=_list_readers,
        query=ReadersQuery,
        answer=ThreadReads,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="GET",
        path="/api/admin/reads",
        name="list_reads",
        about="Who has read threads of others, when, how and from where, newest first.",
        do=_list_reads,
        query=ReadsQuery,
        answer=ThreadReads,
        codes=(ErrorCode.FORBIDDEN,),
    ),
)
