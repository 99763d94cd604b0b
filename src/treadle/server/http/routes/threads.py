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
from treadle.server.http.endpoints import JSON, Asked, Endpoint, EndpointResponse, IfMatch
from treadle.server.search import thread_lists
from treadle.server.threads import threads
from treadle.thread.facts import Visibility
from treadle.thread.model import Thread

_THREAD: Final = "/api/threads/{thread_id}"

_Text = Annotated[str, Meta(max_length=thread_lists.VALUE_LENGTH_MAX)]
_Limit = Annotated[int, Meta(ge=1, le=thread_lists.LIMIT_MAX)]
_Offset = Annotated[int, Meta(ge=0, le=thread_lists.OFFSET_MAX)]
_Moment = Annotated[Time, Meta(extra_json_schema={"format": "date-time"})]
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
    since: _Moment | UnsetType = UNSET
    until: _Moment | UnsetType = UNSET
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


def _list(asked: Asked) -> EndpointResponse:
    given = {
        name: value if isinstance(value, tuple) else (value,)
        for name, value in structs.asdict(asked.query).items()
        if value is not UNSET and name not in ("limit", "offset")
    }
    filters = thread_lists.filters_of(given)
    return EndpointResponse(
        thread_lists.page(asked.context, filters, asked.query.limit, asked.query.offset)
    )


def _search(asked: Asked) -> EndpointResponse:
    query = asked.query
    folder = query.workspace or None
    return EndpointResponse(search.find(asked.context, query.q, query.limit, query.offset, folder))


def _get(asked: Asked) -> EndpointResponse:
    version = asked.query.version or None
    return _document(asked, *threads.document(asked.context, asked.thread_id, version))


def _document(asked: Asked, mark: Mark, body: bytes, *, is_new: bool = False) -> EndpointResponse:
    tag = {"etag": mark.tag}
    if asked.known & {"*", mark.tag.strip('"')}:
        return EndpointResponse(status=304, headers=tag)
    return EndpointResponse(raw=body, headers=tag, status=201 if is_new else 0)


def _put(asked: Asked) -> EndpointResponse:
    expected = asked.base.seq if isinstance(asked.base, Mark) else asked.base
    mark, body, is_new = threads.put_document(asked.context, asked.thread_id, asked.body, expected)
    return _document(asked, mark, body, is_new=is_new)


def _headed(head: ThreadHead) -> EndpointResponse:
    return EndpointResponse(head, headers={"etag": Mark(head.version, head.hash).tag})


def _delete(asked: Asked) -> EndpointResponse:
    if asked.query.purge == "true":
        threads.purge(asked.context, asked.thread_id)
    else:
        threads.delete(asked.context, asked.thread_id, asked.base)
    return EndpointResponse()


def _restore(asked: Asked) -> EndpointResponse:
    return _headed(threads.restore(asked.context, asked.thread_id, asked.base))


def _set_visibility(asked: Asked) -> EndpointResponse:
    visibility = asked.body.visibility
    return _headed(threads.set_visibility(asked.context, asked.thread_id, asked.base, visibility))


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/threads",
        name="list_threads",
        about="The threads that the caller may see, newest activity first.",
        do=_list,
        is_open=True,
        query=ListQuery,
        answer=ThreadList,
        codes=(ErrorCode.UNAUTHORIZED,),
    ),
    Endpoint(
        method="GET",
        path="/api/threads/search",
        name="search_threads",
        about="The threads that the caller may see and in which something was said, best first.",
        do=_search,
        is_open=True,
        query=SearchQuery,
        answer=SearchResult,
        codes=(ErrorCode.UNAUTHORIZED,),
    ),
    Endpoint(
        method="GET",
        path=_THREAD,
        name="get_thread",
        about="The thread as one document, of any version.",
        do=_get,
        is_open=True,
        query=VersionQuery,
        more_statuses=(304,),
        answer=Thread,
        has_tag=True,
        codes=(ErrorCode.UNAUTHORIZED,),
    ),
    Endpoint(
        method="PUT",
        path=_THREAD,
        name="put_thread",
        about="Keep a document as the next version of a thread, for clients without records.",
        do=_put,
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
        ),
    ),
    Endpoint(
        method="DELETE",
        path=_THREAD,
        name="delete_thread",
        about="Put the thread away; with `purge=true` remove what was said for good.",
        do=_delete,
        is_write=True,
        query=DeleteQuery,
        base=IfMatch.MAY,
        status=204,
        codes=(ErrorCode.FORBIDDEN, ErrorCode.CONFLICT),
    ),
    Endpoint(
        method="POST",
        path=_THREAD + "/restore",
        name="restore_thread",
        about="Take a thread back that was put away.",
        do=_restore,
        is_write=True,
        base=IfMatch.MAY,
        answer=ThreadHead,
        has_tag=True,
        codes=(ErrorCode.FORBIDDEN, ErrorCode.CONFLICT),
    ),
    Endpoint(
        method="POST",
        path=_THREAD + "/visibility",
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
