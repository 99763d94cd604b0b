"""`treadle usage`: what all threads have used, from the index, as it stands in their records."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli.conftest import Run
from core.samples import CONFIG, said
from store.shelf import Shelf, fill
from treadle.app.threads.thread_view import read_history
from treadle.app.threads.usage_report import sum_usage
from treadle.core.events import LlmEvent
from treadle.core.llm import LlmResponse, Usage
from treadle.core.messages import Message
from treadle.core.task.events import TaskConfig, TaskGiven
from treadle.thread.codec import Entry
from treadle.thread.facts import Configured, Renamed
from treadle.thread.fold import TASK


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "home")


def answered(usage: Usage) -> Entry:
    return LlmEvent.Completed(LlmResponse(Message.assistant("yes"), usage=usage))


def by(model: str) -> Entry:
    return Configured(replace(CONFIG, model_name=model), "scripted")


def test_days_and_models_are_added_up_over_threads_and_as_they_grow(shelf: Shelf) -> None:
    priced = Usage(100, 10, cache_read_tokens=60, cost_usd=Decimal("0.1"))
    shelf.clock.fixed = "2026-11-20T12:00:00.000000Z"
    first = shelf.create((by("a:one"), said("x")), (answered(priced),))
    shelf.create((by("a:one"), said("x")), (answered(priced),))
    report = sum_usage(shelf.store)
    assert [(one.day, one.model, one.requests) for one in report.days] == [
        ("2026-11-20", "a:one", 2)
    ]
    # It goes on the next day, from what is known; then with another model, and a title by a third.
    shelf.clock.fixed = "2026-11-21T12:00:00.000000Z"
    writer = shelf.store.open(first)
    fill(writer, (said("y"),), (answered(priced),))
    writer.close()
    assert sum_usage(shelf.store).days[0] == report.days[0].__class__(
        "2026-11-21", "a:one", 1, priced
    )
    writer = shelf.store.open(first)
    fill(writer, (by("b:two"),), (said("z"),), (answered(Usage(7, 1)),))
    fill(writer, (Renamed("t", by="model", usage=Usage(3, 1), model="c:three"),))
    writer.close()
    grown = sum_usage(shelf.store)
    index = shelf.places.data / "index.sqlite"
    for path in index.parent.glob("index.sqlite*"):
        path.unlink()
    assert sum_usage(shelf.store) == grown  # read from the first record, it is the same
    assert {one.model: one.usage.total_tokens for one in grown.models} == {
        "a:one": 330, "b:two": 8, "c:three": 4,
    }  # fmt: skip
    assert (grown.total.requests, grown.total.usage.cost_usd) == (5, Decimal("0.3"))
    assert [one.day for one in sum_usage(shelf.store, since="2026-11-21").days] == [
        "2026-11-21"
    ] * 3


def test_what_is_gone_is_not_counted(shelf: Shelf) -> None:
    thread = shelf.create((by("a:one"), said("x")), (answered(Usage(5, 5)),))
    assert sum_usage(shelf.store).total.requests == 1
    for path in (shelf.journal(thread), shelf.snapshot(thread)):
        path.unlink(missing_ok=True)
    assert sum_usage(shelf.store).days == []


def test_the_command_tells_people_lines_and_programs_numbers(
    treadle: Run, script: Callable[[str], str]
) -> None:
    assert "no model was asked" in treadle("usage").stderr
    usage = "usage = { input_tokens = 1200, output_tokens = 30 }"
    model = script(f'[[replies]]\ntext = "Yes."\n{usage}\n')
    treadle("-p", "go", "-m", model)
    told = json.loads(treadle("usage", "--json").stdout)
    (day,) = told["days"]
    assert (day["model"], day["requests"], day["usage"]["input_tokens"]) == (model, 1, 1200)
    assert told["total"]["requests"] == 1
    first, _, whole = treadle("usage").stdout.splitlines()
    assert first.startswith(day["day"])
    for line in (first, whole):
        assert "1 request  1,200 in  30 out" in line
    assert treadle("usage", "--since", "soon").returncode == 2


def test_a_fork_asks_whom_its_base_asked_and_counts_what_is_its_own(shelf: Shelf) -> None:
    thread = shelf.create((by("a:one"), said("x")), (answered(Usage(5, 5)),))
    fork = shelf.store.fork(thread, creator="treadle/0.1.0")
    for _ in range(2):  # read from its first record, then from where it was known
        fill(fork, (said("y"),), (answered(Usage(1, 1)),))
        sum_usage(shelf.store)
    fork.close()
    report = sum_usage(shelf.store)
    assert [(one.model, one.requests, one.usage.total_tokens) for one in report.models] == [
        ("a:one", 3, 14)
    ]
    used = shelf.store.load(fork.thread_id).fold.usage
    past = read_history(shelf.store, fork.thread_id, fork.fold.version, used)
    assert [one.model for one in past.spent] == ["a:one", "a:one"]


def test_a_task_asks_the_model_of_its_kind_whatever_was_known_of_it(shelf: Shelf) -> None:
    task = TaskGiven("mend", config=TaskConfig(models={"default": "t:task"}))
    writer = shelf.store.create("treadle/0.1.0", machine=TASK, first=(by("a:one"), task))
    for model in ("a:one", "b:two"):
        fill(writer, (by(model), Renamed("t", by="model", usage=Usage(3, 1))))
        sum_usage(shelf.store)
    writer.close()
    assert [(one.model, one.requests) for one in sum_usage(shelf.store).models] == [("t:task", 2)]
