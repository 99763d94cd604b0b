"""Calls that need a person's yes wait for it, all of their round with them."""

from __future__ import annotations

import logging
from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from case_tables import for_every_row
from core.random_events import random_event
from core.samples import (
    CONFIG,
    FULL,
    TALK,
    Completed,
    Pending,
    Running,
    answer,
    asking,
    call,
    decided,
    ended,
    machine,
    success,
)
from treadle.core.actions import (
    ExecuteTools,
    RequestApproval,
    SendLlmRequest,
    Summarize,
    WaitForInput,
)
from treadle.core.approval import AlwaysAsk, Modified, NeverAsk, Question, Rejected
from treadle.core.chat.machine import ConversationMachine
from treadle.core.chat.states import (
    CallingLlm,
    ExecutingTools,
    WaitingForApproval,
    WaitingForUserInput,
)
from treadle.core.config import AgentConfig
from treadle.core.events import (
    ApprovalDecided,
    CancelRequested,
    LlmEvent,
    ToolStarted,
    ToolUncertain,
)
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import RiskLevel, ToolErrorKind


def told(event: LlmEvent.Completed, config: AgentConfig = CONFIG) -> ConversationMachine:
    agent = machine(CallingLlm(TALK), config)
    agent.handle_event(event)
    return agent


def results(agent: ConversationMachine) -> list[str]:
    return [message.content for message in agent.conversation if message.role == "tool"]


def open_statuses(agent: ConversationMachine) -> list[Pending | Running]:
    return [status for _, status in agent.round if not isinstance(status, Completed)]


def test_one_call_that_needs_a_yes_holds_up_its_whole_round() -> None:
    agent = machine(CallingLlm(TALK))
    action = agent.handle_event(answer("", call("a"), call("b", "drop"), call("c", "drop")))
    assert isinstance(action, RequestApproval)
    assert [question.call for question in action.questions] == [
        call("b", "drop"),
        call("c", "drop"),
    ]
    assert isinstance(agent.state, WaitingForApproval)
    assert agent.state.executions == (
        Pending("a", "look", "12:01"),
        Pending("b", "drop", "12:01"),
        Pending("c", "drop", "12:01"),
    )
    assert (agent.handle_event(ToolStarted("a")), agent.round) == (WaitForInput(), ())


def test_calls_that_need_no_yes_run_at_once() -> None:
    agent = told(answer("", call("a"), call("b", "edit")))
    assert isinstance(agent.state, ExecutingTools)
    granted = replace(CONFIG, granted={"drop": RiskLevel.CRITICAL})
    assert isinstance(told(answer("", call("a", "drop")), granted).state, ExecutingTools)
    never = replace(CONFIG, approval=NeverAsk())
    assert isinstance(told(answer("", call("a", "drop")), never).state, ExecutingTools)


def test_a_tool_that_nobody_knows_is_not_asked_about() -> None:
    agent = told(answer("", call("a", "unheard of")), replace(CONFIG, approval=AlwaysAsk()))
    assert isinstance(agent.state, ExecutingTools)


def test_arguments_that_were_judged_risky_are_asked_about() -> None:
    agent = told(answer("", call("a", "edit"), risks=(RiskLevel.CRITICAL,)))
    [question] = agent.questions
    assert (question.call, question.risk) == (call("a", "edit"), RiskLevel.CRITICAL)


def test_a_risk_belongs_to_its_call_even_if_the_call_gets_another_id() -> None:
    conversation = TALK.extend([Message.assistant("", (call("a"),)), Message.tool(call("a"), "x")])
    agent = machine(CallingLlm(conversation))
    agent.handle_event(answer("", call("b"), call("a", "edit"), risks=(None, RiskLevel.HIGH)))
    [question] = agent.questions
    assert question.call.tool_name == "edit"
    assert question.call.id not in ("a", "b")
    assert question.call == agent.conversation[-1].tool_calls[1]


def test_while_questions_are_open_a_word_about_one_changes_nothing_else() -> None:
    agent = machine(asking(Pending("a", "drop"), Pending("b", "drop"), about="ab"))
    assert agent.handle_event(decided("b")) == WaitForInput()
    assert [question.call.id for question in agent.questions] == ["a"]


