"""Tells the turns of a program's agents to the tracer that the program has set up.

Such a program has imported `opentelemetry`, so it is looked up and never imported. The spans have
the ids that its SDK gives, stand below the span that is current where the turn ends, and go
wherever its exporters send them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from treadle.telemetry.attributes import SUB_AGENT_THREAD
from treadle.telemetry.spans import FinishedSpan
from treadle.version import __version__


def find_program_tracer() -> Any | None:
    """The tracer of a program that has set up an SDK; `None` if it has none."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return provider.get_tracer("treadle", __version__)


class TracerWriter:
    """Writes spans to a tracer.

    Args:
        tracer: the program's.
        read_child: the spans of a sub-agent's thread; they stand below its call.
    """

    def __init__(self, tracer: Any, read_child: Callable[[str], Sequence[FinishedSpan]]) -> None:
        self._tracer = tracer
        self._read_child = read_child
        self._trace: Any = sys.modules["opentelemetry.trace"]
        self._written: set[str] = set()

    def write_spans(self, spans: Sequence[FinishedSpan], context: Any = None) -> None:
        """Write spans, each below its own.

        Args:
            spans: of turns that are over.
            context: what they stand below; the current one if not said.
        """
        below: dict[str, list[FinishedSpan]] = {}
        known = {span.context.span_id for span in spans}
        for span in spans:
            below.setdefault(span.parent_id if span.parent_id in known else "", []).append(span)
        for span in below.get("", ()):
            self._write_span(span, below, context)

    def _write_span(
        self, span: FinishedSpan, below: dict[str, list[FinishedSpan]], context: Any
    ) -> None:
        trace = self._trace
        kind = trace.SpanKind.CLIENT if span.kind == "client" else trace.SpanKind.INTERNAL
        made = self._tracer.start_span(
            span.name,
            context,
            kind=kind,
            attributes=dict(span.attributes),
            start_time=span.begin_ns,
        )
        for event in span.events:
            made.add_event(event.name, dict(event.attributes), event.at_ns)
        if span.error is not None:
            failed = trace.Status(trace.StatusCode.ERROR, span.error.message or None)
            made.set_status(failed)
        inner = trace.set_span_in_context(made, context)
        for one in below.get(span.context.span_id, ()):
            self._write_span(one, below, inner)
        child = str(span.attributes.get(SUB_AGENT_THREAD, ""))
        if child and child not in self._written:  # one that was imported may name itself
            self._written.add(child)
            self.write_spans(self._read_child(child), inner)
        made.end(span.end_ns)
