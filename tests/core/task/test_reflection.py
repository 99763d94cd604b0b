"""Reflecting: older history becomes a digest; facts, the newest entries and messages stay."""

from __future__ import annotations

from decimal import Decimal

import pytest
from msgspec.structs import replace

from case_tables import for_every_row
from core.random_events import check_pairs
from core.task.tasks import agent, asks, at, broken, call, cycle, does, fine, logged, request, texts
from treadle.core.actions import WAIT, SendLlmRequest, Summarize
from treadle.core.budget import TokenBudget
from treadle.core.conversation import SUMMARY_HEAD
from treadle.core.events import Compacted, CompactionFailed
from treadle.core.llm import LlmError, LlmErrorKind, Usage
from treadle.core.task.digest import LINE_DIGEST_LENGTH_MAX, make_line_digest
from treadle.core.task.events import TimeRanOut
from treadle.core.task.machine import TaskMachine
from treadle.core.task.memory import SUMMARY, HistoryEntry


def worked(steps: int, **rest: object) -> TaskMachine:
    """A task after so many steps with a tool, each of which found a fact of its own."""
    machine = agent(**{"max_steps": 200, **rest})
    for number in range(1, steps + 1):
        cycle(machine, number, f"fact {number}")
    return machine


def test_the_first_steps_are_kept_word_for_word() -> None:
    machine = worked(5)
    assert "NEEDS_REFLECTION" in logged(machine)
    assert machine.conversation.compaction is None
    assert len(machine.memory.history) == 5


def test_older_entries_become_one_that_keeps_their_facts_and_the_newest_stay() -> None:
    machine = worked(10)
    first, *others = machine.memory.history
    assert (first.step, first.tool.tool_name, first.success) == (5, SUMMARY, True)
    assert first.observation == "\n".join(
        f'step {n}: look {{"x":"1"}} -> SUCCESS: fact {n}' for n in range(1, 6)
    )
    assert [entry.observation for entry in others] == [f"SUCCESS: fact {n}" for n in range(6, 11)]
    assert logged(machine)[-3:] == ["COMPRESS_START", "COMPRESS_DONE", "STEP_START"]


def test_the_next_request_begins_with_the_task_and_the_digest_and_has_its_pairs_whole() -> None:
    machine = worked(9)
    sent = request(cycle(machine, 10, "fact 10"))
    check_pairs(sent.messages)
    role, text = texts(sent.messages)[0]
    assert role == "user"
    assert text.startswith(f"{SUMMARY_HEAD}Task: count the lines\n\n")
    for number in range(1, 6):
        assert f"fact {number}" in text
    assert [text for role, text in texts(sent.messages) if role == "tool"] == [
        f"fact {number}" for number in range(6, 11)
    ]
    assert len(machine.conversation) == 21


def test_an_earlier_digest_is_kept_in_the_next_one() -> None:
    machine = worked(20)
    assert [entry.step for entry in machine.memory.history] == [15, 16, 17, 18, 19, 20]
    digest_ = machine.memory.history[0].observation
    assert [line.partition(":")[0] for line in digest_.splitlines()] == [
        f"step {number}" for number in range(1, 16)
    ]


def test_a_digest_of_lines_is_bounded_and_counts_what_it_leaves_out() -> None:
    text = ""
    for number in range(1, 201):
        entry = HistoryEntry(number, call(), f"SUCCESS: {'long ' * 100}", True)
        earlier = HistoryEntry(number - 1, call("", SUMMARY), text, True)
        text = make_line_digest([earlier, entry] if text else [entry])
        assert len(text) <= LINE_DIGEST_LENGTH_MAX
    head, *lines = text.splitlines()
    assert head == f"... {200 - len(lines)} earlier calls"
    assert lines[-1].startswith("step 200: ")
    assert len(lines) > 20


def test_a_line_of_a_digest_is_one_line_however_the_result_looked() -> None:
    entry = HistoryEntry(3, call("a", "look", '{"x":\n"1"}'), "SUCCESS: one\n... 7\ttwo", True)
    assert make_line_digest([entry]) == 'step 3: look {"x": "1"} -> SUCCESS: one ... 7 two'


def test_the_interval_says_how_much_stays() -> None:
    machine = worked(4, reflect_every_n_steps=1)
    assert [entry.step for entry in machine.memory.history] == [3, 4]


def test_without_an_interval_nothing_is_reflected_upon() -> None:
    machine = worked(20, reflect_every_n_steps=0)
    assert "NEEDS_REFLECTION" not in logged(machine)
    assert len(machine.memory.history) == 20


