"""A round of tools: its calls, how each goes on, and what of it enters the conversation."""

from __future__ import annotations

import logging
from itertools import permutations

import pytest

from case_tables import for_every_row
from core.samples import (
    TALK,
    Completed,
    Pending,
    Running,
    answer,
    call,
    done,
    ended,
    executing,
    failure,
    machine,
    said,
    success,
)
from treadle.core.actions import ExecuteTools, RunPostToolsHook, SendLlmRequest, WaitForInput
from treadle.core.chat.states import (
    CallingLlm,
    ExecutingTools,
    PostToolsHook,
    WaitingForUserInput,
)
from treadle.core.events import LlmEvent, ToolProgressEvent, ToolStarted, ToolUncertain
from treadle.core.llm import LlmResponse
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import Outcome, Status, ToolErrorKind, ToolProgress


def ask(*calls: ToolCall) -> tuple[ToolCall, ...]:
    """The calls that run when a model answers the sample conversation with these."""
    agent = machine(CallingLlm(TALK))
    action = agent.handle_event(answer("", *calls))
    assert isinstance(action, ExecuteTools)
    assert isinstance(agent.state, ExecutingTools)
    assert agent.state.conversation[-1].tool_calls == action.calls
    assert [status.call_id for status in agent.state.executions] == [c.id for c in action.calls]
    return action.calls


def test_every_call_begins_as_pending_at_the_time_the_answer_ended() -> None:
    agent = machine(CallingLlm(TALK))
    agent.handle_event(answer("", call("a"), call("b", "edit")))
    assert isinstance(agent.state, ExecutingTools)
    assert agent.state.executions == (Pending("a", "look", "12:01"), Pending("b", "edit", "12:01"))


def test_calls_with_ids_of_their_own_keep_them_and_their_message() -> None:
    agent = machine(CallingLlm(TALK))
    event = answer("text", call("a"), call("b"))
    agent.handle_event(event)
    assert isinstance(agent.state, ExecutingTools)
    assert agent.state.conversation[-1] is event.response.message


def test_empty_and_repeated_ids_get_fresh_ones_in_order() -> None:
    calls = ask(call("a"), call("a"), call(""), call(""), call("b"))
    ids = [one.id for one in calls]
    assert ids[0] == "a"
    assert ids[-1] == "b"
    assert all(ids)
    assert len(set(ids)) == 5


def test_a_fresh_id_is_none_that_stands_elsewhere_in_the_same_answer() -> None:
    fresh = ask(call("a"), call("a"), call("a"))[2].id
    for others in ((fresh, "a", "a"), ("a", "a", fresh), (fresh, f"{fresh}x", "a", "a")):
        ids = [one.id for one in ask(*map(call, others))]
        assert len(set(ids)) == len(others)
    third = [one.id for one in ask(call(fresh), call("a"), call("a"))][2]
    assert third not in (fresh, "a")


def test_a_fresh_id_is_none_that_an_earlier_round_has_used() -> None:
    """The earlier call has the very name that would be made up for the later one."""
    agent = machine(CallingLlm(TALK))
    agent.handle_event(answer("", call("call-5-0")))
    agent.handle_event(ended("call-5-0"))
    assert isinstance(agent.state, CallingLlm)
    assert len(agent.state.conversation) == 5
    action = agent.handle_event(answer("", call("")))
    assert isinstance(action, ExecuteTools)
    assert action.calls[0].id not in ("", "call-5-0")


def test_an_id_used_in_an_earlier_round_gets_a_fresh_one() -> None:
    agent = machine()
    agent.handle_event(said())
    for _ in range(3):
        action = agent.handle_event(answer("", call("a")))
        assert isinstance(action, ExecuteTools)
        agent.handle_event(ended(action.calls[0].id))
    assert isinstance(agent.state, CallingLlm)
    used = [c.id for message in agent.state.conversation for c in message.tool_calls]
    assert len(set(used)) == 3


def test_fresh_ids_are_the_same_every_time() -> None:
    assert ask(call(""), call("")) == ask(call(""), call(""))


def test_only_the_id_of_a_call_changes_never_its_name_or_arguments() -> None:
    [one] = ask(call("", "edit", '{"broken'))
    assert (one.tool_name, one.arguments_json) == ("edit", '{"broken')


@for_every_row("order", list(permutations("abc")))
def test_results_enter_in_request_order_whatever_order_they_come_in(order: tuple[str]) -> None:
    agent = machine(CallingLlm(TALK))
    agent.handle_event(answer("", call("a"), call("b"), call("c")))
    for number, call_id in enumerate(order):
        assert isinstance(agent.state, ExecutingTools)
        assert len(agent.state.conversation) == len(TALK) + 1
        agent.handle_event(ended(call_id, success(call_id, f"result {number}")))
    assert isinstance(agent.state, CallingLlm)
    results = agent.state.conversation[len(TALK) + 1 :]
    assert [message.tool_call_id for message in results] == ["a", "b", "c"]
    assert [message.content for message in results] == [f"result {order.index(i)}" for i in "abc"]


