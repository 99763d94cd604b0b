"""Custom graphs on the machine: states of their own, states in place of built-in ones."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from case_tables import for_every_row
from core.random_events import check_pairs
from core.task.tasks import (
    ANSWER,
    Rows,
    agent,
    asks,
    at,
    call,
    decided,
    does,
    ended,
    fine,
    given,
    graph,
    idle,
    logged,
    says,
    texts,
)
from treadle.core.actions import WAIT, ExecuteTools, RunPostToolsHook, RunState, SendLlmRequest
from treadle.core.approval import AlwaysAsk, Approved, Rejected
from treadle.core.budget import TokenBudget
from treadle.core.events import PostToolsHookCompleted
from treadle.core.llm import Usage
from treadle.core.task.events import (
    CustomState,
    StateFailed,
    TimeRanOut,
    TraceLine,
)
from treadle.core.task.machine import TaskMachine, TaskState
from treadle.errors import InvalidTransition, OwnershipViolation

REVIEW: Rows = (
    ("Planning", "LlmFinalAnswer", "Review"),
    ("Review", "Accepted", "Done"),
    ("Review", "Refused", "Planning"),
)


def reviewing(*owns: str, **rest: Any) -> TaskMachine:
    """A task whose answer waits to be reviewed."""
    machine = agent(graph=graph(CustomState("Review", owns), rows=REVIEW), **rest)
    assert machine.handle_event(says(ANSWER)) == RunState("Review")
    return machine


def test_entering_a_custom_state_asks_for_its_handler() -> None:
    machine = reviewing()
    assert (machine.state_name, machine.path) == ("Review", ("Review",))
    assert machine.obligations() == RunState("Review")
    assert not machine.is_at_rest
    assert [*machine.custom_states] == ["Review"]


def test_what_the_handler_says_is_looked_up_in_the_table() -> None:
    assert isinstance(does(reviewing(), ended("Refused")), SendLlmRequest)
    machine = reviewing()
    assert does(machine, ended("Accepted")) == WAIT
    assert machine.state_name == "Done"


def test_what_it_wrote_logged_and_used_is_in_memory_afterwards() -> None:
    machine = reviewing("extra", "final_answer")
    before = machine.memory
    event = ended(
        "Accepted",
        final_answer="Forty-two, and nothing else.",
        extra={"looked": True},
        logged=(TraceLine("REVIEWED", "twice"),),
        usage=Usage(5, 6),
    )
    does(machine, event)
    memory = machine.memory
    assert (memory.final_answer, memory.extra) == ("Forty-two, and nothing else.", {"looked": True})
    assert memory.total_usage == before.total_usage + Usage(5, 6)
    assert [(e.state, e.data) for e in memory.trace if e.event == "REVIEWED"] == [
        ("Review", "twice")
    ]
    assert texts(machine.conversation)[-1] == ("assistant", "Forty-two, and nothing else.")


def test_a_line_that_names_a_state_is_of_that_state_in_the_trace() -> None:
    machine = reviewing()
    lines = (TraceLine("SEEN", "one"), TraceLine("SEEN", "two", "Elsewhere"))
    does(machine, ended("Accepted", logged=lines))
    found = [(entry.state, entry.data) for entry in machine.memory.trace if entry.event == "SEEN"]
    assert found == [("Review", "one"), ("Elsewhere", "two")]


def test_what_a_failed_handler_used_counts_and_nothing_has_moved() -> None:
    machine = reviewing(budget=TokenBudget(max_time_s=60))
    before = machine.memory
    assert machine.handle_event(StateFailed("Review", Usage(7, 8), at(9))) == WAIT
    assert (machine.state_name, machine.path) == ("Review", ())
    used = before.total_usage + Usage(7, 8)
    assert machine.memory == replace(before, total_usage=used, elapsed_s=9.0, clock=at(9))
    assert machine.obligations() == RunState("Review")
    does(machine, ended("Accepted"))
    assert machine.state_name == "Done"


@pytest.mark.parametrize("state", ["Planning", "Elsewhere"])
def test_a_failure_of_another_state_changes_nothing(state: str) -> None:
    machine = reviewing()
    before = machine.state
    assert machine.handle_event(StateFailed(state, Usage(7, 8))) == WAIT
    assert machine.state is before


def test_extra_is_a_plain_value_from_the_first_time_on() -> None:
    machine = reviewing("extra")
    assert (type(machine.memory.extra), machine.memory.extra) == (dict, {})
    assert machine.memory.extra is not agent().memory.extra
    does(machine, ended("Refused", extra={"n": 1}))
    assert (type(machine.memory.extra), machine.memory.extra) == (dict, {"n": 1})


def test_an_event_that_the_table_lacks_raises_and_nothing_has_moved() -> None:
    machine = reviewing()
    before = machine.state
    for act in (machine.check_completed_state, machine.handle_event):
        with pytest.raises(InvalidTransition) as caught:
            act(ended("Perhaps"))
        assert (caught.value.state, caught.value.event) == ("Review", "Perhaps")
        assert machine.state is before
    assert machine.check_completed_state(ended("Accepted")) is None  # type: ignore[func-returns-value]
    assert machine.state is before


def test_a_field_that_the_state_does_not_own_raises_and_nothing_has_moved() -> None:
    machine = reviewing("extra")
    before = machine.state
    for act in (machine.check_completed_state, machine.handle_event):
        with pytest.raises(OwnershipViolation, match="final_answer"):
            act(ended("Accepted", final_answer="mine"))
        assert machine.state is before


def test_a_handler_that_fails_may_say_why_without_owning_the_error() -> None:
    machine = reviewing()
    event = ended("FatalError", error="the handler of Review failed: KeyError")
    machine.check_completed_state(event)
    assert machine.handle_event(event) == WAIT
    assert (machine.state_name, machine.memory.error) == ("Error", event.changes.error)


@for_every_row("event", [ended("Accepted", "Another"), fine("a"), says(ANSWER), asks(), given()])
def test_what_does_not_belong_to_the_custom_state_changes_nothing(event: Any) -> None:
    machine = reviewing()
    before = machine.state
    assert machine.handle_event(event) == WAIT
    assert machine.state is before


def test_no_handler_of_a_built_in_state_is_ended_from_outside() -> None:
    machine = agent()
    before = machine.state
    machine.handle_event(ended("LlmFinalAnswer", "Planning", final_answer="mine"))
    assert machine.state is before


def test_a_state_named_as_a_built_in_one_takes_its_place_and_owns_what_it_owns() -> None:
    machine = idle()
    machine.handle_event(given(graph=graph(CustomState("Planning"))))
    assert machine.obligations() == RunState("Planning")
    one = call("mine", "look")
    action = does(machine, ended("LlmToolCall", "Planning", step=1, current_tool_call=one))
    assert action == ExecuteTools((one,))
    assert does(machine, fine("mine", "seen")) == RunState("Planning")
    assert [message.role for message in machine.conversation] == ["user", "assistant", "tool"]
    check_pairs(list(machine.conversation))
    assert machine.memory.history[-1].observation == "SUCCESS: seen"


def test_a_planning_of_its_own_can_plan_the_same_call_id_again() -> None:
    machine = idle()
    machine.handle_event(given(graph=graph(CustomState("Planning"))))
    used = []
    for _ in range(3):
        planned = ended("LlmToolCall", "Planning", current_tool_call=call("mine", "look"))
        action = does(machine, planned)
        assert isinstance(action, ExecuteTools)
        used.append(action.calls[0].id)
        does(machine, fine(used[-1], used[-1]))
    assert (used[0], len({*used})) == ("mine", 3)
    check_pairs(list(machine.conversation))
    assert [entry.observation for entry in machine.memory.history] == [
        f"SUCCESS: {call_id}" for call_id in used
    ]


def test_a_batch_of_its_own_may_hold_one_id_twice() -> None:
    machine = idle()
    machine.handle_event(given(graph=graph(CustomState("Planning"))))
    calls = (call("x"), call("x"))
    action = does(machine, ended("LlmParallelToolCalls", "Planning", pending_tool_calls=calls))
    assert isinstance(action, ExecuteTools)
    assert len({one.id for one in action.calls}) == 2


def test_a_gate_that_doubles_a_call_gets_two_calls_of_different_ids() -> None:
    rows: Rows = (("Planning", "LlmToolCall", "Gate"), ("Gate", "Twice", "ParallelActing"))
    gate = CustomState("Gate", ("current_tool_call", "pending_tool_calls"))
    machine = agent(graph=graph(gate, rows=rows))
    does(machine, asks(call("a")))
    doubled = ended(
        "Twice", "Gate", current_tool_call=None, pending_tool_calls=(call("a"), call("a"))
    )
    action = does(machine, doubled)
    assert isinstance(action, ExecuteTools)
    ids = [one.id for one in action.calls]
    action = does(machine, *map(fine, ids))
    assert len({*ids}) == 2
    assert isinstance(action, SendLlmRequest)
    check_pairs(action.request.messages)


def test_a_planning_that_leaves_one_call_beside_a_batch_has_the_batch_observed() -> None:
    machine = idle()
    machine.handle_event(given(graph=graph(CustomState("Planning"))))
    calls = (call("x"), call("y"))
    both = {"current_tool_call": call("z"), "pending_tool_calls": calls}
    action = does(machine, ended("LlmParallelToolCalls", "Planning", **both))
    assert action == ExecuteTools(calls)
    assert [one.id for one, _ in machine.round] == ["x", "y"]
    does(machine, fine("y", "2"), fine("x", "1"))
    observed = [entry.observation for entry in machine.memory.history]
    assert observed == ["SUCCESS: 1", "SUCCESS: 2"]


def test_a_gate_may_let_a_part_of_a_batch_pass_and_the_model_is_told_of_the_rest() -> None:
    rows: Rows = (("Planning", "LlmParallelToolCalls", "Gate"), ("Gate", "Some", "ParallelActing"))
    gate = CustomState("Gate", ("pending_tool_calls",))
    machine = agent(graph=graph(gate, rows=rows))
    does(machine, asks(call("a"), call("b")))
    changed = (call("b", "look", '{"x":"2"}'),)
    assert does(machine, ended("Some", "Gate", pending_tool_calls=changed)) == ExecuteTools(changed)
    action = does(machine, fine("b", "seen"))
    assert isinstance(action, SendLlmRequest)
    check_pairs(action.request.messages)
    assert texts(action.request.messages)[2:] == [
        ("tool", "ERROR: Cancelled: it had not started"),
        ("tool", "seen"),
    ]
    assert [entry.tool for entry in machine.memory.history] == [*changed]


def test_acting_looks_at_the_blacklist_for_a_planning_that_does_not() -> None:
    machine = idle()
    machine.handle_event(given(graph=graph(CustomState("Planning")), blacklisted_tools=("burn",)))
    calls = (call("x", "burn"), call("y", "look"))
    planned = ended("LlmParallelToolCalls", "Planning", pending_tool_calls=calls)
    assert does(machine, planned) == ExecuteTools((calls[1],))
    does(machine, fine("y"))
    assert machine.memory.history[0].observation == (
        "REJECTED: the tool 'burn' is blacklisted in this task"
    )
    one = ended(
        "LlmToolCall", "Planning", current_tool_call=call("z", "burn"), pending_tool_calls=()
    )
    assert does(machine, one) == RunState("Planning")
    assert "TOOL_FAILURE" in logged(machine)


@for_every_row(
    "observation, kept, told",
    [
        ("SUCCESS: by hand", "SUCCESS: by hand", "by hand"),
        ("ERROR: by hand", "ERROR: Failed: by hand", "ERROR: Failed: by hand"),
        ("REJECTED: by hand", "REJECTED: by hand", "ERROR: Rejected: by hand"),
        ("by hand", "ERROR: Failed: by hand", "ERROR: Failed: by hand"),
    ],
)
def test_an_acting_of_its_own_says_by_its_observation_what_came_of_the_call(
    observation: str, kept: str, told: str
) -> None:
    machine = agent(graph=graph(CustomState("Acting")))
    assert does(machine, asks(call("a"))) == RunState("Acting")
    does(machine, ended("ToolSuccess", "Acting", last_observation=observation))
    assert machine.memory.history[-1].observation == kept
    assert texts(machine.conversation)[-1] == ("tool", told)


def test_the_hook_is_told_of_a_call_that_an_acting_of_its_own_made() -> None:
    machine = agent(graph=graph(CustomState("Acting")))
    does(machine, asks(call("a", "edit")))
    action = does(machine, ended("ToolSuccess", "Acting", last_observation="SUCCESS: ok"))
    assert isinstance(action, RunPostToolsHook)
    assert isinstance(does(machine, PostToolsHookCompleted(False)), SendLlmRequest)


def test_a_way_past_acting_and_observing_leaves_no_call_without_a_result() -> None:
    rows: Rows = (("Planning", "LlmToolCall", "Gate"), ("Gate", "Denied", "Planning"))
    machine = agent(graph=graph(CustomState("Gate"), rows=rows))
    does(machine, asks(call("a")))
    action = does(machine, ended("Denied", "Gate"))
    assert isinstance(action, SendLlmRequest)
    check_pairs(action.request.messages)
    assert texts(action.request.messages)[-1] == ("tool", "ERROR: Cancelled: it had not started")


def test_what_a_person_rejected_does_not_run_wherever_the_graph_leads() -> None:
    rows: Rows = (
        ("WaitingForHuman", "HumanApprovedParallel", "Gate"),
        ("Gate", "Go", "ParallelActing"),
    )
    gate = CustomState("Gate", ("pending_tool_calls",))
    machine = agent(graph=graph(gate, rows=rows), approval=AlwaysAsk())
    calls = (call("a"), call("b"), call("c"))
    does(machine, asks(*calls), decided("a", Approved()), decided("c", Approved()))
    assert does(machine, decided("b", Rejected())) == RunState("Gate")
    action = does(machine, ended("Go", "Gate", pending_tool_calls=calls[:2]))
    assert action == ExecuteTools((call("a"),))


def test_a_state_between_acting_and_observing_may_rewrite_what_was_observed() -> None:
    rows: Rows = (("Acting", "ToolSuccess", "Mask"), ("Mask", "Masked", "Observing"))
    machine = agent(graph=graph(CustomState("Mask", ("last_observation",)), rows=rows))
    does(machine, asks(call("a")), fine("a", "secret"))
    does(machine, ended("Masked", "Mask", last_observation="SUCCESS: ***"))
    assert texts(machine.conversation)[-1] == ("tool", "***")


def test_an_observing_of_its_own_still_leaves_requests_whole() -> None:
    machine = agent(graph=graph(CustomState("Observing")))
    does(machine, asks(call("a")), fine("a", "seen"))
    action = does(machine, ended("Continue", "Observing", current_tool_call=None))
    assert isinstance(action, SendLlmRequest)
    check_pairs(action.request.messages)


def test_a_terminal_state_of_its_own_is_the_end_and_needs_no_handler() -> None:
    mine = graph(rows=(("Planning", "LlmFinalAnswer", "Parked"),), terminal=("Parked",))
    machine = agent(graph=mine)
    assert does(machine, says(ANSWER)) == WAIT
    assert (machine.state_name, machine.is_over, machine.is_at_rest) == ("Parked", True, True)
    assert machine.obligations() == WAIT
    assert machine.memory.final_answer == ANSWER
    before = machine.state
    for event in (ended("Again", "Parked"), TimeRanOut(at(1)), says(ANSWER)):
        assert machine.handle_event(event) == WAIT
        assert machine.state is before


def test_a_graph_that_runs_in_circles_is_stopped_and_says_so() -> None:
    machine = agent(graph=graph(rows=(("Idle", "Start", "Idle"),), transitions_max=7))
    assert (machine.state_name, machine.memory.moves) == ("Error", 8)
    assert machine.memory.error == "More than 7 transitions: the graph runs in circles"


def test_the_count_of_transitions_stops_no_task_of_the_default_graph() -> None:
    machine = agent(max_steps=4000, min_answer_length=9)
    for _ in range(3900):
        machine.handle_event(says("short", usage=Usage(1, 1)))  # else it is guessed from all
    machine = machine.with_state(
        replace(machine.state, memory=replace(machine.memory, moves=1_000_000))
    )
    assert isinstance(does(machine, says("short")), SendLlmRequest)


def test_time_that_runs_out_in_a_custom_state_ends_the_task() -> None:
    machine = reviewing(budget=TokenBudget(max_time_s=10))
    assert machine.handle_event(TimeRanOut(at(12))) == WAIT
    assert (machine.state_name, machine.memory.exceeded) == ("Error", "time")
    assert machine.memory.error == "Time limit exceeded: 12 of 10 s used"


def test_the_graph_is_part_of_the_state_and_comes_back_with_it() -> None:
    machine = reviewing()
    other = idle().with_state(machine.state)
    assert dict(other.table) == dict(machine.table)
    assert other.obligations() == RunState("Review")
    does(other, ended("Accepted"))
    assert other.state_name == "Done"
    assert machine.with_state(TaskState()).table.get(("Review", "Accepted")) is None


def test_a_person_is_asked_by_a_custom_state_that_takes_the_place_of_waiting() -> None:
    machine = agent(graph=graph(CustomState("WaitingForHuman")), approval=AlwaysAsk())
    assert does(machine, asks(call("a"))) == RunState("WaitingForHuman")
    assert (machine.questions, machine.is_at_rest) == ((), False)
    assert does(machine, ended("HumanApproved", "WaitingForHuman")) == ExecuteTools((call("a"),))


def test_what_a_handler_tells_the_model_stands_at_the_end_of_the_next_request() -> None:
    machine = reviewing()
    request = does(machine, ended("Refused", notes=("name your source",))).request
    assert texts(request.messages)[-2:] == [("assistant", ANSWER), ("user", "name your source")]


def test_an_answer_that_a_graph_leads_back_without_a_word_is_not_the_last_word() -> None:
    request = does(reviewing(), ended("Refused")).request
    assert texts(request.messages)[-1] == ("user", "That was not the end of the task: go on.")


def test_a_note_never_stands_between_calls_and_their_results() -> None:
    rows = (("Planning", "LlmToolCall", "Look"), ("Look", "Back", "Planning"))
    machine = agent(graph=graph(CustomState("Look"), rows=rows))
    does(machine, asks(call("a")))
    request = does(machine, ended("Back", "Look", notes=("do something else",))).request
    check_pairs(request.messages)
    assert texts(request.messages)[-1] == ("user", "do something else")
