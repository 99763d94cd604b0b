"""WaitingForHuman: decisions about one call and about a batch, and what the model reads of them."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from case_tables import for_every_row
from core.random_events import check_pairs
from core.task.tasks import agent, asks, at, call, decided, does, fine, logged, request, says, texts
from treadle.core.actions import WAIT, ExecuteTools, RequestApproval, SendLlmRequest
from treadle.core.approval import AlwaysAsk, Approved, AskAbove, Modified, Rejected
from treadle.core.budget import TokenBudget
from treadle.core.events import PostToolsHookCompleted, ToolStarted
from treadle.core.task.events import Graph, TaskResumed, TimeRanOut
from treadle.core.task.machine import TaskMachine
from treadle.core.task.memory import HumanApprovalRequest
from treadle.core.tools import RiskLevel, ToolExecutionStatus

BURN = call("a", "burn")
LOOK = call("b", "look")
EDIT = call("c", "edit")


def asked(*calls: Any, **rest: Any) -> TaskMachine:
    machine = agent(**{"approval": AskAbove(RiskLevel.MEDIUM), **rest})
    machine.handle_event(asks(*calls))
    assert machine.state_name == "WaitingForHuman"
    return machine


def test_only_the_calls_that_need_a_yes_are_asked_about_and_none_runs_meanwhile() -> None:
    machine = asked(BURN, LOOK, EDIT)
    assert [question.call for question in machine.questions] == [BURN, EDIT]
    assert machine.obligations() == RequestApproval(machine.questions)
    assert machine.is_at_rest
    assert machine.round == ()
    pending = machine.memory.pending_approval
    assert pending is not None
    assert (pending.tool_name, pending.tool_args) == ("burn", '{"x":"1"}')


def test_an_approved_call_runs() -> None:
    machine = asked(BURN)
    assert does(machine, decided("a", Approved())) == ExecuteTools((BURN,))
    assert (machine.path, machine.questions) == (("Acting",), ())
    assert logged(machine)[-3:] == ["APPROVAL_REQUEST", "APPROVED", "TOOL_EXECUTE"]


def test_a_rejected_call_is_an_observation_with_the_reason_and_does_not_run() -> None:
    machine = asked(BURN)
    sent = request(does(machine, decided("a", Rejected("too hot"))))
    assert machine.path == ("Observing", "Planning")
    check_pairs(sent.messages)
    assert texts(sent.messages)[-1] == ("tool", "ERROR: Rejected: too hot")
    [entry] = machine.memory.history
    assert (entry.observation, entry.success) == ("REJECTED: too hot", False)
    assert "TOOL_EXECUTE" not in logged(machine)


def test_a_rejection_without_a_reason_says_that_a_person_did_it() -> None:
    machine = asked(BURN)
    does(machine, decided("a", Rejected()))
    assert machine.memory.history[-1].observation == "REJECTED: a person did not allow this call"


def test_a_modified_call_runs_as_changed_and_the_model_is_told_so() -> None:
    machine = asked(BURN)
    action = does(machine, decided("a", Modified('{"x":"2"}')))
    changed = call("a", "burn", '{"x":"2"}')
    assert action == ExecuteTools((changed,))
    assert machine.round[0] == (
        changed,
        replace(machine.memory.executions[0], modified='{"x":"2"}'),
    )
    sent = request(does(machine, fine("a", "ash"), PostToolsHookCompleted(False)))
    check_pairs(sent.messages)
    assert sent.messages[1].tool_calls == (BURN,)
    assert texts(sent.messages)[-1] == (
        "tool",
        '[a person changed the arguments to {"x":"2"}]\nash',
    )
    assert machine.memory.history[-1].tool == changed
    assert "MODIFIED" in logged(machine)


def test_a_yes_stands_in_the_status_of_its_call_and_of_no_other() -> None:
    machine = asked(BURN, LOOK, EDIT)
    does(machine, decided("a", Approved()), decided("c", Modified("{}")))
    approved = [getattr(status, "approved") for _, status in machine.round]  # noqa: B009
    assert approved == [True, UNSET, True]
    does(machine, ToolStarted("a", at(1)), ToolStarted("b", at(1)), ToolStarted("c", at(1)))
    running = ToolExecutionStatus.Running
    assert [status for _, status in machine.round] == [
        running("a", "burn", at(1), approved=True),
        running("b", "look", at(1)),
        running("c", "edit", at(1), modified="{}", approved=True),
    ]


def test_a_change_that_is_asked_about_again_is_not_approved_before_the_second_word() -> None:
    machine = asked(EDIT, BURN)
    does(machine, decided("c", Modified("{}", RiskLevel.CRITICAL)))
    assert getattr(machine.memory.executions[0], "approved") is UNSET  # noqa: B009
    does(machine, decided("c", Approved()))
    assert getattr(machine.memory.executions[0], "approved") is True  # noqa: B009


def test_a_call_modified_to_something_riskier_is_asked_about_again() -> None:
    machine = asked(EDIT)
    action = does(machine, decided("c", Modified('{"x":"/"}', RiskLevel.CRITICAL)))
    assert isinstance(action, RequestApproval)
    [question] = action.questions
    assert (question.call.arguments_json, question.risk) == ('{"x":"/"}', RiskLevel.CRITICAL)
    assert machine.state_name == "WaitingForHuman"
    assert machine.obligations() == action
    assert does(machine, decided("c", Approved())) == ExecuteTools(
        (call("c", "edit", '{"x":"/"}'),)
    )


@for_every_row("risk", [None, RiskLevel.LOW, RiskLevel.MEDIUM])
def test_a_call_modified_to_nothing_riskier_runs_at_once(risk: RiskLevel | None) -> None:
    machine = asked(EDIT)
    assert isinstance(does(machine, decided("c", Modified("{}", risk))), ExecuteTools)


def test_a_granted_tool_is_not_asked_about_again_however_it_was_changed() -> None:
    machine = asked(EDIT)
    machine = machine.with_config(replace(machine.config, granted={"edit": RiskLevel.CRITICAL}))
    action = does(machine, decided("c", Modified("{}", RiskLevel.CRITICAL)))
    assert isinstance(action, ExecuteTools)


def test_a_batch_waits_for_every_decision_and_runs_what_is_allowed() -> None:
    machine = asked(BURN, LOOK, EDIT)
    assert does(machine, decided("c", Rejected("no"))) == WAIT
    assert [question.call.id for question in machine.questions] == ["a"]
    assert machine.memory.pending_approval == HumanApprovalRequest(machine.questions)
    action = does(machine, decided("a", Modified('{"x":"2"}')))
    assert action == ExecuteTools((call("a", "burn", '{"x":"2"}'), LOOK))
    assert machine.path == ("ParallelActing",)
    does(machine, fine("b", "seen"), fine("a", "ash"))
    sent = request(does(machine, PostToolsHookCompleted(False)))
    check_pairs(sent.messages)
    assert texts(sent.messages)[2:] == [
        ("tool", '[a person changed the arguments to {"x":"2"}]\nash'),
        ("tool", "seen"),
        ("tool", "ERROR: Rejected: no"),
    ]


def test_a_batch_of_which_everything_is_rejected_goes_to_observing() -> None:
    machine = asked(BURN, EDIT)
    action = does(machine, decided("a", Rejected("1")), decided("c", Rejected("2")))
    assert isinstance(action, SendLlmRequest)
    assert machine.path == ("Observing", "Planning")
    observed = [entry.observation for entry in machine.memory.history]
    assert observed == ["REJECTED: 1", "REJECTED: 2"]


def test_a_batch_of_which_only_the_calls_without_a_question_are_left_runs_those() -> None:
    machine = asked(BURN, LOOK)
    assert does(machine, decided("a", Rejected())) == ExecuteTools((LOOK,))
    [rejected, pending] = [status for _, status in machine.round]
    assert isinstance(rejected, ToolExecutionStatus.Completed)
    assert isinstance(pending, ToolExecutionStatus.Pending)


@for_every_row(
    "event",
    [decided("x", Approved()), decided("b", Approved()), fine("a"), TimeRanOut(at(99))],
)
def test_what_answers_no_open_question_changes_nothing(event: Any) -> None:
    machine = asked(BURN, LOOK)
    before = machine.state
    assert machine.handle_event(event) == WAIT
    assert machine.state is before


def test_a_question_that_was_answered_is_not_open_any_more() -> None:
    machine = asked(BURN, EDIT)
    machine.handle_event(decided("a", Approved()))
    before = machine.state
    machine.handle_event(decided("a", Rejected()))
    assert machine.state is before


def test_time_in_which_a_person_is_waited_for_does_not_count() -> None:
    machine = asked(BURN, EDIT, budget=TokenBudget(max_time_s=10))
    does(machine, decided("a", Approved(), at(1000)), decided("c", Approved(), at(2000)))
    assert machine.memory.elapsed_s == 0.0
    does(machine, fine("a", at=at(2003)))
    assert machine.memory.elapsed_s == 3.0


def test_a_pending_question_survives_in_the_state_alone() -> None:
    machine = asked(BURN)
    other = agent().with_config(machine.config).with_state(machine.state)
    other.handle_event(TaskResumed(at(5)))
    assert other.questions == machine.questions
    assert does(other, decided("a", Approved())) == ExecuteTools((BURN,))


def test_always_asking_asks_about_every_known_tool_of_a_batch() -> None:
    machine = asked(BURN, LOOK, call("d", "unheard_of"), approval=AlwaysAsk())
    assert [question.call.id for question in machine.questions] == ["a", "b"]


def test_waiting_without_a_question_is_an_error_of_the_graph() -> None:
    graph = Graph(rows=(("Planning", "LlmFinalAnswer", "WaitingForHuman"),))
    machine = agent(graph=graph)
    does(machine, says("The answer to all of this is forty-two."))
    assert machine.path == ("WaitingForHuman", "Error")
    assert machine.memory.error == "there is nothing that a person could approve"
