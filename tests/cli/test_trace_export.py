"""`treadle trace --otlp`: a run at a collector, as a person sends it there."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable

from cli.conftest import Run
from cli.test_run import HELLO
from telemetry.judge import list_faults, parse_metrics, parse_spans
from telemetry.receiver import run_receiver


def test_a_conversation_is_sent_or_printed(treadle: Run, script: Callable[[str], str]) -> None:
    assert treadle("-p", "hi", "-m", script(HELLO)).returncode == 0
    name = json.loads(treadle("list", "--json").stdout)[0]["id"]
    with run_receiver() as receiver:
        done = treadle("trace", name, "--otlp", receiver.url)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr == f"sent {len(receiver.spans)} spans of 1 thread\n"
        assert list_faults(receiver.spans) == []
        assert receiver.find("invoke_agent")[0][1]["gen_ai.conversation.id"] == name
    printed = treadle("trace", name, "--otlp", "-")
    spans, metrics = printed.stdout.encode().splitlines()
    assert {one.span_id for one in parse_spans(spans)} == {one.span_id for one in receiver.spans}
    assert parse_metrics(metrics)
    refused = treadle("trace", name, "--otlp", receiver.url)  # it is gone
    assert refused.returncode == 75, refused.stderr
    assert "cannot be reached" in refused.stderr
    assert "Traceback" not in refused.stderr
    for wrong in (["--content"], ["--otlp", "-", "--json"], ["--otlp", ""]):
        assert treadle("trace", name, *wrong).returncode == 2


def test_turns_are_told_as_they_end_each_once(treadle: Run, script: Callable[[str], str]) -> None:
    model = script(HELLO)
    with run_receiver() as receiver:
        named = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_SERVICE_NAME": "shop"}
        done = treadle("-p", "hi", "-m", model, **named)
        assert (done.returncode, done.stderr.count("telemetry")) == (0, 0)
        name = json.loads(treadle("list", "--json").stdout)[0]["id"]
        first = {one.span_id for one in receiver.spans}
        assert len(receiver.find("invoke_agent")) == 1
        assert treadle("-p", "unheard", "-c", "-m", model).returncode == 0
        assert treadle("-p", "again", "-c", "-m", model, **named).returncode == 0
        assert len(receiver.find("invoke_agent")) == 2, "what was not to be told stays untold"
        assert receiver.resources[0]["service.name"] == "shop"
        assert list_faults(receiver.spans) == []
        counts = [
            sum(point.count for point in metric.histogram.data_points)
            for metric in receiver.metrics
            if metric.name == "gen_ai.client.operation.duration"
        ]
        assert counts == [2, 6], "sums are those of the whole thread"
        told = {one.span_id for one in receiver.spans}
    lines = treadle("trace", name, "--otlp", "-").stdout.encode().splitlines()
    assert first < told < {one.span_id for one in parse_spans(lines[0])}


def test_a_collector_that_is_away_or_silent_costs_a_line(
    treadle: Run, script: Callable[[str], str]
) -> None:
    model = script(HELLO)
    quick = {"treadle.app.telemetry.named_collector.CLOSE_S_MAX": 0.1}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        named = {"OTEL_EXPORTER_OTLP_ENDPOINT": url}
        slow = treadle("-p", "hi", "-m", model, constants=quick, **named)
    away = treadle("-p", "hi", "-m", model, **named)
    wrong = treadle("-p", "hi", "-m", model, OTEL_EXPORTER_OTLP_ENDPOINT="nowhere")
    private = treadle("-p", "hi", "-m", model, "--private", **named)
    off = treadle("-p", "hi", "-m", model, OTEL_SDK_DISABLED="true", **named)
    for done in (slow, away, wrong, private, off):
        assert (done.returncode, done.stdout) == (0, "Hello to you.\n"), done.stderr
    assert "telemetry was not sent: the collector takes too long" in slow.stderr
    assert "telemetry was not sent: the collector at 127.0.0.1 cannot be reached" in away.stderr
    assert "no telemetry: the address of the collector" in wrong.stderr
    assert "telemetry" not in private.stderr + off.stderr
