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
    Asked,
    Endpoint,
    EndpointResponse,
    IfMatch,
)
from treadle.server.problems import Refusal
from treadle.server.threads import threads

PAGE_COUNT: Final = 200
"""Records that are read from the database at a time."""

HEADS_MAX: Final = 1000

_RECORDS: Final = "/api/threads/{thread_id}/records"
_BLOB: Final = "/api/threads/{thread_id}/blobs/{sha256}"
_NUMBER: Final = Meta(ge=0, le=SEQ_MAX)


class AfterQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Records after which one; `hash` says which it is, so that another history is noticed."""

    after: Annotated[int, _NUMBER] = 0
    hash: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")] | UnsetType = UNSET


class HeadsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes after which one, and how many; `stamp` is that of the answer that named it."""

    after: Annotated[int, _NUMBER] = 0
    stamp: Annotated[str, Meta(pattern="^([0-9a-f]{16})?$")] | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=HEADS_MAX)] = 500


class ChangesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes after which one; without it those from now on. `Last-Event-ID` stands above it."""

    after: Annotated[int, _NUMBER] | UnsetType = UNSET


class _Line(Struct, frozen=True):
    """What of a record says where it stands."""

    seq: int
    hash: str


def _push(asked: Asked) -> EndpointResponse:
    base = _place(asked)
    return _headed(threads.push(asked.context, asked.thread_id, base, asked.body))


def _replace(asked: Asked) -> EndpointResponse:
    base = _place(asked)
    return _headed(threads.replace_all(asked.context, asked.thread_id, base, asked.body))


def _place(asked: Asked) -> Mark:
    """Records go on from a record, not from a number."""
    if not isinstance(asked.base, Mark):
        raise Refusal(
            ErrorCode.BAD_REQUEST, "`If-Match` must name the record: its number and its hash"
        )
    return asked.base


def _headed(head: ThreadHead) -> EndpointResponse:
    return EndpointResponse(head, headers={"etag": Mark(head.version, head.hash).tag})


def _pull(asked: Asked) -> EndpointResponse:
    """The first page; the others are read while the one before them is on its way."""
    query = asked.query
    after = query.after if query.hash is UNSET else Mark(query.after, query.hash)
    head = threads.head(asked.context, asked.thread_id)
    page = _page(asked.context, asked.thread_id, after, head.version)
    return msgspec.structs.replace(page, headers={"etag": Mark(head.version, head.hash).tag})


def _page(context: Context, thread_id: str, after: Mark | int, end: int) -> EndpointResponse:
    """Records up to the one that was the last when the answer began, so that it has an end."""
    begin = after.seq if isinstance(after, Mark) else after
    lines = threads.records(context, thread_id, after, max(0, min(PAGE_COUNT, end - begin)))
    body = b"".join(line + b"\n" for line in lines)
    if not lines or begin + len(lines) >= end:
        return EndpointResponse(raw=body)
    last = msgspec.json.decode(lines[-1], type=_Line)
    # The hash is asked for again: a history that was replaced meanwhile ends the answer too soon.
    place = Mark(last.seq, last.hash)
    return EndpointResponse(raw=body, rest=lambda later: _page(later, thread_id, place, end))


def _heads(asked: Asked) -> EndpointResponse:
    query = asked.query
    stamp = "" if query.stamp is UNSET else query.stamp
    return EndpointResponse(threads.heads(asked.context, query.after, query.limit, stamp))


def _changes(asked: Asked) -> EndpointResponse:
    """That the caller may listen; the application goes on."""
    threads.heads(asked.context, 0, 1)
    return EndpointResponse()


def _put_blob(asked: Asked) -> EndpointResponse:
    threads.put_blob(asked.context, asked.thread_id, asked.path["sha256"], asked.body)
    return EndpointResponse()


def _get_blob(asked: Asked) -> EndpointResponse:
    return EndpointResponse(
        raw=threads.get_blob(asked.context, asked.thread_id, asked.path["sha256"])
    )


_PUSH_CODES: Final = (
    ErrorCode.FORBIDDEN,
    ErrorCode.CONFLICT,
    ErrorCode.BROKEN_CHAIN,
    ErrorCode.UNFOLDABLE,
    ErrorCode.REFUSED_PRIVATE,
)

ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path=_RECORDS,
        name="push_records",
        about="Append records to the one that `If-Match` names; doing it again changes nothing.",
        do=_push,
        is_write=True,
        body=LINES,
        base=IfMatch.MUST,
        answer=ThreadHead,
        has_tag=True,
        codes=_PUSH_CODES,
    ),
    Endpoint(
        method="PUT",
        path=_RECORDS,
        name="replace_records",
        about="Replace a whole journal from which a text was removed, as its owner.",
        do=_replace,
        is_write=True,
        body=LINES,
        base=IfMatch.MUST,
        answer=ThreadHead,
        has_tag=True,
        codes=_PUSH_CODES,
    ),
    Endpoint(
        method="GET",
        path=_RECORDS,
        name="pull_records",
        about="The records after one, as they were sent; the `ETag` names the last.",
        do=_pull,
        is_open=True,
        query=AfterQuery,
        answer=LINES,
        has_tag=True,
        codes=(ErrorCode.UNAUTHORIZED, ErrorCode.CONFLICT),
    ),
    Endpoint(
        method="GET",
        path="/api/heads",
        name="heads",
        about="Where the caller's own threads are that changed after a change.",
        do=_heads,
        query=HeadsQuery,
        answer=ThreadHeads,
    ),
    Endpoint(
        method="GET",
        path="/api/changes",
        name="changes",
        about="Changes as they happen, as server-sent events: each is a `ThreadHead`.",
        do=_changes,
        query=ChangesQuery,
        answer=EVENTS,
    ),
    Endpoint(
        method="PUT",
        path=_BLOB,
        name="put_blob",
        about="Keep a large output of a thread under the SHA-256 of its bytes.",
        do=_put_blob,
        is_write=True,
        body=BYTES,
        status=204,
        codes=(ErrorCode.FORBIDDEN,),
    ),
    Endpoint(
        method="GET",
        path=_BLOB,
        name="get_blob",
        about="A large output of a thread.",
        do=_get_blob,
        is_open=True,
        answer=BYTES,
        codes=(ErrorCode.UNAUTHORIZED,),
    ),
)