def test_a_context_that_fills_up_is_a_reason_to_reflect_and_more_is_given_up_then() -> None:
    machine = agent(reflect_every_n_steps=0, context_tokens_max=1000, max_steps=50)
    for number in range(1, 4):
        used = Usage(900 if number == 3 else 10, 10)
        name = f"n{number}"
        does(machine, asks(call(name), usage=used), fine(name, f"fact {number}"))
    assert machine.path == ("Observing", "Reflecting", "Planning")
    assert [entry.step for entry in machine.memory.history] == [1, 2, 3]
    assert [entry.tool.tool_name for entry in machine.memory.history] == [SUMMARY, "look", "look"]
    assert machine.conversation.tokens == 0


def test_a_round_of_several_calls_is_never_cut_in_two() -> None:
    machine = agent(reflect_every_n_steps=2, max_steps=50)
    for number in range(1, 6):
        names = [f"{number}-{i}" for i in range(3)]
        does(machine, asks(*map(call, names)), *map(fine, names))
        sent = machine.obligations()
        assert isinstance(sent, SendLlmRequest)
        check_pairs(sent.request.messages)
    assert [entry.step for entry in machine.memory.history] == [2, 3, 3, 3, 4, 4, 4, 5, 5, 5]


def test_a_note_about_low_confidence_is_in_view_after_the_reflection_it_caused() -> None:
    machine = worked(9)
    sent = request(does(machine, asks(call("doubt"), confidence=0.1)))
    assert machine.path == ("Reflecting", "Planning")
    assert machine.memory.history[0].tool.tool_name == SUMMARY
    check_pairs(sent.messages)
    assert "confidence 0.10" in sent.messages[-1].content


def test_a_note_stays_in_view_even_if_no_step_is_young_enough_to_stay() -> None:
    machine = worked(1, reflect_every_n_steps=3, max_retries=9)
    for _ in range(5):
        sent = request(does(machine, asks(call(""), confidence=0.1)))
        check_pairs(sent.messages)
        assert "confidence 0.10" in sent.messages[-1].content
    assert [entry.tool.tool_name for entry in machine.memory.history] == [SUMMARY]


# ---- written by a model ------------------------------------------------------------------------


def summarizing() -> TaskMachine:
    machine = worked(9, model_written_reflection=True, models={"default": "big"})
    action = cycle(machine, 10, "fact 10")
    assert isinstance(action, Summarize)
    assert machine.state_name == "Reflecting"
    assert machine.obligations() == action
    return machine


def test_a_model_is_asked_for_the_summary_without_tools() -> None:
    machine = summarizing()
    action = machine.obligations()
    assert isinstance(action, Summarize)
    assert (action.through, action.request.model, action.request.tools) == (11, "big", ())
    [message] = action.request.messages
    for words in ("count the lines", "fact 1", "fact 5"):
        assert words in message.content
    assert "fact 6" not in message.content


def test_the_summary_of_the_model_takes_the_place_of_the_digest_and_what_it_used_counts() -> None:
    machine = summarizing()
    before = machine.memory.total_usage
    sent = request(does(machine, Compacted(11, "five facts", usage=Usage(7, 8))))
    assert machine.memory.total_usage == before + Usage(7, 8)
    assert machine.memory.history[0].observation == "five facts"
    assert "Task: count the lines" in sent.messages[0].content
    assert "five facts" in sent.messages[0].content
    check_pairs(sent.messages)


@for_every_row(
    "event",
    [
        CompactionFailed(LlmError(LlmErrorKind.SERVER, "away", usage=Usage(1, 0))),
        Compacted(11, " \n"),
        Compacted(9, "of other messages"),
        TimeRanOut(at(1)),
    ],
)
def test_without_a_summary_history_stays_as_it_is_and_work_goes_on(
    event: Compacted | CompactionFailed | TimeRanOut,
) -> None:
    machine = summarizing()
    before = machine.memory
    assert isinstance(does(machine, event), SendLlmRequest)
    assert machine.memory.history is before.history
    assert machine.conversation is before.transcript
    assert "COMPRESS_FAILED" in logged(machine)


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        (TokenBudget(max_total=75), "Token budget exceeded: 75 of 75 tokens used"),
        (TokenBudget(max_cost_usd=Decimal(1)), "Cost budget exceeded: 1.0000 of 1 USD spent"),
    ],
)
def test_no_model_is_asked_for_a_summary_when_the_budget_is_used_up(
    budget: TokenBudget, why: str
) -> None:
    machine = worked(9, model_written_reflection=True)
    used = Usage(70, 5, cost_usd=Decimal(1))
    memory = replace(machine.memory, budget=budget, total_usage=used)
    machine = machine.with_state(replace(machine.state, memory=memory))
    assert does(machine, asks(call("last"), usage=Usage()), fine("last")) == WAIT
    assert machine.path == ("Observing", "Reflecting", "Planning", "Error")
    assert machine.memory.error == why
    assert len(machine.memory.history) == 10


def test_only_the_end_of_the_summary_fits_while_it_is_written() -> None:
    machine = summarizing()
    before = machine.state
    does(machine, broken(), asks(), fine("a"))
    assert machine.state is before
