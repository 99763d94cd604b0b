"""`treadle trace --otlp`: a run at a collector, as a person sends it there."""

from __future__ import annotations

import json
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
