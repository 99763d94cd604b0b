"""Spans, as values, and their ids, which follow from the records that begin them."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Literal, TypeAlias

from msgspec import Struct

AttributeValue: TypeAlias = str | bool | int | float | tuple[str, ...]
Attributes: TypeAlias = Mapping[str, AttributeValue]


class SpanContext(Struct, frozen=True):
    """What names a span everywhere: 32 and 16 hex digits."""

    trace_id: str
    span_id: str


class SpanEvent(Struct, frozen=True):
    """Something that happened within a span; `at_ns` is nanoseconds since 1970."""

    name: str
    at_ns: int
    attributes: Attributes = {}


class SpanLink(Struct, frozen=True):
    """A span of another trace that this one hangs on."""

    context: SpanContext
    attributes: Attributes = {}


class SpanFailure(Struct, frozen=True):
    """How a span failed: `kind` is one of a few words, `message` is for people."""

    kind: str
    message: str = ""


class FinishedSpan(Struct, frozen=True):
    """A piece of work, from its beginning to its end, in nanoseconds since 1970.

    `parent_id` is the span of the same trace to which it belongs; empty for the first one.
    """

    name: str
    context: SpanContext
    parent_id: str
    kind: Literal["internal", "client"]
    begin_ns: int
    end_ns: int
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    error: SpanFailure | None = None

    @property
    def trace_id(self) -> str:
        """The trace it belongs to."""
        return self.context.trace_id


class OpenSpan(Struct):
    """A span whose end is not known yet."""

    name: str
    context: SpanContext
    parent_id: str
    kind: Literal["internal", "client"]
    begin_ns: int
    attributes: dict[str, AttributeValue]
    events: list[SpanEvent] = []
    links: tuple[SpanLink, ...] = ()

    def end(self, at_ns: int, error: SpanFailure | None, more: Attributes) -> FinishedSpan:
        """The span, when it has ended, with `more` attributes; this one stays as it is."""
        attributes = {**self.attributes, **more}
        if error is not None:
            attributes["error.type"] = error.kind
        return FinishedSpan(
            self.name,
            self.context,
            self.parent_id,
            self.kind,
            self.begin_ns,
            max(at_ns, self.begin_ns),
            attributes,
            tuple(self.events),
            self.links,
            error,
        )


def make_trace_id(thread_id: str, record_id: str) -> str:
    """The trace of a turn that this record has begun; without one, that of a whole thread."""
    return _make_digest("trace", thread_id, record_id)[:32]


def make_span_id(thread_id: str, record_id: str, what: str) -> str:
    """The span that this record has begun; `what` tells apart those of one record."""
    return _make_digest("span", thread_id, record_id, what)[:16]


def _make_digest(*parts: str) -> str:
    return sha256("\0".join(("treadle", *parts)).encode()).hexdigest()
