"""A thread that is followed tells each turn once, when it has ended, whatever becomes of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from core.samples import CONFIG, answer, call, decided, ended, said
from telemetry.test_export import put
from thread.journals import HEADER, ID, OTHER_ID, at
from treadle import LocalStore
from treadle.app import ScrubJob, make_redaction, scrub_threads
from treadle.app.telemetry.followed_spans import FollowedSpans
from treadle.app.telemetry.program_tracer import TracerWriter
from treadle.app.telemetry.thread_spans import read_thread_spans
from treadle.core.events import PostToolsHookCompleted, ToolStarted
from treadle.core.llm import Usage
from treadle.errors import UnknownThreadError
from treadle.telemetry.spans import FinishedSpan, SpanContext, SpanEvent, SpanFailure
from treadle.thread.codec import Entry
from treadle.thread.facts import Configured, Renamed

Batches = Sequence[Sequence[Entry]]

FIRST: Batches = ((HEADER,), (Configured(CONFIG), said("sesame")), (answer("one"),))
TITLED: Batches = ((said("more"),), (Renamed("The loom", "model", Usage(9, 1), "m:small"),))
ENDED: Batches = ((answer("two"),),)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStore:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "home"))
    return LocalStore(tmp_path / "store")


def names(spans: Sequence[FinishedSpan]) -> list[str]:
    return sorted(span.name for span in spans)


def test_a_turn_is_told_with_all_that_belongs_to_it(store: LocalStore) -> None:
    put(store, ID, FIRST)
    followed = FollowedSpans(store, ID, "", {})
    assert names(followed.read_new()) == ["chat model-1", "invoke_agent"]
    assert followed.read_new() == []
    put(store, ID, (*FIRST, *TITLED))
    assert followed.read_new() == [], "the title waits for the turn"
    put(store, ID, (*FIRST, *TITLED, *ENDED))
    told = followed.read_new()
    assert names(told) == ["chat model-1", "chat small", "invoke_agent"]
    put(store, ID, (*FIRST, *TITLED, *ENDED, TITLED[1]))
    assert names(followed.read_new()) == ["chat small"], "one that comes late is told by itself"
    Path(store.folders.path(ID, ".jsonl")).unlink()
    with pytest.raises(UnknownThreadError, match="is removed"):
        followed.read_new()


def test_what_ended_before_is_not_told_and_counts_in_the_sums(store: LocalStore) -> None:
    put(store, ID, (*FIRST, *TITLED, *ENDED))
    followed = FollowedSpans(store, ID, at(3), {})
    assert names(followed.read_new()) == ["chat model-1", "chat small", "invoke_agent"]
    whole = read_thread_spans(store, ID)
    assert followed.measured.begin_ns == min(span.begin_ns for span in whole.spans)


def test_a_scrub_leaves_the_ids_and_nothing_is_told_twice(store: LocalStore) -> None:
    put(store, ID, FIRST)
    followed = FollowedSpans(store, ID, "", {})
    followed.read_new()
    before = read_thread_spans(store, ID).spans
    redact, sign = make_redaction("sesame", "text")
    scrub_threads(ScrubJob(store=store, threads=[ID], redact=redact, sign=sign))
    assert "sesame" not in Path(store.folders.path(ID, ".jsonl")).read_text()
    assert [one.context for one in read_thread_spans(store, ID).spans] == [
        one.context for one in before
    ]
    assert followed.read_new() == []


def test_a_turn_that_waits_for_a_person_is_told_when_it_is_over(store: LocalStore) -> None:
    asked: Batches = (*FIRST[:2], (answer("", call("a", "drop")),))
    put(store, ID, asked)
    followed = FollowedSpans(store, ID, "", {})
    assert followed.read_new() == []
    root = read_thread_spans(store, ID).spans[0]
    assert root.attributes["treadle.outcome"] == "approval_needed"
    assert root.error is None
    hook = PostToolsHookCompleted(False)
    after: Batches = ((decided("a"), ToolStarted("a")), (ended("a"),), (hook,), (answer("gone"),))
    put(store, ID, (*asked, *after))
    told = followed.read_new()
    assert "execute_tool drop" in names(told)
    (root,) = (span for span in told if not span.parent_id)
    assert [event.name for event in root.events] == ["treadle.approval_decided"]
    assert root.attributes["treadle.outcome"] == "done"


def test_a_sub_agent_that_names_itself_is_told_once() -> None:
    """Only who has written the journal by hand can have it so."""
    from opentelemetry.sdk.trace import TracerProvider

    found = {"treadle.sub_agent.thread": OTHER_ID}
    span = FinishedSpan("call", SpanContext("1" * 32, "2" * 16), "", "internal", 1, 2, found)
    read: list[str] = []

    def read_child(thread_id: str) -> Sequence[FinishedSpan]:
        read.append(thread_id)
        return [span]

    TracerWriter(TracerProvider().get_tracer("t"), read_child).write_spans([span])
    assert read == [OTHER_ID]


def test_what_fails_below_a_turn_and_happens_in_it_is_told_to_a_tracer() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    told, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(told))
    event = SpanEvent("treadle.uncertain", 1_500, {"x": 1})
    failed = SpanFailure("uncertain", "nobody knows")
    root = FinishedSpan("turn", SpanContext("1" * 32, "2" * 16), "", "internal", 1_000, 3_000, {})
    below = FinishedSpan(
        "call",
        SpanContext("1" * 32, "3" * 16),
        "2" * 16,
        "internal",
        1_000,
        2_000,
        {},
        (event,),
        error=failed,
    )
    TracerWriter(provider.get_tracer("t"), lambda _: ()).write_spans([root, below])
    inner, outer = told.get_finished_spans()
    assert (inner.name, inner.start_time, inner.end_time) == ("call", 1_000, 2_000)
    assert (outer.name, outer.end_time) == ("turn", 3_000)
    assert [(one.name, one.timestamp, dict(one.attributes or {})) for one in inner.events] == [
        ("treadle.uncertain", 1_500, {"x": 1})
    ]
    assert not inner.status.is_ok
    assert inner.status.description == "nobody knows"
    assert outer.status.is_unset
