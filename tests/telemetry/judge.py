"""What the official packages make of what is sent: parsed by opentelemetry-proto, or refused."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

_ID_LENGTHS = {"traceId": 32, "spanId": 16, "parentSpanId": 16}


def _convert_ids(value: Any) -> Any:
    """OTLP writes ids in hex, where JSON of protocol buffers has base64: the one difference."""
    if isinstance(value, list):
        return [_convert_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    converted = {}
    for key, item in value.items():
        if key in _ID_LENGTHS:
            assert len(item) == _ID_LENGTHS[key], f"{key} {item!r}"
            assert item.strip("0"), f"{key} names nothing"
            item = base64.b64encode(bytes.fromhex(item)).decode()
        converted[key] = _convert_ids(item)
    return converted


def parse_spans(body: bytes) -> list[Span]:
    """The spans in a body for `/v1/traces`; unknown fields and values of other types raise."""
    request = ExportTraceServiceRequest()
    json_format.ParseDict(_convert_ids(json.loads(body)), request)
    return [span for one in request.resource_spans for two in one.scope_spans for span in two.spans]


def parse_metrics(body: bytes) -> list[Metric]:
    """The metrics in a body for `/v1/metrics`."""
    request = ExportMetricsServiceRequest()
    json_format.ParseDict(_convert_ids(json.loads(body)), request)
    return [
        metric
        for one in request.resource_metrics
        for two in one.scope_metrics
        for metric in two.metrics
    ]


def read_resource(body: bytes) -> dict[str, Any]:
    """Who reports."""
    request = ExportTraceServiceRequest()
    json_format.ParseDict(_convert_ids(json.loads(body)), request)
    return read_attributes(request.resource_spans[0].resource.attributes)


def read_attributes(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    """Attributes as plain values; one that stands there twice fails."""
    found: dict[str, Any] = {}
    for one in attributes:
        assert one.key not in found, f"{one.key} stands there twice"
        found[one.key] = _read_value(one.value)
    return found


def _read_value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_read_value(item) for item in value.array_value.values]
    return getattr(value, str(kind))


def list_faults(spans: Sequence[Span]) -> list[str]:
    """What is wrong with the spans of one thread."""
    faults = []
    ids = [(span.trace_id, span.span_id) for span in spans]
    by_id = dict(zip(ids, spans, strict=True))
    if len(by_id) != len(spans):
        twice = sorted(
            {span.name for span, one in zip(spans, ids, strict=True) if ids.count(one) > 1}
        )
        faults.append(f"several spans have one id: {twice}")
    for span in spans:
        if not span.name or not span.start_time_unix_nano:
            faults.append(f"{span.name!r} has no name or no time")
        if span.end_time_unix_nano < span.start_time_unix_nano:
            faults.append(f"{span.name} ends before it begins")
        times = (span.start_time_unix_nano, span.end_time_unix_nano)
        outside = [
            one.name for one in span.events if not times[0] <= one.time_unix_nano <= times[1]
        ]
        faults += [f"{span.name}: {event} is not within it" for event in outside]
        found = read_attributes(span.attributes)
        if (span.status.code == 2) != ("error.type" in found):
            faults.append(f"{span.name}: {span.status} and {found.get('error.type')}")
        if not span.parent_span_id:
            continue
        parent = by_id.get((span.trace_id, span.parent_span_id))
        if parent is None:
            faults.append(f"{span.name} has a parent that is not there")
        elif span.start_time_unix_nano < parent.start_time_unix_nano:
            faults.append(f"{span.name} begins before {parent.name}")
        elif parent.parent_span_id:
            faults.append(f"{span.name} is not below a turn")
    return faults


def list_metric_faults(metrics: Sequence[Metric]) -> list[str]:
    """What is wrong with the metrics of one thread."""
    faults = []
    for metric in metrics:
        if metric.histogram.aggregation_temporality != 2:
            faults.append(f"{metric.name} is not cumulative")
        series = set()
        for point in metric.histogram.data_points:
            found = read_attributes(point.attributes)
            series.add(str(sorted(found.items())))
            bounds = list(point.explicit_bounds)
            if len(point.bucket_counts) != len(bounds) + 1 or bounds != sorted(set(bounds)):
                faults.append(f"{metric.name} has buckets that are none")
            if sum(point.bucket_counts) != point.count or not point.count:
                faults.append(f"{metric.name} counts {point.count} in {point.bucket_counts}")
            if not point.min * point.count <= point.sum + 1e-6 <= point.max * point.count + 2e-6:
                faults.append(f"{metric.name} sums to {point.sum}")
            if not 0 < point.start_time_unix_nano <= point.time_unix_nano:
                faults.append(f"{metric.name} ends before it begins")
            if "gen_ai.conversation.id" in found:
                faults.append(f"{metric.name} has a series for each thread")
        if len(series) != len(metric.histogram.data_points):
            faults.append(f"{metric.name} has two points of one series")
    return faults
