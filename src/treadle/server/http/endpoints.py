"""What an endpoint of the API is, as a value; the routes and the OpenAPI document are made of it.

So the two cannot disagree: what is documented is what is checked, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, TypeAlias

from msgspec import Struct

from treadle.api.audit_types import ReadWay
from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.api.types import Scope, ThreadHead
from treadle.server.context import Context

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
BYTES: Final = "application/octet-stream"
HTML: Final = "text/html"
EVENTS: Final = "text/event-stream"

ACCOUNT_PATHS: Final = ("/api/admin/", "/api/tokens", "/api/invitations", "/api/webhooks")
"""What concerns accounts, also to look at it."""


class IfMatch(Enum):
    """Whether a request says in `If-Match` what it changes."""

    NONE = "none"
    MAY = "may"
    MUST = "must"


class EndpointRequest(Struct, frozen=True):
    """A request that has the form its endpoint wants.

    Args:
        context: its transaction, who asks, when.
        path: the values of the path by name; text that is legible to the database, no more.
        query: an object of the endpoint's query type.
        body: an object of the endpoint's body type, or the bytes as they were sent, unpacked.
        base: the place that `If-Match` names; a plain number has no hash.
        known: the tags of `If-None-Match`.
        origin: what links of this server begin with, without a slash at the end.
        allows_private_webhooks: whether addresses of private networks may be told of events.
    """

    context: Context
    path: dict[str, str]
    query: Any
    body: Any
    base: Mark | int | None
    known: frozenset[str]
    origin: str
    allows_private_webhooks: bool

    @property
    def thread_id(self) -> str:
        """The thread that the path names."""
        return self.path["thread_id"]


class EndpointResponse(Struct, frozen=True):
    """What is answered.

    Args:
        value: goes out as JSON; `None` for no body.
        raw: the body as it is; stands before `value`.
        status: the HTTP status; 0: that of the endpoint.
        headers: further headers.
        media: the media type of `raw`; empty: that of the endpoint.
        rest: what follows `raw`, made in a transaction of its own when `raw` is out.
    """

    value: object = None
    raw: bytes | None = None
    status: int = 0
    headers: dict[str, str] = {}
    media: str = ""
    rest: Callable[[Context], EndpointResponse] | None = None


def respond_with_head(head: ThreadHead) -> EndpointResponse:
    """Say where a thread is now, also in the tag that names the place."""
    return EndpointResponse(head, headers={"etag": Mark(head.version, head.hash).tag})


EndpointFunction: TypeAlias = Callable[[EndpointRequest], EndpointResponse]


class Endpoint(Struct, frozen=True, kw_only=True):
    """A method of a path.

    Args:
        method: the HTTP method; with `GET` goes `HEAD`.
        path: with names in braces.
        name: one word for logs and the document.
        about: a sentence for people.
        do: does it, in a worker thread.
        is_write: whether the transaction writes.
        is_open: whether it may be asked without a token; `do` may still want one.
        body: what the body is: a type of JSON, or a media type whose bytes `do` judges; `None`.
        is_body_optional: whether the body may be left out.
        query: the type of what stands behind the `?`.
        base: whether `If-Match` stands for something.
        status: of success.
        more_statuses: of success too.
        answer: the type of the answer's JSON, or its media type; `None`: it has no body.
        has_tag: whether the answer has an `ETag`, and `If-None-Match` is looked at.
        codes: how it may be refused, beyond what every endpoint like it may say.
        way: how others' threads are read here; `None`: for what the client says.
    """

    method: str
    path: str
    name: str
    about: str
    do: EndpointFunction
    is_write: bool = False
    is_open: bool = False
    body: Any = None
    is_body_optional: bool = False
    query: type[Struct] | None = None
    base: IfMatch = IfMatch.NONE
    status: int = 200
    more_statuses: tuple[int, ...] = ()
    answer: Any = None
    has_tag: bool = False
    codes: tuple[ErrorCode, ...] = ()
    way: ReadWay | None = None

    @property
    def body_media(self) -> str:
        """The media type of the body; empty for none."""
        return "" if self.body is None else self.body if isinstance(self.body, str) else JSON

    @property
    def answer_media(self) -> str:
        """The media type of the answer; empty for none."""
        return "" if self.answer is None else self.answer if isinstance(self.answer, str) else JSON

    @property
    def is_stream(self) -> bool:
        """Whether the answer goes on for as long as the caller listens."""
        return bool(self.answer == EVENTS)

    @property
    def scope(self) -> Scope:
        """What a token must have to be taken here."""
        if self.path.startswith(ACCOUNT_PATHS):
            return "all"
        return "sync" if self.is_write else "read"

    @property
    def all_codes(self) -> frozenset[ErrorCode]:
        """Every way in which it may refuse."""
        rules = {
            ErrorCode.BAD_REQUEST: bool(self.query or self.body or self.base is not IfMatch.NONE),
            ErrorCode.UNAUTHORIZED: not self.is_open,
            ErrorCode.NOT_FOUND: "{" in self.path,
            ErrorCode.FORBIDDEN: self.scope != "read",
            ErrorCode.TIMEOUT: self.body is not None,
            ErrorCode.TOO_LARGE: self.body is not None,
            ErrorCode.UNSUPPORTED_MEDIA: self.body is not None,
            ErrorCode.PRECONDITION_REQUIRED: self.base is IfMatch.MUST,
        }
        always = {
            ErrorCode.TOO_MANY,
            ErrorCode.HEADERS_TOO_LARGE,
            ErrorCode.INTERNAL,
            ErrorCode.UNAVAILABLE,
        }
        return frozenset(always | {code for code, holds in rules.items() if holds} | {*self.codes})
