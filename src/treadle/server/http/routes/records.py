"""Endpoints of records, large outputs and changes: what programs that sync use."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import SEQ_MAX, Mark
from treadle.api.types import ThreadHead, ThreadHeads
from treadle.server.context import Context
from treadle.server.http.endpoints import (
    BYTES,
    EVENTS,
    LINES,
    Endpoint,
    EndpointRequest,
    EndpointResponse,
    IfMatch,
    respond_with_head,
)
from treadle.server.refusals import Refusal
from treadle.server.threads import threads

PAGE_COUNT: Final = 200
"""Records that are read from the database at a time."""

HEADS_MAX: Final = 1000

_RECORDS_PATH: Final = "/api/threads/{thread_id}/records"
_BLOB_PATH: Final = "/api/threads/{thread_id}/blobs/{sha256}"
_SEQ_RANGE: Final = Meta(ge=0, le=SEQ_MAX)


class RecordsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Records after which one; `hash` says which it is, so that another history is noticed."""

    after: Annotated[int, _SEQ_RANGE] = 0
    hash: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")] | UnsetType = UNSET


class HeadsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes after which one, and how many; `stamp` is that of the answer that named it."""

    after: Annotated[int, _SEQ_RANGE] = 0
    stamp: Annotated[str, Meta(pattern="^([0-9a-f]{16})?$")] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=HEADS_MAX)] = 500


class ChangesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes after which one; without it those from now on. `Last-Event-ID` stands above it."""

    after: Annotated[int, _SEQ_RANGE] | UnsetType = UNSET


class _RecordPosition(Struct, frozen=True):
    """What of a record says where it stands."""

    seq: int
    hash: str


def _push_records(request: EndpointRequest) -> EndpointResponse:
    base = _require_mark(request)
    return respond_with_head(
        threads.push_records(request.context, request.thread_id, base, request.body)
    )


def _replace_records(request: EndpointRequest) -> EndpointResponse:
    base = _require_mark(request)
    return respond_with_head(
        threads.replace_records(request.context, request.thread_id, base, request.body)
    )


def _require_mark(request: EndpointRequest) -> Mark:
    """Records go on from a record, not from a number."""
    if not isinstance(request.base, Mark):
        raise Refusal(
            ErrorCode.BAD_REQUEST, "`If-Match` must name the record: its number and its hash"
        )
    return request.base


def _pull_records(request: EndpointRequest) -> EndpointResponse:
    """The first page; the others are read while the one before them is on its way."""
    query = request.query
    after = query.after if query.hash is UNSET else Mark(query.after, query.hash)
    head = threads.read_head(request.context, request.thread_id)
    page = _make_page(request.context, request.thread_id, after, head.version)
    return msgspec.structs.replace(page, headers={"etag": Mark(head.version, head.hash).tag})


def _make_page(context: Context, thread_id: str, after: Mark | int, end: int) -> EndpointResponse:
    """Records up to the one that was the last when the answer began, so that it has an end."""
    begin = after.seq if isinstance(after, Mark) else after
    lines = threads.read_records(context, thread_id, after, max(0, min(PAGE_COUNT, end - begin)))
    body = b"".join(line + b"\n" for line in lines)
    if not lines or begin + len(lines) >= end:
        return EndpointResponse(raw=body)
    last = msgspec.json.decode(lines[-1], type=_RecordPosition)
    # The hash is asked for again: a history that was replaced meanwhile ends the answer too soon.
    place = Mark(last.seq, last.hash)
    return EndpointResponse(raw=body, rest=lambda later: _make_page(later, thread_id, place, end))


def _list_heads(request: EndpointRequest) -> EndpointResponse:
    query = request.query
    stamp = "" if query.stamp is UNSET else query.stamp
    return EndpointResponse(threads.list_heads(request.context, query.after, query.limit, stamp))


def _check_may_listen(request: EndpointRequest) -> EndpointResponse:
    """That the caller may listen; the application goes on."""
    threads.list_heads(request.context, 0, 1)
    return EndpointResponse()


def _put_blob(request: EndpointRequest) -> EndpointResponse:
    threads.put_blob(request.context, request.thread_id, request.path["sha256"], request.body)
    return EndpointResponse()


def _get_blob(request: EndpointRequest) -> EndpointResponse:
    return EndpointResponse(
        raw=threads.get_blob(request.context, request.thread_id, request.path["sha256"])
    )


_PUSH_CODES: Final = (
    ErrorCode.FORBIDDEN,
    ErrorCode.CONFLICT,
    ErrorCode.BROKEN_CHAIN,
    ErrorCode.UNFOLDABLE,
    ErrorCode.REFUSED_PRIVATE,
    ErrorCode.QUOTA_EXCEEDED,
)

ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path=_RECORDS_PATH,
        name="push_records",
        about="Append records to the one that `If-Match` names; doing it again changes nothing.",
        do=_push_records,
        is_write=True,
        body=LINES,
        base=IfMatch.MUST,
        answer=ThreadHead,
        has_tag=True,
        way="fork",  # nothing else is read by it
        codes=_PUSH_CODES,
    ),
    Endpoint(
        method="PUT",
        path=_RECORDS_PATH,
        name="replace_records",
        about="Replace a whole journal from which a text was removed, as its owner.",
        do=_replace_records,
        is_write=True,
        body=LINES,
        base=IfMatch.MUST,
        answer=ThreadHead,
        has_tag=True,
        codes=(*_PUSH_CODES, ErrorCode.LEGAL_HOLD),
    ),
    Endpoint(
        method="GET",
        path=_RECORDS_PATH,
        name="pull_records",
        about="The records after one, as they were sent; the `ETag` names the last.",
        do=_pull_records,
        is_open=True,
        query=RecordsQuery,
        answer=LINES,
        has_tag=True,
        codes=(ErrorCode.UNAUTHORIZED, ErrorCode.CONFLICT),
    ),
    Endpoint(
        method="GET",
        path="/api/heads",
        name="heads",
        about="Where the caller's own threads are that changed after a change.",
        do=_list_heads,
        query=HeadsQuery,
        answer=ThreadHeads,
    ),
    Endpoint(
        method="GET",
        path="/api/changes",
        name="changes",
        about="Changes as they happen, as server-sent events: each is a `ThreadHead`.",
        do=_check_may_listen,
        query=ChangesQuery,
        answer=EVENTS,
    ),
    Endpoint(
        method="PUT",
        path=_BLOB_PATH,
        name="put_blob",
        about="Keep a large output of a thread under the SHA-256 of its bytes.",
        do=_put_blob,
        is_write=True,
        body=BYTES,
        status=204,
        codes=(ErrorCode.FORBIDDEN, ErrorCode.QUOTA_EXCEEDED),
    ),
    Endpoint(
        method="GET",
        path=_BLOB_PATH,
        name="get_blob",
        about="A large output of a thread.",
        do=_get_blob,
        is_open=True,
        answer=BYTES,
        codes=(ErrorCode.UNAUTHORIZED,),
    ),
)