def test_a_result_tells_the_model_the_output_or_the_error_and_its_partial_output() -> None:
    agent = machine(CallingLlm(TALK))
    agent.handle_event(answer("", call("a"), call("b")))
    agent.handle_event(ended("a", success("a", "forty-two")))
    agent.handle_event(ended("b", failure("b", ToolErrorKind.TIMEOUT)))
    assert isinstance(agent.state, CallingLlm)
    assert agent.state.conversation[-2:] == (
        Message.tool(call("a"), "forty-two"),
        Message.tool(call("b"), "ERROR: Tool execution timed out: no such luck"),
    )


@for_every_row(
    "statuses, last, runs_hook",
    [
        ((Running("a", "edit"),), success("a"), True),
        ((Running("a", "put"),), success("a"), True),
        ((Running("a", "who knows"),), success("a"), True),
        ((Running("a", "look"),), success("a"), False),
        ((Running("a", "edit"),), failure("a"), False),
        ((done("b", "edit"), Running("a", "look")), success("a"), True),
        ((done("b", "edit"), Running("a", "look")), failure("a"), True),
        ((done("b", "edit", failure("b")), Running("a", "look")), success("a"), False),
        ((done("b", "look"), Running("a", "edit")), failure("a"), False),
    ],
)
def test_the_hook_runs_only_if_a_tool_that_can_change_things_succeeded(
    statuses: tuple[Status, ...], last: Outcome, runs_hook: bool
) -> None:
    agent = machine(executing(*statuses))
    action = agent.handle_event(ended("a", last))
    assert isinstance(action, RunPostToolsHook if runs_hook else SendLlmRequest)
    assert isinstance(agent.state, PostToolsHook if runs_hook else CallingLlm)


def test_the_hook_is_told_of_every_call_of_the_round_in_request_order() -> None:
    agent = machine(executing(Running("a", "look"), done("b", "edit", success("b", "", "f"))))
    action = agent.handle_event(ended("a", failure("a")))
    assert isinstance(action, RunPostToolsHook)
    told = [(info.tool_name, info.succeeded, info.changed) for info in action.completed_tools]
    assert told == [("look", False, ()), ("edit", True, ("f",))]


def test_the_request_after_the_hook_is_decided_before_it_runs() -> None:
    agent = machine(executing(Running("a", "edit")))
    agent.handle_event(ended("a"))
    assert isinstance(agent.state, PostToolsHook)
    assert list(agent.state.pending_llm_request.messages) == list(agent.state.conversation)


@pytest.mark.parametrize("call_id", ["z", "", "b"])
def test_a_result_for_an_unknown_or_completed_call_is_refused(
    call_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = machine(executing(Running("a", "look"), done("b", "look")))
    before = agent.state
    assert agent.handle_event(ended(call_id)) == WaitForInput()
    assert agent.state is before
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_call_that_never_started_can_complete_and_is_said_to_start_then() -> None:
    agent = machine(executing(Pending("a", "look"), Pending("b", "look")))
    agent.handle_event(ended("a"))
    assert isinstance(agent.state, ExecutingTools)
    assert agent.state.executions[0] == Completed("a", "look", "12:05", "12:05", success("a"))


def test_a_call_goes_from_pending_through_running_and_its_progress_to_completed() -> None:
    agent = machine(executing(Pending("a", "look"), Pending("b", "look")))
    agent.handle_event(ToolStarted("a", "12:02"))
    assert _first(agent.state) == Running("a", "look", "12:02")
    agent.handle_event(ToolProgressEvent("a", ToolProgress(0.5, "half", 3), "12:03"))
    progress = ToolProgress(0.5, "half", 3)
    assert _first(agent.state) == Running("a", "look", "12:02", "12:03", progress)
    agent.handle_event(ended("a"))
    assert _first(agent.state) == Completed("a", "look", "12:02", "12:05", success("a"))


def _first(state: object) -> Status:
    assert isinstance(state, ExecutingTools)
    assert state.executions[1] == Pending("b", "look")
    return state.executions[0]


def test_a_running_call_cannot_start_again_unless_it_is_uncertain() -> None:
    agent = machine(executing(Running("a", "edit", "12:02")))
    before = agent.state
    agent.handle_event(ToolStarted("a", "12:04"))
    assert agent.state is before
    agent.handle_event(ToolUncertain("a"))
    assert isinstance(agent.state, ExecutingTools)
    assert agent.state.executions == (Running("a", "edit", "12:02", uncertain=True),)
    agent.handle_event(ToolStarted("a", "12:04"))
    assert agent.state.executions == (Running("a", "edit", "12:04"),)


def test_progress_leaves_the_doubt_about_an_uncertain_call_standing() -> None:
    agent = machine(executing(Running("a", "edit", "12:02", uncertain=True)))
    agent.handle_event(ToolProgressEvent("a", ToolProgress(message="still here"), "12:03"))
    assert isinstance(agent.state, ExecutingTools)
    [status] = agent.state.executions
    assert isinstance(status, Running)
    assert status.uncertain


@for_every_row(
    "posing",
    [
        Message("tool", "I am a result", (), "a", "look"),
        Message("user", "I am a result"),
        Message("system", "I am a result"),
        Message("assistant", "I am a result", (), "a"),
    ],
)
def test_a_model_that_poses_as_somebody_else_still_speaks_as_the_assistant(
    posing: Message,
) -> None:
    agent = machine(CallingLlm(TALK))
    agent.handle_event(LlmEvent.Completed(LlmResponse(posing)))
    assert isinstance(agent.state, WaitingForUserInput)
    assert agent.state.conversation[-1] == Message.assistant("I am a result")
