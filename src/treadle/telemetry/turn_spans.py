"""The spans of one turn: the turn itself, and the work below it, as it begins and ends."""

from __future__ import annotations

from typing import Literal, TypeAlias

from treadle.telemetry.attributes import OUTCOME
from treadle.telemetry.spans import (
    Attributes,
    FinishedSpan,
    OpenSpan,
    SpanContext,
    SpanEvent,
    SpanFailure,
    make_span_id,
)

Work: TypeAlias = tuple[str, str]
"""What is under way: its kind, and of several of a kind which one."""


class TurnSpans:
    """A turn that is under way, or has ended and may still be told how.

    Args:
        thread_id: whose turn.
        root: its first span.
        record_id: the record that begins it.
    """

    def __init__(self, thread_id: str, root: OpenSpan, record_id: str) -> None:
        self.root = root
        self._record_id = record_id
        self.error: SpanFailure | None = None
        self.is_over = False
        self._thread_id = thread_id
        self._open: dict[Work, OpenSpan] = {}
        self._finished: list[FinishedSpan] = []
        self._end_ns = root.begin_ns

    def begin(
        self,
        work: Work,
        name: str,
        kind: Literal["internal", "client"],
        attributes: Attributes,
    ) -> OpenSpan:
        """Work begins with this record; what is under way already goes on."""
        if (known := self._open.get(work)) is not None:
            return known
        span_id = make_span_id(self._thread_id, self._record_id, "\0".join(work))
        context = SpanContext(self.root.context.trace_id, span_id)
        made = OpenSpan(
            name, context, self.root.context.span_id, kind, self._end_ns, dict(attributes)
        )
        self._open[work] = made
        return made

    def find(self, work: Work) -> OpenSpan | None:
        """What is under way of this kind."""
        return self._open.get(work)

    def end(self, work: Work, attributes: Attributes, error: SpanFailure | None = None) -> None:
        """Work has ended, if it was under way."""
        if (known := self._open.pop(work, None)) is not None:
            self._finished.append(known.end(self._end_ns, error, attributes))

    def drop(self, work: Work) -> None:
        """Work was under way that is nothing to tell of."""
        self._open.pop(work, None)

    def advance(self, record_id: str, at_ns: int) -> None:
        """The next record has come; a turn that is over stays as long as it was."""
        if not self.is_over:
            self._record_id, self._end_ns = record_id, at_ns

    def add_event(self, name: str, attributes: Attributes, work: Work | None = None) -> None:
        """Something happened in the turn, or to this work; nothing is told of one that is over."""
        span = self.root if work is None else self._open.get(work)
        if span is not None and not self.is_over:
            span.events.append(SpanEvent(name, self._end_ns, attributes))

    def close(self, outcome: str, error: SpanFailure | None, below: SpanFailure | None) -> None:
        """The turn is over, and with it what was under way.

        Args:
            outcome: how it ended.
            error: why it failed, if it did.
            below: what becomes of the work that is under way.
        """
        for work in (*self._open,):
            self.end(work, {}, below)
        self.root.attributes[OUTCOME] = outcome
        self.error, self.is_over = error, True

    def list_spans(self) -> list[FinishedSpan]:
        """All of it, the turn first; of a turn that is over."""
        return [self.root.end(self._end_ns, self.error, {}), *self._finished]

    def list_unfinished(self, outcome: str, error: SpanFailure | None) -> list[FinishedSpan]:
        """All of it as far as it has got; nothing changes."""
        root = self.root.end(self._end_ns, error, {OUTCOME: outcome})
        under_way = [span.end(self._end_ns, error, {}) for span in self._open.values()]
        return [root, *self._finished, *under_way]
