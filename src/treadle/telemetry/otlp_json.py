"""Spans and metrics as OTLP JSON, byte for byte the same for the same ones.

This is the JSON of OTLP/HTTP: ids in hex, whole numbers of 64 bits as text, names in camel case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from treadle.telemetry.metrics import DURATION, TOKEN_USAGE, HistogramPoint, MeasuredSpans, Metric
from treadle.telemetry.spans import Attributes, AttributeValue, FinishedSpan, SpanEvent, SpanLink
from treadle.version import __version__

_SCOPE: Final = {"name": "treadle", "version": __version__}
_KINDS: Final = {"internal": 1, "client": 3}
_STATUS_ERROR: Final = 2
_CUMULATIVE: Final = 2


def encode_spans(spans: Sequence[FinishedSpan], resource: Mapping[str, str]) -> bytes:
    """The body of a request for `/v1/traces`.

    Args:
        spans: in any order.
        resource: who reports them.
    """
    scoped = {"scope": _SCOPE, "spans": [_describe_span(span) for span in spans]}
    found = {"resource": _describe_resource(resource), "scopeSpans": [scoped]}
    return msgspec.json.encode({"resourceSpans": [found]})


def encode_metrics(measured: MeasuredSpans, resource: Mapping[str, str], instance: str) -> bytes:
    """The body of a request for `/v1/metrics`: sums since the beginning, so told twice is once.

    Args:
        measured: what was measured.
        resource: who reports it.
        instance: what it was measured of; another one's sums are other series.
    """
    metrics = [
        _describe_metric(metric, points, measured)
        for metric in (TOKEN_USAGE, DURATION)
        if (points := measured.list_points(metric))
    ]
    named = {**resource, "service.instance.id": instance}
    scoped = {"scope": _SCOPE, "metrics": metrics}
    found = {"resource": _describe_resource(named), "scopeMetrics": [scoped]}
    return msgspec.json.encode({"resourceMetrics": [found]})


def _describe_resource(resource: Mapping[str, str]) -> dict[str, Any]:
    return {"attributes": _describe_attributes(resource)}


def _describe_span(span: FinishedSpan) -> dict[str, Any]:
    found: dict[str, Any] = {"traceId": span.context.trace_id, "spanId": span.context.span_id}
    if span.parent_id:
        found["parentSpanId"] = span.parent_id
    found |= {
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": str(span.begin_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _describe_attributes(span.attributes),
    }
    if span.events:
        found["events"] = [_describe_event(event) for event in span.events]
    if span.links:
        found["links"] = [_describe_link(link) for link in span.links]
    if span.error is not None:
        message = {"message": span.error.message} if span.error.message else {}
        found["status"] = {**message, "code": _STATUS_ERROR}
    return found


def _describe_event(event: SpanEvent) -> dict[str, Any]:
    attributes = _describe_attributes(event.attributes)
    return {"timeUnixNano": str(event.at_ns), "name": event.name, "attributes": attributes}


def _describe_link(link: SpanLink) -> dict[str, Any]:
    attributes = _describe_attributes(link.attributes)
    context = link.context
    return {"traceId": context.trace_id, "spanId": context.span_id, "attributes": attributes}


def _describe_metric(
    metric: Metric, points: Sequence[HistogramPoint], measured: MeasuredSpans
) -> dict[str, Any]:
    described = [
        {
            "attributes": _describe_attributes(point.attributes),
            "startTimeUnixNano": str(measured.begin_ns),
            "timeUnixNano": str(measured.end_ns),
            "count": str(point.count),
            "sum": point.sum,
            "bucketCounts": [str(count) for count in point.bucket_counts],
            "explicitBounds": list(metric.bounds),
            "min": point.min,
            "max": point.max,
        }
        for point in points
    ]
    histogram = {"dataPoints": described, "aggregationTemporality": _CUMULATIVE}
    words = {"name": metric.name, "description": metric.description, "unit": metric.unit}
    return {**words, "histogram": histogram}


def _describe_attributes(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": key, "value": _describe_value(value)} for key, value in attributes.items()]


def _describe_value(value: AttributeValue) -> dict[str, Any]:
    if isinstance(value, bool):  # before int, of which it is one
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [_describe_value(item) for item in value]}}
