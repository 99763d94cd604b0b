"""In every state the machine can say what must be in flight, and asking it changes nothing."""

from __future__ import annotations

import pytest

from core.samples import (
    CONFIG,
    STATES_TRIED,
    TALK,
    Pending,
    Running,
    answer,
    broken,
    call,
    done,
    ended,
    executing,
    machine,
    said,
)
from treadle.core.actions import (
    ExecuteTools,
    RunPostToolsHook,
    SendLlmRequest,
    Shutdown,
    WaitForInput,
)
from treadle.core.chat.states import AgentState, CallingLlm, PostToolsHook
from treadle.core.config import AgentConfig
from treadle.core.events import (
    CancelRequested,
    PostToolsHookCompleted,
    RetryTimeoutFired,
    ShutdownRequested,
    ToolStarted,
)

OWED = {
    "WaitingForUserInput": WaitForInput,
    "CallingLlm": SendLlmRequest,
    "ProcessingLlmResponse": WaitForInput,
    "ExecutingTools": ExecuteTools,
    "PostToolsHook": RunPostToolsHook,
    "Error": WaitForInput,
    "ShuttingDown": Shutdown,
}


@pytest.mark.parametrize("state", STATES_TRIED, ids=lambda state: type(state).__name__)
def test_each_state_owes_its_kind_of_action(state: AgentState) -> None:
    agent = machine(state)
    owed = agent.obligations()
    assert type(owed) is OWED[type(state).__name__]
    assert agent.obligations() == owed
    assert agent.state is state


def test_what_is_owed_is_what_was_asked_for_when_the_state_was_entered() -> None:
    agent = machine()
    for event in (
        said(),
        answer("", call("a"), call("b", "edit")),
        ended("a"),
        ended("b"),
        PostToolsHookCompleted(True),
        broken(),
        RetryTimeoutFired(),
        ShutdownRequested(),
    ):
        before, action = agent.state, agent.handle_event(event)
        if type(agent.state) is not type(before):
            assert agent.obligations() == action


def test_only_calls_that_are_not_completed_are_owed() -> None:
    agent = machine(
        executing(
            done("a", "look"),
            Pending("b", "look"),
            Running("c", "edit"),
            Running("d", "edit", uncertain=True),
        )
    )
    owed = agent.obligations()
    assert isinstance(owed, ExecuteTools)
    assert [one.id for one in owed.calls] == ["b", "c", "d"]


def test_a_call_that_started_is_still_owed() -> None:
    agent = machine(executing(Pending("a", "look")))
    agent.handle_event(ToolStarted("a"))
    owed = agent.obligations()
    assert isinstance(owed, ExecuteTools)
    assert [one.id for one in owed.calls] == ["a"]


def test_after_a_cancel_nothing_is_owed() -> None:
    agent = machine(CallingLlm(TALK))
    agent.handle_event(CancelRequested())
    assert agent.obligations() == WaitForInput()


def test_a_new_configuration_changes_what_is_owed_and_the_request_that_waits_for_the_hook() -> None:
    other = AgentConfig(model_name="another", tools=CONFIG.tools)
    [state] = [state for state in STATES_TRIED if isinstance(state, PostToolsHook)]
    agent = machine(state).with_config(other)
    assert isinstance(agent.state, PostToolsHook)
    assert agent.state.pending_llm_request.model == "another"
    waiting = agent.state.pending_llm_request
    assert agent.handle_event(PostToolsHookCompleted(False)) == SendLlmRequest(waiting)