@for_every_row("order", list(permutations("abc")))
def test_after_the_last_word_all_that_may_run_runs_in_request_order(order: tuple[str]) -> None:
    drops = [Pending(call_id, "drop") for call_id in "abc"]
    agent = machine(asking(*drops, Pending("d", "look"), about="abc"))
    words = {"a": decided("a"), "b": decided("b", Rejected("no")), "c": decided("c")}
    actions = [agent.handle_event(words[call_id]) for call_id in order]
    assert actions[:2] == [WaitForInput(), WaitForInput()]
    assert isinstance(actions[2], ExecuteTools)
    assert [one.id for one in actions[2].calls] == ["a", "c", "d"]
    for call_id in "dca":
        agent.handle_event(ended(call_id, success(call_id, call_id)))
    assert results(agent) == ["a", "ERROR: Rejected: no", "c", "d"]


def test_a_call_without_a_question_runs_even_if_all_others_are_rejected() -> None:
    agent = machine(asking(Pending("a", "drop"), Pending("b", "look"), about="a"))
    assert agent.handle_event(decided("a", Rejected())) == ExecuteTools((call("b"),))
    assert [type(status) for _, status in agent.round] == [Completed, Pending]


def test_if_nothing_may_run_the_model_is_told_at_once_in_request_order() -> None:
    agent = machine(asking(Pending("a", "drop"), Pending("b", "drop"), about="ab"))
    agent.handle_event(decided("b", Rejected("the disk is full")))
    action = agent.handle_event(decided("a", Rejected()))
    assert isinstance(action, SendLlmRequest)
    assert action.request.messages[-2:] == (
        Message.tool(call("a", "drop"), "ERROR: Rejected: a person did not allow this call"),
        Message.tool(call("b", "drop"), "ERROR: Rejected: the disk is full"),
    )


def test_a_rejection_near_the_limit_is_followed_by_a_summary() -> None:
    agent = machine(CallingLlm(FULL))
    agent.handle_event(answer("", call("a", "drop")))
    assert isinstance(agent.handle_event(decided("a", Rejected())), Summarize)


def test_a_rejection_is_kept_as_a_completed_call_of_its_kind() -> None:
    agent = machine(asking(Pending("a", "drop"), Pending("b", "look"), about="a"))
    agent.handle_event(decided("a", Rejected("no")))
    assert isinstance(agent.state, ExecutingTools)
    status = agent.state.executions[0]
    assert isinstance(status, Completed)
    assert (status.started_at, status.completed_at) == ("12:04", "12:04")
    assert getattr(status.outcome, "error").kind is ToolErrorKind.REJECTED  # noqa: B009


def test_a_changed_call_runs_with_the_arguments_of_the_person() -> None:
    agent = told(answer("", call("a", "drop", '{"table":"users"}')))
    action = agent.handle_event(decided("a", Modified('{"table":"temp"}', RiskLevel.HIGH)))
    assert action == ExecuteTools((ToolCall("a", "drop", '{"table":"temp"}'),))
    assert agent.obligations() == action
    [(as_run, status)] = agent.round
    assert (as_run.arguments_json, status.modified) == ('{"table":"temp"}', '{"table":"temp"}')


def test_a_yes_stands_in_the_status_of_its_call_and_of_no_other() -> None:
    agent = told(answer("", call("a", "drop"), call("b"), call("c", "drop")))
    agent.handle_event(decided("a"))
    agent.handle_event(decided("c", Modified("{}", RiskLevel.HIGH)))
    assert [status.approved for status in open_statuses(agent)] == [True, UNSET, True]
    for call_id in "abc":
        agent.handle_event(ToolStarted(call_id))
    assert [status.approved for status in open_statuses(agent)] == [True, UNSET, True]
    agent.handle_event(ToolUncertain("a"))
    agent.handle_event(ToolStarted("a"))
    assert open_statuses(agent)[0].approved is True


def test_a_change_that_is_asked_about_again_is_not_approved_before_the_second_word() -> None:
    agent = machine(asking(Pending("a", "drop"), Pending("b", "drop"), about="ab"))
    agent.handle_event(decided("a", Modified("{}", RiskLevel.CRITICAL)))
    assert isinstance(agent.state, WaitingForApproval)
    assert agent.state.executions[0] == Pending("a", "drop", modified="{}")
    agent.handle_event(decided("a"))
    assert agent.state.executions[0] == Pending("a", "drop", modified="{}", approved=True)


