"""The metrics of spans: tokens and durations, as the GenAI conventions have them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from treadle.telemetry.attributes import (
    ERROR,
    INPUT_TOKENS,
    MODEL,
    OPERATION,
    OUTPUT_TOKENS,
    PROVIDER,
    TOOL,
)
from treadle.telemetry.spans import Attributes, AttributeValue, FinishedSpan

TOKEN_BOUNDS: Final = tuple(float(4**power) for power in range(14))
DURATION_BOUNDS: Final = tuple(0.01 * 2**power for power in range(14))
"""Seconds. Both are those of the conventions."""

_KEPT: Final = (OPERATION, PROVIDER, MODEL, TOOL, ERROR)
"""What tells series apart: few values each. A thread's id is none of them."""


class Metric(Struct, frozen=True):
    """What is measured, in which unit, and the bounds of its buckets."""

    name: str
    unit: str
    description: str
    bounds: tuple[float, ...]


TOKEN_USAGE: Final = Metric(
    "gen_ai.client.token.usage", "{token}", "Number of input and output tokens used", TOKEN_BOUNDS
)
DURATION: Final = Metric(
    "gen_ai.client.operation.duration", "s", "GenAI operation duration", DURATION_BOUNDS
)


class HistogramPoint(Struct):
    """What was measured under some attributes."""

    attributes: Attributes
    bucket_counts: list[int]
    count: int = 0
    sum: float = 0.0
    min: float = 0.0
    max: float = 0.0

    def add(self, value: float, bounds: tuple[float, ...]) -> None:
        """Count a value; one that is a bound belongs below it."""
        self.bucket_counts[bisect_left(bounds, value)] += 1
        self.min = min(self.min, value) if self.count else value
        self.max = max(self.max, value) if self.count else value
        self.count += 1
        self.sum += value


class MeasuredSpans:
    """What spans add up to, from the first one on.

    `begin_ns` and `end_ns` are those of all of them; both are 0 if there are none.
    """

    def __init__(self) -> None:
        self.begin_ns = 0
        self.end_ns = 0
        self._points: dict[str, dict[tuple[tuple[str, AttributeValue], ...], HistogramPoint]] = {}

    def add(self, spans: Iterable[FinishedSpan]) -> None:
        """Count more spans; those of hooks and states are nothing that the conventions measure."""
        for span in spans:
            if OPERATION not in span.attributes:
                continue
            self.begin_ns = min(self.begin_ns or span.begin_ns, span.begin_ns)
            self.end_ns = max(self.end_ns, span.end_ns)
            kept = tuple((name, span.attributes[name]) for name in _KEPT if name in span.attributes)
            self._count(DURATION, kept, (span.end_ns - span.begin_ns) / 1e9)
            for kind, name in (("input", INPUT_TOKENS), ("output", OUTPUT_TOKENS)):
                used = span.attributes.get(name)
                if isinstance(used, int):
                    told = [pair for pair in kept if pair[0] != ERROR]
                    self._count(TOKEN_USAGE, (*told, ("gen_ai.token.type", kind)), used)

    def _count(
        self, metric: Metric, named: tuple[tuple[str, AttributeValue], ...], value: float
    ) -> None:
        series = self._points.setdefault(metric.name, {})
        if named not in series:
            series[named] = HistogramPoint(dict(named), [0] * (len(metric.bounds) + 1))
        series[named].add(value, metric.bounds)

    def list_points(self, metric: Metric) -> list[HistogramPoint]:
        """The points of a metric, in the order in which they began."""
        return [*self._points.get(metric.name, {}).values()]
