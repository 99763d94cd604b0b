"""Endpoints of threads as a whole: documents, lists, search, visibility, deleting."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import SEQ_MAX, Mark
from treadle.api.types import (
    SearchResult,
    SetVisibility,
    ThreadHead,
    ThreadList,
    Time,
)
from treadle.server import search
from treadle.server.http.endpoints import (
    JSON,
    Endpoint,
    EndpointRequest,
    EndpointResponse,
    IfMatch,
    respond_with_head,
)
from treadle.server.search import thread_lists
from treadle.server.threads import threads
from treadle.thread.document import Thread
from treadle.thread.facts import Visibility

_THREAD_PATH: Final = "/api/threads/{thread_id}"

_Text = Annotated[str, Meta(max_length=thread_lists.VALUE_LENGTH_MAX)]
_Limit = Annotated[int, Meta(ge=1, le=thread_lists.LIMIT_MAX)]
_Offset = Annotated[int, Meta(ge=0, le=thread_lists.OFFSET_MAX)]
_DateTime = Annotated[Time, Meta(extra_json_schema={"format": "date-time"})]
_Flag = Literal["true", "false"]


class ListQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which threads, and which page of them; what is left out does not matter."""

    limit: _Limit = thread_lists.LIMIT_DEFAULT
    offset: _Offset = 0
    workspace: _Text | UnsetType = UNSET
    branch: _Text | UnsetType = UNSET
    commit: Annotated[str, Meta(pattern="^[0-9a-fA-F]{1,64}$")] | UnsetType = UNSET
    repo: _Text | UnsetType = UNSET
    tag: Annotated[tuple[_Text, ...], Meta(max_length=thread_lists.TAG_COUNT_MAX)] = ()
    state: _Text | UnsetType = UNSET
    owner: _Text | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET
    machine: Literal["chat", "task"] | UnsetType = UNSET
    model: _Text | UnsetType = UNSET
    since: _DateTime | UnsetType = UNSET
    until: _DateTime | UnsetType = UNSET
    deleted: _Flag | UnsetType = UNSET
    imported: _Flag | UnsetType = UNSET


class SearchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """What is looked for, as `treadle search` takes it."""

    q: Annotated[str, Meta(min_length=1, max_length=thread_lists.VALUE_LENGTH_MAX)]
    workspace: _Text | UnsetType = UNSET
    limit: _Limit = thread_lists.LIMIT_DEFAULT
    offset: _Offset = 0


class VersionQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which version; without it the newest."""

    version: Annotated[int, Meta(ge=1, le=SEQ_MAX)] | UnsetType = UNSET


class DeleteQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether what was said is removed for good."""

    purge: _Flag = "false"


def _list_threads(request: EndpointRequest) -> EndpointResponse:
    given = {
        name: value if isinstance(value, tuple) else (value,)
        for name, value in structs.asdict(request.query).items()
        if value is not UNSET and name not in ("limit", "offset")
    }
    filters = thread_lists.parse_filters(given)
    return EndpointResponse(
        thread_lists.list_threads(
            request.context, filters, request.query.limit, request.query.offset
        )
    )


def _search_threads(request: EndpointRequest) -> EndpointResponse:
    query = request.query
    folder = query.workspace or None
    return EndpointResponse(
        search.search_threads(request.context, query.q, query.limit, query.offset, folder)
    )


def _get_thread(request: EndpointRequest) -> EndpointResponse:
    version = request.query.version or None
    return _make_document_response(
        request, *threads.read_document(request.context, request.thread_id, version)
    )


def _make_document_response(
    request: EndpointRequest, mark: Mark, body: bytes, *, is_new: bool = False
) -> EndpointResponse:
    tag = {"etag": mark.tag}
    if request.known & {"*", mark.tag.strip('"')}:
        return EndpointResponse(status=304, headers=tag)
    return EndpointResponse(raw=body, headers=tag, status=201 if is_new else 0)


