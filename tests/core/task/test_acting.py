"""Acting, ParallelActing and Observing: calls run, and what they bring is kept."""

from __future__ import annotations

from typing import Any

import pytest

from case_tables import for_every_row
from core.random_events import check_pairs
from core.task.tasks import (
    ANSWER,
    agent,
    asks,
    at,
    broken,
    call,
    decided,
    does,
    fails,
    fine,
    logged,
    request,
    says,
    texts,
)
from treadle.core.actions import WAIT, ExecuteTools, RunPostToolsHook, SendLlmRequest
from treadle.core.approval import Approved
from treadle.core.events import (
    PostToolsHookCompleted,
    ToolCompleted,
    ToolProgressEvent,
    ToolStarted,
    ToolUncertain,
)
from treadle.core.llm import Usage
from treadle.core.task.events import Graph, TimeRanOut
from treadle.core.task.machine import TaskMachine
from treadle.core.task.memory import HistoryEntry
from treadle.core.tools import (
    CompletedToolInfo,
    ToolErrorKind,
    ToolExecutionOutcome,
    ToolExecutionStatus,
    ToolProgress,
)

Running = ToolExecutionStatus.Running
Completed = ToolExecutionStatus.Completed
A, B, C = call("a"), call("b", "edit"), call("c")


def statuses(machine: TaskMachine) -> list[Any]:
    return [status for _, status in machine.round]


def test_one_call_runs_in_acting_and_its_result_is_in_the_next_request() -> None:
    machine = agent()
    assert does(machine, asks(A)) == ExecuteTools((A,))
    assert (machine.state_name, machine.memory.current_tool_call) == ("Acting", A)
    sent = request(does(machine, ToolStarted("a"), fine("a", "three lines")))
    assert machine.path == ("Observing", "Planning")
    check_pairs(sent.messages)
    assert texts(sent.messages)[-1] == ("tool", "three lines")
    assert list(machine.memory.history) == [HistoryEntry(1, A, "SUCCESS: three lines", True)]
    assert logged(machine)[3:] == [
        *("TOOL_EXECUTE", "TOOL_SUCCESS", "HISTORY_COMMIT", "STEP_START")
    ]


def test_observing_clears_what_belonged_to_the_step() -> None:
    for events in ([asks(A), fine("a")], [asks(A, C), fine("a"), fails("c")]):
        machine = agent()
        does(machine, *events)
        memory = machine.memory
        assert (memory.current_tool_call, memory.last_observation) == (None, None)
        assert (memory.pending_tool_calls, memory.parallel_results) == ((), ())
        assert (memory.executions, memory.pending_approval, machine.round) == ((), None, ())


def test_a_batch_runs_in_parallel_acting_and_results_stand_in_request_order() -> None:
    machine = agent()
    assert does(machine, asks(A, B, C)) == ExecuteTools((A, B, C))
    assert machine.state_name == "ParallelActing"
    assert does(machine, fine("c", "3"), fails("b", "no")) == WAIT
    assert machine.obligations() == ExecuteTools((A,))
    sent = request(does(machine, fine("a", "1")))
    check_pairs(sent.messages)
    assert texts(sent.messages)[2:] == [
        ("tool", "1"),
        ("tool", "ERROR: Failed: no"),
        ("tool", "3"),
    ]
    observed = [entry.observation for entry in machine.memory.history]
    assert observed == ["SUCCESS: 1", "ERROR: Failed: no", "SUCCESS: 3"]
    names = logged(machine)
    assert {"PARALLEL_ACTING_START", "PARALLEL_ACTING_DONE"} < set(names)
    assert "HISTORY_COMMIT_PARALLEL" in names


@pytest.mark.parametrize(
    ("ends", "line"),
    [
        ((fine("a"), fails("c")), "1 of 2 succeeded"),
        ((fails("a"), fails("c")), "0 of 2 succeeded"),
    ],
)
def test_a_batch_goes_to_observing_however_many_of_its_calls_failed(
    ends: tuple[ToolCompleted, ...], line: str
) -> None:
    machine = agent()
    does(machine, asks(A, C), *ends)
    assert machine.path == ("Observing", "Planning")
    [done] = [e for e in machine.memory.trace if e.event == "PARALLEL_ACTING_DONE"]
    assert done.data == line
    assert len(machine.memory.history) == 2


@pytest.mark.parametrize(
    ("ends", "state"),
    [((fine("a"), fails("c")), "Done"), ((fails("a"), fails("c")), "Error")],
)
def test_a_batch_counts_as_a_success_if_one_of_its_calls_is_one(
    ends: tuple[ToolCompleted, ...], state: str
) -> None:
    rows = (("ParallelActing", "ToolSuccess", "Done"), ("ParallelActing", "ToolFailure", "Error"))
    machine = agent(graph=Graph(rows=rows))
    does(machine, asks(A, C), *ends)
    assert machine.state_name == state


def test_a_machine_without_parallel_tools_allows_one_call_at_a_time() -> None:
    assert agent(parallel_tools=False, parallel_max=5).parallel_max == 1
    assert agent(parallel_max=5).parallel_max == 5


