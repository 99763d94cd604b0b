"""The task machine as a whole: what it refuses, its clock, what it owes, that it is pure."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from msgspec.structs import replace

from case_tables import for_every_row
from core.task.tasks import (
    ANSWER,
    agent,
    asks,
    at,
    broken,
    call,
    cycle,
    decided,
    does,
    fine,
    given,
    idle,
    says,
    settings,
)
from treadle.core.actions import WAIT, AgentAction
from treadle.core.approval import AlwaysAsk, Approved
from treadle.core.config import AgentConfig
from treadle.core.events import (
    CancelRequested,
    CompactionRequested,
    LlmEvent,
    PostToolsHookCompleted,
    RetryTimeoutFired,
    ShutdownRequested,
    ToolProgressEvent,
    ToolStarted,
    UserInput,
)
from treadle.core.machine import Machine
from treadle.core.messages import Message
from treadle.core.task.events import TaskResumed
from treadle.core.task.handler import Handler
from treadle.core.task.machine import TaskMachine
from treadle.core.tools import ToolProgress
from treadle.errors import InvalidTransition


def as_machine(machine: TaskMachine) -> Machine:
    return machine


def test_it_is_a_machine_as_the_runtime_knows_them() -> None:
    machine = as_machine(idle())
    assert (machine.state_name, machine.is_at_rest) == ("Idle", True)
    assert (machine.questions, machine.round, machine.retry) == ((), (), None)
    assert machine.obligations() == WAIT
    assert len(machine.conversation) == 0


def test_everything_about_the_task_comes_from_the_event_that_gives_it() -> None:
    machine = idle()
    event = given(task_type="research", system_prompt="x", blacklisted_tools=("b",), max_steps=3)
    machine.handle_event(event)
    memory = machine.memory
    assert (memory.task, memory.task_type, memory.system_prompt) == (event.task, "research", "x")
    assert (memory.config.max_steps, memory.blacklisted_tools) == (3, ("b",))
    assert (memory.clock, memory.elapsed_s) == (at(0), 0.0)


@for_every_row(
    "event", [says(ANSWER), fine("a"), RetryTimeoutFired(), TaskResumed(at(1)), broken()]
)
def test_without_a_task_nothing_fits(event: Any) -> None:
    machine = idle()
    before = machine.state
    assert machine.handle_event(event) == WAIT
    assert machine.state is before


@pytest.mark.parametrize(
    "event",
    [
        given("another"),
        UserInput(Message.user("hello")),
        CancelRequested(),
        CompactionRequested(),
        fine("a"),
        ToolStarted("a"),
        decided("a", Approved()),
        RetryTimeoutFired(),
        PostToolsHookCompleted(True),
    ],
)
def test_what_does_not_fit_is_refused_with_a_warning_and_changes_nothing(
    event: Any, caplog: pytest.LogCaptureFixture
) -> None:
    machine = agent()
    before = machine.state
    assert machine.handle_event(event) == WAIT
    assert machine.state is before
    assert machine.path == ()
    [line] = [record for record in caplog.records if record.levelno == logging.WARNING]
    name = type(event).__qualname__
    assert line.getMessage() == f"T-1: Planning refuses {name}; nothing changed"


@pytest.mark.parametrize(
    "event",
    [
        LlmEvent.TextDelta("x"),
        LlmEvent.ThinkingDelta("x"),
        LlmEvent.ToolCallDelta("a", "look", "{"),
        ToolProgressEvent("a", ToolProgress(0.5)),
        ShutdownRequested(),
    ],
)
def test_what_passes_by_changes_nothing_and_is_no_reason_to_warn(
    event: Any, caplog: pytest.LogCaptureFixture
) -> None:
    machine = agent()
    before = machine.state
    assert machine.handle_event(event) == WAIT
    assert machine.state is before
    assert [record for record in caplog.records if record.levelno == logging.WARNING] == []


def test_after_the_end_nothing_happens_any_more() -> None:
    machine = agent()
    machine.handle_event(says(ANSWER))
    before = machine.state
    for event in (says(ANSWER), fine("a"), given(), RetryTimeoutFired()):
        assert machine.handle_event(event) == WAIT
        assert machine.state is before
    assert machine.obligations() == WAIT


def test_each_move_is_one_line_of_the_log_without_what_was_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="treadle.task")
    machine = agent("my secret")
    does(machine, asks(call("a", "look", "my secret")), fine("a", "my secret"))
    assert [record.getMessage() for record in caplog.records] == [
        "T-1: Idle --TaskGiven--> Idle, Planning / SendLlmRequest",
        "T-1: Planning --LlmEvent.Completed--> Acting / ExecuteTools",
        "T-1: Acting --ToolCompleted--> Observing, Planning / SendLlmRequest",
    ]


def test_the_trace_has_the_time_of_the_event_that_was_handled() -> None:
    machine = agent()
    does(machine, asks(at=at(3)), fine("a", at=at(5)))
    times = {entry.event: entry.timestamp for entry in machine.memory.trace}
    assert times["LLM_TOOL_CALL"] == times["TOOL_EXECUTE"] == at(3)
    assert times["TOOL_SUCCESS"] == times["HISTORY_COMMIT"] == at(5)


def test_a_clock_that_runs_backwards_counts_no_time_twice() -> None:
    machine = agent()
    does(machine, asks(at=at(9)), ToolStarted("a", at(4)), fine("a", at=at(10)))
    assert (machine.memory.elapsed_s, machine.memory.clock) == (10.0, at(10))


def test_a_refused_event_does_not_move_the_clock() -> None:
    machine = agent()
    machine.handle_event(fine("a", at=at(50)))
    assert machine.memory.clock == at(0)


def test_resuming_sets_the_clock_and_says_nothing_more() -> None:
    machine = agent()
    assert machine.handle_event(TaskResumed(at(500))) == WAIT
    assert (machine.memory.clock, machine.memory.elapsed_s) == (at(500), 0.0)
    machine.handle_event(asks(at=at(501)))
    assert machine.memory.elapsed_s == 1.0


def test_a_task_without_times_still_runs() -> None:
    machine = idle()
    does(machine, given(at=""), asks(), fine("a"), says(ANSWER))
    assert (machine.state_name, machine.memory.elapsed_s) == ("Done", 0.0)


STORY: list[Any] = [
    given(task="a story"),
    broken(at=at(1)),
    RetryTimeoutFired(at(2)),
    asks(call("a", "burn"), call("b", "look"), at=at(3)),
    decided("a", Approved(), at(4)),
    decided("b", Approved(), at(5)),
    ToolStarted("a", at(6)),
    fine("b", at=at(7)),
    fine("a", at=at(8)),
    PostToolsHookCompleted(True, at=at(9)),
    asks(confidence=0.1, at=at(10)),
    says("short", at=at(11)),
    says(ANSWER, at=at(12)),
]


def test_the_same_events_lead_to_the_same_state_and_the_same_actions() -> None:
    first, second = idle(approval=AlwaysAsk()), idle(approval=AlwaysAsk())
    for event in STORY:
        assert first.handle_event(event) == second.handle_event(event)
        assert first.state == second.state
    assert first.state_name == "Done"


def test_what_is_owed_is_what_was_asked_for_last() -> None:
    machine = idle(approval=AlwaysAsk())
    for event in STORY:
        action = machine.handle_event(event)
        if action != WAIT:
            assert machine.obligations() == action
            assert machine.with_state(machine.state).obligations() == action


def test_older_states_stay_valid_and_can_be_gone_on_from() -> None:
    machine = idle(approval=AlwaysAsk())
    seen: list[tuple[Any, AgentAction]] = []
    for event in STORY:
        machine.handle_event(event)
        seen.append((machine.state, machine.obligations()))
    for (state, owed), following in zip(seen, [*STORY[1:], None], strict=True):
        again = idle(approval=AlwaysAsk()).with_state(state)
        assert again.obligations() == owed
        if following is not None:
            again.handle_event(following)
    assert [state for state, _ in seen][-1] == machine.state


def test_another_configuration_changes_the_next_request_and_not_the_state() -> None:
    machine = agent()
    other = machine.with_config(settings(model_name="another"))
    assert other.state is machine.state
    assert other.model_name == "another"
    assert machine.config == AgentConfig(model_name="model-1", tools=machine.config.tools)


def test_a_handler_that_says_an_event_the_table_lacks_raises_and_nothing_has_moved() -> None:
    machine = idle({"Planning": Handler(lambda memory, _: (memory, "Perhaps"))})
    before = machine.state
    with pytest.raises(InvalidTransition, match="Perhaps"):
        machine.handle_event(given())
    assert machine.state is before


def lists_of(machine: TaskMachine) -> list[int]:
    """Which lists hold what grows: a copy would be another one."""
    memory = machine.memory
    return [id(log._items) for log in (memory.transcript, memory.history, memory.trace)]


def test_a_step_costs_the_same_however_long_the_history_is() -> None:
    """Every list of a task is one that only grows: nothing is copied while work goes on."""
    machine = agent(max_steps=1000, reflect_every_n_steps=0)
    cycle(machine, 0)
    lists = lists_of(machine)
    for number in range(1, 300):
        does(machine, says("short"), broken(), fine("refused"), RetryTimeoutFired())
        cycle(machine, number)
        assert lists_of(machine) == lists
    assert len(machine.conversation) > 1000


def test_what_is_in_view_after_a_reflection_grows_without_being_copied_too() -> None:
    machine = agent(max_steps=1000)
    views = set[int]()
    for number in range(1, 200):
        cycle(machine, number)
        views.add(id(machine.conversation.in_view._items))
    assert len(views) < 200 / 5 + 2
    assert len(machine.conversation.in_view) < 25
    assert len(machine.memory.history) < 12


def test_the_empty_memory_is_shared_and_stays_empty() -> None:
    agent()
    assert len(replace(idle().memory).trace) == 0
    assert len(idle().memory.history) == 0
