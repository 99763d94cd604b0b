"""Where spans go, by the environment variables of OpenTelemetry."""

from __future__ import annotations

from typing import Any, Final

import pytest

from treadle.app.telemetry.otlp_settings import TIMEOUT_S, TIMEOUT_S_MAX, read_otlp_settings
from treadle.errors import ConfigError

ENDPOINT: Final = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://loom:4318/"}
CASES: Final[list[tuple[dict[str, str], dict[str, Any] | None]]] = [
    ({}, None),
    (
        ENDPOINT,
        {
            "traces_url": "http://loom:4318/v1/traces",
            "metrics_url": "http://loom:4318/v1/metrics",
            "timeout_s": TIMEOUT_S,
            "resource": {"service.name": "treadle"},
            "with_content": False,
        },
    ),
    ({**ENDPOINT, "OTEL_SDK_DISABLED": " True "}, None),
    (
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://other/spans"},
        {"traces_url": "http://other/spans", "metrics_url": ""},
    ),
    (
        {**ENDPOINT, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://other/sums"},
        {"traces_url": "http://loom:4318/v1/traces", "metrics_url": "http://other/sums"},
    ),
    ({**ENDPOINT, "OTEL_METRICS_EXPORTER": "none"}, {"metrics_url": ""}),
    ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "None", "OTEL_METRICS_EXPORTER": "none"}, None),
    (
        {
            **ENDPOINT,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-team=a%20b,x-both=all",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x-both=spans",
            "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "x-both=sums",
        },
        {
            "traces_headers": {"x-team": "a b", "x-both": "spans"},
            "metrics_headers": {"x-team": "a b", "x-both": "sums"},
        },
    ),
    ({**ENDPOINT, "OTEL_EXPORTER_OTLP_TIMEOUT": "250"}, {"timeout_s": 0.25}),
    ({**ENDPOINT, "OTEL_EXPORTER_OTLP_TIMEOUT": "9" * 40}, {"timeout_s": TIMEOUT_S_MAX}),
    (
        {
            **ENDPOINT,
            "OTEL_RESOURCE_ATTRIBUTES": "service.name=shop,team=loom",
            "OTEL_SERVICE_NAME": "till",
        },
        {"resource": {"service.name": "till", "team": "loom"}},
    ),
    (
        {**ENDPOINT, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY"},
        {"with_content": True},
    ),
]


def test_the_variables_of_the_standard_say_where_and_how() -> None:
    misses = []
    for environ, wanted in CASES:
        found = read_otlp_settings(environ)
        told = None if found is None else {name: getattr(found, name) for name in wanted or {}}
        if told != wanted or (wanted is None and found is not None):
            misses.append((environ, told))
    assert misses == []


def test_another_protocol_is_refused_and_an_address_that_was_given_holds() -> None:
    grpc = {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "GRPC"}
    with pytest.raises(ConfigError, match="is grpc; spans are sent over HTTP only"):
        read_otlp_settings(grpc)
    quiet = {**grpc, "OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "none"}
    given = read_otlp_settings(quiet, "http://mine:1")
    assert given is not None
    assert given.traces_url == "http://mine:1/v1/traces"