def _put_thread(request: EndpointRequest) -> EndpointResponse:
    expected = request.base.seq if isinstance(request.base, Mark) else request.base
    mark, body, is_new = threads.put_document(
        request.context, request.thread_id, request.body, expected
    )
    return _make_document_response(request, mark, body, is_new=is_new)


def _delete_thread(request: EndpointRequest) -> EndpointResponse:
    if request.query.purge == "true":
        threads.purge_thread(request.context, request.thread_id)
    else:
        threads.delete_thread(request.context, request.thread_id, request.base)
    return EndpointResponse()


def _restore_thread(request: EndpointRequest) -> EndpointResponse:
    return respond_with_head(
        threads.restore_thread(request.context, request.thread_id, request.base)
    )


def _set_visibility(request: EndpointRequest) -> EndpointResponse:
    visibility = request.body.visibility
    return respond_with_head(
        threads.set_visibility(request.context, request.thread_id, request.base, visibility)
    )


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/threads",
        name="list_threads",
        about="The threads that the caller may see, newest activity first.",
        do=_list_threads,
        is_open=True,
        query=ListQuery,
        answer=ThreadList,
        codes=(ErrorCode.UNAUTHORIZED,),
    ),
    Endpoint(
        method="GET",
        path="/api/threads/search",
        name="search_threads",
        way="search",
        about="The threads that the caller may see and in which something was said, best first.",
        do=_search_threads,
        is_open=True,
        query=SearchQuery,
        answer=SearchResult,
        codes=(ErrorCode.UNAUTHORIZED,),
    ),
    Endpoint(
        method="GET",
        path=_THREAD_PATH,
        name="get_thread",
        about="The thread as one document, of any version.",
        do=_get_thread,
        is_open=True,
        query=VersionQuery,
        more_statuses=(304,),
        answer=Thread,
        has_tag=True,
        codes=(ErrorCode.UNAUTHORIZED,),
    ),
    Endpoint(
        method="PUT",
        path=_THREAD_PATH,
        name="put_thread",
        about="Keep a document as the next version of a thread, for clients without records.",
        do=_put_thread,
        is_write=True,
        body=JSON,
        base=IfMatch.MAY,
        more_statuses=(201,),
        answer=Thread,
        has_tag=True,
        codes=(
            ErrorCode.FORBIDDEN,
            ErrorCode.CONFLICT,
            ErrorCode.KEPT_AS_RECORDS,
            ErrorCode.REFUSED_PRIVATE,
            ErrorCode.PRECONDITION_REQUIRED,
            ErrorCode.QUOTA_EXCEEDED,
        ),
    ),
    Endpoint(
        method="DELETE",
        path=_THREAD_PATH,
        name="delete_thread",
        about="Put the thread away; with `purge=true` remove what was said for good.",
        do=_delete_thread,
        is_write=True,
        query=DeleteQuery,
        base=IfMatch.MAY,
        status=204,
        codes=(ErrorCode.FORBIDDEN, ErrorCode.CONFLICT, ErrorCode.LEGAL_HOLD),
    ),
    Endpoint(
        method="POST",
        path=_THREAD_PATH + "/restore",
        name="restore_thread",
        about="Take a thread back that was put away.",
        do=_restore_thread,
        is_write=True,
        base=IfMatch.MAY,
        answer=ThreadHead,
        has_tag=True,
        codes=(ErrorCode.FORBIDDEN, ErrorCode.CONFLICT),
    ),
    Endpoint(
        method="POST",
        path=_THREAD_PATH + "/visibility",
        name="set_visibility",
        about="Say who may see the thread.",
        do=_set_visibility,
        is_write=True,
        body=SetVisibility,
        base=IfMatch.MAY,
        answer=ThreadHead,
        has_tag=True,
        codes=(ErrorCode.FORBIDDEN, ErrorCode.CONFLICT),
    ),
)
