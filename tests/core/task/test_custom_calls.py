"""Calls of custom graphs: who is asked about them, and under which id each of them runs."""

from __future__ import annotations

from typing import Any, Final

import pytest

from case_tables import for_every_row
from core.random_events import check_pairs
from core.task.tasks import (
    Rows,
    agent,
    asks,
    call,
    decided,
    does,
    ended,
    fails,
    fine,
    given,
    graph,
    idle,
    logged,
    request,
    texts,
)
from treadle.core.actions import ExecuteTools, RequestApproval, RunState
from treadle.core.approval import (
    AlwaysAsk,
    Approved,
    AskAbove,
    Modified,
    NeverAsk,
    Rejected,
    ToolBased,
)
from treadle.core.events import PostToolsHookCompleted
from treadle.core.task.events import CustomState
from treadle.core.task.machine import TaskMachine
from treadle.core.tools import RiskLevel


def test_a_graph_may_lead_back_to_acting_and_the_call_runs_again() -> None:
    rows: Rows = (("Acting", "ToolFailure", "Again"), ("Again", "Try", "Acting"))
    machine = agent(graph=graph(CustomState("Again"), rows=rows))
    assert does(machine, asks(call("a")), fails("a")) == RunState("Again")
    action = does(machine, ended("Try", "Again"))
    assert isinstance(action, ExecuteTools)
    [again] = action.calls
    assert (again.tool_name, again.arguments_json) == ("look", '{"x":"1"}')
    assert again.id != "a"
    assert machine.round[0][0] == again
    sent = request(does(machine, fine(again.id, "at last")))
    check_pairs(sent.messages)
    assert [text for role, text in texts(sent.messages) if role == "tool"] == [
        "ERROR: Failed: no such luck",
        "at last",
    ]
    [entry] = machine.memory.history
    assert (entry.tool, entry.observation) == (again, "SUCCESS: at last")


def test_a_batch_that_runs_again_runs_under_new_ids_but_for_what_a_person_rejected() -> None:
    rows: Rows = (("ParallelActing", "ToolSuccess", "Again"), ("Again", "Try", "ParallelActing"))
    machine = agent(graph=graph(CustomState("Again"), rows=rows), approval=AlwaysAsk())
    does(machine, asks(call("a"), call("b"), call("c")))
    does(machine, decided("a", Approved()), decided("b", Rejected()), decided("c", Approved()))
    does(machine, fine("a", "1"), fine("c", "2"))
    action = does(machine, ended("Try", "Again"))
    assert isinstance(action, RequestApproval)
    first, third = (question.call.id for question in action.questions)
    assert {first, third}.isdisjoint("abc")
    action = does(machine, decided(first, Approved()), decided(third, Approved()))
    assert isinstance(action, ExecuteTools)
    assert [one.id for one in action.calls] == [first, third]


def test_calls_that_take_turns_never_run_twice_under_one_id() -> None:
    rows: Rows = (
        ("Acting", "ToolSuccess", "Turn"),
        ("Turn", "Next", "Acting"),
        ("Turn", "Enough", "Observing"),
    )
    machine = agent(graph=graph(CustomState("Turn", ("current_tool_call",)), rows=rows))
    does(machine, asks(call("a")), fine("a", "0"))
    used = ["a"]
    for number, call_id in enumerate(["mine", "a", "mine", "a"], start=1):
        action = does(machine, ended("Next", "Turn", current_tool_call=call(call_id)))
        assert isinstance(action, ExecuteTools)
        used.append(action.calls[0].id)
        does(machine, fine(used[-1], str(number)))
    sent = request(does(machine, ended("Enough", "Turn")))
    assert len({*used}) == 5
    check_pairs(sent.messages)
    results = [text for role, text in texts(sent.messages) if role == "tool"]
    assert results == ["0", "1", "2", "3", "4"]


# ---- who has to be asked ------------------------------------------------------------------------


def planning_by_itself(**rest: Any) -> TaskMachine:
    machine = idle(**{"approval": AskAbove(RiskLevel.HIGH), **rest})
    machine.handle_event(given(graph=graph(CustomState("Planning"))))
    return machine


def test_a_call_that_a_planning_of_its_own_made_is_asked_about_and_runs_when_allowed() -> None:
    machine = planning_by_itself()
    burn = call("x", "burn")
    action = does(machine, ended("LlmToolCall", "Planning", current_tool_call=burn))
    assert isinstance(action, RequestApproval)
    assert [question.call for question in action.questions] == [burn]
    assert (machine.state_name, machine.path) == ("WaitingForHuman", ("Acting", "WaitingForHuman"))
    assert machine.obligations() == action
    assert "TOOL_EXECUTE" not in logged(machine)
    assert does(machine, decided("x", Approved())) == ExecuteTools((burn,))
    does(machine, fine("x"))
    check_pairs(list(machine.conversation))


def test_a_batch_of_a_planning_of_its_own_is_asked_about_call_by_call() -> None:
    machine = planning_by_itself()
    calls = (call("x", "burn"), call("y", "look"), call("z", "burn"))
    both = {"current_tool_call": call("w"), "pending_tool_calls": calls}
    action = does(machine, ended("LlmParallelToolCalls", "Planning", **both))
    assert isinstance(action, RequestApproval)
    assert [question.call.id for question in action.questions] == ["x", "z"]
    action = does(machine, decided("x", Rejected("no")), decided("z", Modified('{"x":"2"}')))
    assert action == ExecuteTools((calls[1], call("z", "burn", '{"x":"2"}')))
    does(machine, fine("z", "ash"), fine("y"), PostToolsHookCompleted(False))
    assert [entry.observation for entry in machine.memory.history] == [
        "REJECTED: no",
        "SUCCESS: fine",
        "SUCCESS: ash",
    ]
    check_pairs(list(machine.conversation))