def test_a_call_starts_reports_and_may_turn_out_uncertain() -> None:
    machine = agent()
    does(machine, asks(A, B), ToolStarted("b", "then"))
    assert statuses(machine)[1] == Running("b", "edit", "then")
    does(machine, ToolProgressEvent("b", ToolProgress(0.5)), ToolUncertain("b"))
    assert statuses(machine)[1] == Running("b", "edit", "then", uncertain=True)
    does(machine, ToolStarted("b", "later"), fine("b", at="end"))
    done = statuses(machine)[1]
    assert (done.started_at, done.completed_at) == ("later", "end")


@for_every_row(
    "event",
    [
        ToolStarted("x"),
        ToolStarted("b"),
        ToolStarted("a"),
        ToolUncertain("c"),
        ToolUncertain("a"),
        fine("a"),
        fine("x"),
        says(ANSWER),
        broken(),
        PostToolsHookCompleted(True),
        decided("a", Approved()),
    ],
)
def test_what_does_not_fit_a_round_changes_nothing(event: Any) -> None:
    machine = agent()
    does(machine, asks(A, B, C), fine("a"), ToolStarted("b"))
    before = machine.state
    assert machine.handle_event(event) == WAIT
    assert machine.state is before


def test_what_a_sub_agent_used_counts() -> None:
    machine = agent()
    does(machine, asks(A, usage=Usage(1, 1)), fine("a", usage=Usage(10, 20)))
    assert machine.memory.total_usage == Usage(11, 21)


@pytest.mark.parametrize("state", ["Acting", "ParallelActing"])
def test_acting_without_a_call_is_an_error_of_the_graph(state: str) -> None:
    machine = agent(graph=Graph(rows=(("Planning", "LlmFinalAnswer", state),)))
    assert does(machine, says(ANSWER)) == WAIT
    assert machine.path == (state, "Error")
    assert machine.memory.error == f"{state} was entered without a call to run"
    assert "FATAL_ERROR" in logged(machine)


def test_time_that_runs_out_answers_the_open_calls_and_ends_the_task() -> None:
    machine = agent()
    does(machine, asks(A, B, C), fine("a", "1"), ToolStarted("b"))
    assert machine.handle_event(TimeRanOut(at(9))) == WAIT
    assert (machine.state_name, machine.memory.exceeded) == ("Error", "time")
    outcomes = [status.outcome for status in machine.memory.executions]  # type: ignore[union-attr]
    assert outcomes[0] == ToolExecutionOutcome.Success("a", "1")
    for outcome, words in zip(outcomes[1:], ("it had started", "it had not started"), strict=True):
        assert isinstance(outcome, ToolExecutionOutcome.Error)
        assert outcome.error.kind is ToolErrorKind.CANCELLED
        assert words in outcome.error.message
    check_pairs(list(machine.conversation))
    assert texts(machine.conversation)[2] == ("tool", "1")


# ---- the hook ----------------------------------------------------------------------------------


def test_the_hook_runs_when_a_tool_that_changes_things_succeeded() -> None:
    machine = agent()
    changed = ToolCompleted("b", ToolExecutionOutcome.Success("b", "ok", ("f.txt",)))
    action = does(machine, asks(A, B, C), fails("a"), changed, fine("c"))
    assert action == RunPostToolsHook(
        (
            CompletedToolInfo("look", False),
            CompletedToolInfo("edit", True, ("f.txt",)),
            CompletedToolInfo("look", True),
        )
    )
    assert machine.state_name == "Observing"
    assert machine.obligations() == action
    assert len(machine.memory.history) == 3
    assert isinstance(does(machine, PostToolsHookCompleted(True)), SendLlmRequest)
    assert machine.memory.executions == ()


@for_every_row("name", ["edit", "put", "unheard_of"])
def test_the_hook_runs_after_every_kind_of_tool_that_may_have_changed_something(name: str) -> None:
    machine = agent()
    assert isinstance(does(machine, asks(call("a", name)), fine("a")), RunPostToolsHook)


@pytest.mark.parametrize("events", [[asks(A), fine("a")], [asks(B), fails("b")]])
def test_the_hook_does_not_run_when_nothing_can_have_changed(events: list[Any]) -> None:
    assert isinstance(does(agent(), *events), SendLlmRequest)


def test_what_the_hook_used_counts() -> None:
    machine = agent()
    does(machine, asks(B, usage=Usage(1, 1)), fine("b"))
    does(machine, PostToolsHookCompleted(True, usage=Usage(3, 4)))
    assert machine.memory.total_usage == Usage(4, 5)


def test_time_that_runs_out_during_the_hook_is_seen_by_the_next_step() -> None:
    machine = agent(max_steps=1)
    does(machine, asks(B), fine("b"))
    does(machine, TimeRanOut(at(1)))
    assert machine.state_name == "Error"
    assert logged(machine)[-2:] == ["MAX_STEPS", "AGENT_FAILED"]