def test_the_message_of_the_model_stays_and_the_result_says_what_was_changed() -> None:
    event = answer("", call("a", "drop", '{"table" : "users"}'))
    agent = told(event)
    agent.handle_event(decided("a", Modified('{"table":"temp"}')))
    agent.handle_event(ToolStarted("a", "12:05"))
    agent.handle_event(ToolUncertain("a"))
    agent.handle_event(ToolStarted("a", "12:06"))
    changed = '{"table":"temp"}'
    assert agent.round[0][1] == Running("a", "drop", "12:06", modified=changed, approved=True)
    agent.handle_event(ended("a", success("a", "gone")))
    assert agent.conversation[3] is event.response.message
    words = '[a person changed the arguments to {"table":"temp"}]\ngone'
    assert results(agent) == [words]


def test_a_change_that_makes_a_call_riskier_is_asked_about_again() -> None:
    agent = machine(asking(Pending("a", "drop"), Pending("b", "drop"), about="ab"))
    action = agent.handle_event(decided("a", Modified('{"all":true}', RiskLevel.CRITICAL)))
    [again] = action.questions if isinstance(action, RequestApproval) else ()
    assert (again.call.arguments_json, again.risk) == ('{"all":true}', RiskLevel.CRITICAL)
    assert [question.call.id for question in agent.questions] == ["a", "b"]
    agent.handle_event(decided("b"))
    action = agent.handle_event(decided("a"))
    assert action == ExecuteTools((ToolCall("a", "drop", '{"all":true}'), call("b", "drop")))


def test_a_riskier_change_that_the_policy_does_not_ask_about_is_not() -> None:
    config = replace(CONFIG, approval=NeverAsk())
    agent = machine(asking(Pending("a", "drop"), about="a"), config)
    action = agent.handle_event(decided("a", Modified("{}", RiskLevel.CRITICAL)))
    assert isinstance(action, ExecuteTools)


def test_what_was_changed_and_then_rejected_is_told_as_rejected_alone() -> None:
    agent = machine(asking(Pending("a", "drop"), about="a"))
    agent.handle_event(decided("a", Modified('{"all":true}', RiskLevel.CRITICAL)))
    agent.handle_event(decided("a", Rejected("no")))
    assert results(agent) == ["ERROR: Rejected: no"]


@pytest.mark.parametrize("call_id", ["b", "unheard of", ""])
def test_a_word_about_a_call_that_nobody_asks_about_is_refused(
    call_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = machine(asking(Pending("a", "drop"), Pending("b", "look"), about="a"))
    before = agent.state
    for decision in (None, Rejected(), Modified("{}", RiskLevel.CRITICAL)):
        assert agent.handle_event(decided(call_id, decision)) == WaitForInput()
    assert agent.state is before
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_a_cancel_answers_what_was_open_and_keeps_what_was_rejected() -> None:
    agent = machine(asking(Pending("a", "drop"), Pending("b", "drop"), about="ab"))
    agent.handle_event(decided("a", Rejected("no")))
    assert agent.handle_event(CancelRequested(reason="the person left")) == WaitForInput()
    assert isinstance(agent.state, WaitingForUserInput)
    assert results(agent) == [
        "ERROR: Rejected: no",
        "ERROR: Cancelled: the person left; it had not started",
    ]


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=True), st.integers(1, 80))
def test_whatever_happens_no_call_that_needs_a_yes_runs_without_one(
    random: Random, length: int
) -> None:
    log = logging.getLogger("treadle.chat")
    log.disabled = True
    agent, allowed = machine(), set[str]()
    for clock in range(length):
        event, questions = random_event(random, agent.state, clock), agent.questions
        action = agent.handle_event(event)
        if isinstance(event, ApprovalDecided) and not isinstance(event.decision, Rejected):
            allowed |= {one.call.id for one in questions if one.call.id == event.call_id}
        if isinstance(action, ExecuteTools):
            assert {one.id for one in action.calls if one.tool_name == "drop"} <= allowed
    log.disabled = False


def test_a_machine_that_waits_for_a_yes_is_at_rest_and_says_what_it_waits_for() -> None:
    state = asking(Pending("a", "drop"), about="a")
    agent = machine(state)
    assert agent.is_at_rest
    assert agent.questions == (Question(call("a", "drop"), RiskLevel.HIGH, "why"),)
    assert agent.conversation is state.conversation
