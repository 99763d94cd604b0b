"""Turns on their way to a collector: from a thread of their own, bounded, told of once."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from core.samples import CONFIG, answer, call, ended, said
from telemetry.receiver import run_receiver
from telemetry.test_export import put
from thread.journals import HEADER, ID, OTHER_ID
from treadle import LocalStore
from treadle.app.telemetry import turn_exporter
from treadle.app.telemetry.followed_spans import FollowedSpans
from treadle.app.telemetry.otlp_settings import OtlpSettings
from treadle.app.telemetry.thread_spans import DESCENDANT_COUNT_MAX, ThreadSpans, list_family
from treadle.app.telemetry.turn_exporter import TurnExporter
from treadle.core.events import PostToolsHookCompleted, ToolStarted
from treadle.core.llm import Usage
from treadle.sync.shareable_thread import hold_for_request
from treadle.telemetry.spans import FinishedSpan, SpanContext
from treadle.thread.facts import ChildStarted, Configured, PrivacySet, ThreadCreated

NOWHERE = "http://127.0.0.1:9"
CHILD = ThreadCreated(1, OTHER_ID, "chat", "t", parent=ID, parent_call="a", depth=1)
CALLED = (
    (HEADER,),
    (Configured(CONFIG), said("go")),
    (answer("", call("a")), ToolStarted("a"), ChildStarted("a", OTHER_ID)),
    (ended("a"),),
    (PostToolsHookCompleted(False),),
    (answer("done", usage=Usage(9, 1)),),
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalStore:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "home"))
    return LocalStore(tmp_path / "store")


def make(url: str, told: list[str]) -> TurnExporter:
    return TurnExporter(OtlpSettings(f"{url}/v1/traces", f"{url}/v1/metrics"), told.append)


def follow(store: LocalStore) -> FollowedSpans:
    return FollowedSpans(store, put(store, ID, CALLED), "", {})


def test_a_sub_agent_goes_along_with_its_sums_and_one_that_is_gone_does_not(
    store: LocalStore,
) -> None:
    told: list[str] = []
    child = ((CHILD,), (Configured(CONFIG), said("go")), (answer("", usage=Usage(90, 1)),))
    put(store, OTHER_ID, child)
    with run_receiver() as receiver:
        exporter = make(receiver.url, told)
        exporter.notify_turn(follow(store))
        assert exporter.close(60)
        assert len(receiver.find("invoke_agent")) == 2
        assert receiver.sum_tokens("input") == 99
        receiver.spans.clear()
        Path(store.folders.path(OTHER_ID, ".jsonl")).unlink()
        exporter = make(receiver.url, told)
        exporter.notify_turn(follow(store))
        assert exporter.close(60)
        assert len(receiver.find("invoke_agent")) == 1
    assert (told, exporter.problem) == ([], "")


def test_of_turns_that_were_not_sent_the_first_is_told_and_a_private_one_is_none(
    store: LocalStore,
) -> None:
    told: list[str] = []
    exporter = make(NOWHERE, told)
    put(store, OTHER_ID, ((ThreadCreated(1, OTHER_ID, "chat", "t"), PrivacySet(True)), *CALLED[1:]))
    exporter.notify_turn(FollowedSpans(store, OTHER_ID, "", {}))
    assert exporter.close(60)
    assert told == []
    # Written once: the exporter reads the journal as soon as it is notified.
    exporter, followed = make(NOWHERE, told), follow(store)
    for _ in range(2):
        exporter.notify_turn(followed)
    assert exporter.close(60)
    assert told == [exporter.problem]
    assert "cannot be reached" in exporter.problem


def test_a_thread_that_is_being_sent_is_waited_for(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_exporter, "BUSY_S", 0.01)
    told: list[str] = []
    with run_receiver() as receiver:
        exporter, followed = make(receiver.url, told), follow(store)
        with hold_for_request(store, ID):
            exporter.notify_turn(followed)
            assert not exporter.close(0.1)
        assert exporter.close(60)
        assert receiver.find("invoke_agent")
    assert told == []
    monkeypatch.setattr(turn_exporter, "BUSY_COUNT_MAX", 2)
    exporter, followed = make(NOWHERE, told), follow(store)
    with hold_for_request(store, ID):
        exporter.notify_turn(followed)
        assert exporter.close(60)
    assert len(told) == 1


def test_of_sub_agents_without_end_so_many_go_along() -> None:
    names = map(str, count())

    def read(thread_id: str) -> ThreadSpans:
        spans = [
            FinishedSpan(
                "call",
                SpanContext("1" * 32, "2" * 16),
                "",
                "internal",
                1,
                2,
                {"treadle.sub_agent.thread": next(names)},
            )
            for _ in "ab"
        ]
        return ThreadSpans(thread_id, spans)

    assert len(list_family(read("first"), read)) == DESCENDANT_COUNT_MAX
