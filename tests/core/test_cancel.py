"""A cancel ends the turn from every busy state, answers what is open and keeps what was said."""

from __future__ import annotations

import pytest

from case_tables import for_every_row
from core.samples import (
    CONFIG,
    STATES_TRIED,
    TALK,
    Pending,
    Running,
    broken,
    done,
    executing,
    machine,
    said,
    success,
    unsummed,
)
from treadle.core.actions import MaskResults, SendLlmRequest, Summarize, WaitForInput
from treadle.core.chat.states import (
    AgentState,
    CallingLlm,
    Compacting,
    Error,
    ExecutingTools,
    PostToolsHook,
    ShuttingDown,
    WaitingForApproval,
    WaitingForUserInput,
)
from treadle.core.conversation import Conversation, Masking
from treadle.core.events import CancelRequested, ResultsMasked
from treadle.core.messages import Message

BUSY = (CallingLlm, ExecutingTools, PostToolsHook, Error, WaitingForApproval, Compacting)
busy_states = [state for state in STATES_TRIED if isinstance(state, BUSY)]


def cancelled(state: AgentState, event: CancelRequested | None = None) -> Conversation:
    agent = machine(state)
    assert agent.handle_event(event or CancelRequested()) == WaitForInput()
    assert isinstance(agent.state, WaitingForUserInput)
    return agent.state.conversation


@for_every_row("state", busy_states)
def test_the_person_can_go_on_after_a_cancel_in_any_busy_state(state: AgentState) -> None:
    agent = machine(state)
    agent.handle_event(CancelRequested())
    action = agent.handle_event(said("instead"))
    if isinstance(action, Summarize):
        action = agent.handle_event(unsummed())
    elif isinstance(action, MaskResults):
        action = agent.handle_event(ResultsMasked(Masking(action.through, action.size)))
    assert isinstance(action, SendLlmRequest)
    assert action.request.messages[-1] == Message.user("instead")


@pytest.mark.parametrize("state", [WaitingForUserInput(TALK), ShuttingDown()])
def test_where_nothing_runs_there_is_nothing_to_cancel(state: AgentState) -> None:
    agent = machine(state)
    assert agent.handle_event(CancelRequested("text", "why")) == WaitForInput()
    assert agent.state is state


def test_text_said_so_far_is_kept_as_an_interrupted_message() -> None:
    conversation = cancelled(CallingLlm(TALK), CancelRequested("I was about to"))
    assert conversation[-1] == Message("assistant", "I was about to", interrupted=True)
    assert list(conversation[:-1]) == list(TALK)


def test_where_nothing_was_said_nothing_is_added() -> None:
    assert cancelled(CallingLlm(TALK), CancelRequested("")) == TALK


def test_text_is_kept_only_while_a_model_speaks() -> None:
    agent = machine(CallingLlm(TALK))
    agent.handle_event(broken())
    assert isinstance(agent.state, Error)
    assert cancelled(agent.state, CancelRequested("left over")) == TALK


def test_open_calls_are_answered_each_by_how_it_stood_and_results_are_kept() -> None:
    state = executing(
        Pending("a", "edit"),
        Running("b", "edit", "12:02"),
        done("c", "look", success("c", "seen")),
        Running("d", "edit", "12:02", uncertain=True),
    )
    conversation = cancelled(state, CancelRequested(reason="the person stopped"))
    answers = {message.tool_call_id: message.content for message in conversation[len(TALK) + 1 :]}
    started = "ERROR: Cancelled: the person stopped; it had started and may have had effects"
    assert answers == {
        "a": "ERROR: Cancelled: the person stopped; it had not started",
        "b": started,
        "c": "seen",
        "d": started,
    }


def test_a_cancel_without_a_reason_still_tells_the_model_what_happened() -> None:
    conversation = cancelled(executing(Pending("a", "look")))
    assert "the turn was cancelled; it had not started" in conversation[-1].content


def test_a_cancel_during_the_hook_keeps_the_results() -> None:
    [state] = [state for state in STATES_TRIED if isinstance(state, PostToolsHook)]
    assert cancelled(state) == state.conversation


def test_a_cancel_between_retries_keeps_the_question() -> None:
    [state, *_] = [state for state in STATES_TRIED if isinstance(state, Error)]
    assert cancelled(state) == TALK


def test_after_a_cancel_the_retries_begin_anew() -> None:
    agent = machine(CallingLlm(TALK, CONFIG.max_retries))
    agent.handle_event(CancelRequested())
    agent.handle_event(said())
    assert isinstance(agent.state, CallingLlm)
    assert agent.state.retries == 0