def test_a_rejected_call_of_a_planning_of_its_own_does_not_run() -> None:
    machine = planning_by_itself()
    planned = ended("LlmToolCall", "Planning", current_tool_call=call("x", "burn"))
    assert does(machine, planned, decided("x", Rejected("no"))) == RunState("Planning")
    assert machine.memory.history[-1].observation == "REJECTED: no"


@for_every_row("policy", [AlwaysAsk(), AskAbove(RiskLevel.LOW), ToolBased({})])
def test_a_call_whose_tool_was_granted_is_not_asked_about(policy: Any) -> None:
    machine = planning_by_itself(approval=policy, granted={"burn": RiskLevel.HIGH})
    planned = ended("LlmToolCall", "Planning", current_tool_call=call("x", "burn"))
    assert isinstance(does(machine, planned), ExecuteTools)


def gated(**rest: Any) -> TaskMachine:
    """After a person's yes, and before anything runs, a state of its own can change the call."""
    rows: Rows = (
        ("WaitingForHuman", "HumanApproved", "Gate"),
        ("WaitingForHuman", "HumanModified", "Gate"),
        ("Gate", "Go", "Acting"),
        ("Gate", "Stay", "Gate"),
    )
    gate = CustomState("Gate", ("current_tool_call",))
    machine = agent(graph=graph(gate, rows=rows), approval=AlwaysAsk(), **rest)
    does(machine, asks(call("a", "burn")))
    return machine


def test_a_yes_is_good_for_the_call_as_it_was_and_for_one_run() -> None:
    machine = gated()
    does(machine, decided("a", Approved()))
    assert does(machine, ended("Go", "Gate")) == ExecuteTools((call("a", "burn"),))


@pytest.mark.parametrize("decision", [Approved(), Modified('{"x":"small"}')])
def test_other_arguments_under_an_approved_id_need_a_yes_of_their_own(decision: Any) -> None:
    machine = gated()
    does(machine, decided("a", decision))
    swapped = call("a", "burn", '{"x":"everything"}')
    action = does(machine, ended("Go", "Gate", current_tool_call=swapped))
    assert isinstance(action, RequestApproval)
    assert [question.call for question in action.questions] == [swapped]
    assert does(machine, decided("a", Approved())) == RunState("Gate")
    assert does(machine, ended("Go", "Gate")) == ExecuteTools((swapped,))
    does(machine, fine("a", "ash"))
    assert texts(machine.conversation)[-1] == ("tool", "ash")


def test_a_call_that_was_taken_away_and_put_back_otherwise_needs_a_yes_of_its_own() -> None:
    machine = gated()
    does(machine, decided("a", Approved()), ended("Stay", "Gate", current_tool_call=None))
    swapped = call("a", "burn", '{"x":"everything"}')
    action = does(machine, ended("Go", "Gate", current_tool_call=swapped))
    assert isinstance(action, RequestApproval)


def test_another_call_that_was_put_under_the_id_of_an_approved_one_needs_its_own_yes() -> None:
    rows: Rows = (
        ("Planning", "HumanApprovalRequired", "Gate"),
        ("Gate", "Ask", "WaitingForHuman"),
        ("WaitingForHuman", "HumanApproved", "ParallelActing"),
    )
    gate = CustomState("Gate", ("pending_tool_calls",))
    machine = agent(graph=graph(gate, rows=rows), approval=AlwaysAsk())
    does(machine, asks(call("a", "look")))
    other = call("a", "burn", '{"x":"everything"}')
    does(machine, ended("Ask", "Gate", pending_tool_calls=(other,)))
    action = does(machine, decided("a", Approved()))
    assert isinstance(action, RequestApproval)
    assert [question.call.tool_name for question in action.questions] == ["burn"]


def test_an_approved_call_that_was_doubled_needs_a_yes_for_the_second_run() -> None:
    rows: Rows = (
        ("WaitingForHuman", "HumanApproved", "Gate"),
        ("Gate", "Twice", "ParallelActing"),
    )
    gate = CustomState("Gate", ("current_tool_call", "pending_tool_calls"))
    machine = agent(graph=graph(gate, rows=rows), approval=AlwaysAsk())
    one = call("a", "burn")
    does(machine, asks(one), decided("a", Approved()))
    doubled = {"current_tool_call": None, "pending_tool_calls": (one, one)}
    action = does(machine, ended("Twice", "Gate", **doubled))
    assert isinstance(action, RequestApproval)
    assert len(action.questions) == 1


_POLICIES: Final = (
    NeverAsk(),
    AlwaysAsk(),
    *(AskAbove(level) for level in RiskLevel),
    ToolBased({}),
    *(ToolBased({name: level}) for name in ("look", "edit", "burn") for level in RiskLevel),
)


@for_every_row("granted", [{}, {"edit": RiskLevel.MEDIUM, "burn": RiskLevel.LOW}])
@for_every_row("policy", _POLICIES)
def test_what_planning_did_not_ask_about_is_not_asked_about_by_acting(
    policy: Any, granted: dict[str, RiskLevel]
) -> None:
    for names in (("look",), ("edit",), ("burn",), ("look", "edit", "burn"), ("edit", "nobody")):
        for risk in (None, *RiskLevel):
            machine = agent(approval=policy, granted=granted)
            calls = tuple(call(str(place), name) for place, name in enumerate(names))
            does(machine, asks(*calls, risks=(risk,) * len(calls)))
            for question in machine.questions:
                does(machine, decided(question.call.id, Approved()))
            assert machine.state_name in ("Acting", "ParallelActing")
            assert logged(machine).count("APPROVAL_REQUIRED") <= 1
