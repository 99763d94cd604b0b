"""The examples of the source document, as it words them, and the loop that it shows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from case_tables import for_every_row
from core.samples import (
    CONFIG,
    STATES_TRIED,
    answer,
    broken,
    call,
    ended,
    machine,
    said,
    success,
)
from treadle.core.actions import (
    DisplayError,
    DisplayMessage,
    ExecuteTools,
    RunPostToolsHook,
    SendLlmRequest,
    Shutdown,
    WaitForInput,
)
from treadle.core.chat.machine import ConversationMachine
from treadle.core.chat.states import (
    AgentState,
    CallingLlm,
    Error,
    ExecutingTools,
    PostToolsHook,
    ShuttingDown,
    WaitingForUserInput,
)
from treadle.core.config import AgentConfig
from treadle.core.conversation import Conversation
from treadle.core.events import (
    LlmEvent,
    PostToolsHookCompleted,
    RetryTimeoutFired,
    ShutdownRequested,
)
from treadle.core.llm import ADVICE, LlmErrorKind
from treadle.core.messages import Message

configurations = st.builds(
    AgentConfig,
    model_name=st.text(max_size=8),
    system_prompt=st.text(max_size=8),
    max_retries=st.integers(-1, 9),
    max_tokens=st.integers(0, 9),
    temperature=st.none() | st.floats(0, 2),
    max_steps=st.integers(0, 9),
)


def test_transitions_to_calling_llm_on_user_input() -> None:
    agent = machine()
    action = agent.handle_event(said("hello"))
    assert isinstance(action, SendLlmRequest)
    assert isinstance(agent.state, CallingLlm)
    assert list(action.request.messages) == [Message.user("hello")]


@given(configurations)
def test_agent_always_starts_in_waiting(config: AgentConfig) -> None:
    agent = ConversationMachine(config)
    assert agent.state == WaitingForUserInput(Conversation())


@for_every_row("state", STATES_TRIED)
def test_shutdown_succeeds_from_any_state(state: AgentState) -> None:
    agent = machine(state)
    assert agent.handle_event(ShutdownRequested()) == Shutdown()
    assert agent.state == ShuttingDown()


def test_completes_full_conversation_cycle() -> None:
    agent = machine()
    agent.handle_event(said("hello"))
    action = agent.handle_event(answer("hi"))
    assert action == WaitForInput()
    assert isinstance(agent.state, WaitingForUserInput)
    assert list(agent.state.conversation) == [Message.user("hello"), Message.assistant("hi")]


def test_a_request_is_made_of_the_configuration_and_the_conversation() -> None:
    agent = machine()
    action = agent.handle_event(said("hello"))
    assert isinstance(action, SendLlmRequest)
    request = action.request
    assert (request.model, request.system) == (CONFIG.model_name, CONFIG.system_prompt)
    assert (request.tools, request.max_tokens) == (CONFIG.tools, CONFIG.max_tokens)
    assert request.temperature is CONFIG.temperature


def test_deltas_are_shown_and_change_nothing() -> None:
    agent = machine(CallingLlm(Conversation([Message.user("go")]), 1))
    before = agent.state
    assert agent.handle_event(LlmEvent.TextDelta("he")) == DisplayMessage("he")
    assert agent.handle_event(LlmEvent.ToolCallDelta("a", "look", "{")) == WaitForInput()
    assert agent.state is before


def test_a_turn_runs_through_tools_the_hook_a_failure_and_a_retry_to_the_answer() -> None:
    agent = machine()
    agent.handle_event(said("make it so"))
    action = agent.handle_event(answer("", call("a"), call("b", "edit")))
    assert action == ExecuteTools((call("a"), call("b", "edit")))
    assert isinstance(agent.state, ExecutingTools)
    assert agent.handle_event(ended("a")) == WaitForInput()
    action = agent.handle_event(ended("b", success("b", "written", "file.txt")))
    assert isinstance(action, RunPostToolsHook)
    assert [(i.tool_name, i.succeeded, i.changed) for i in action.completed_tools] == [
        ("look", True, ()),
        ("edit", True, ("file.txt",)),
    ]
    assert isinstance(agent.state, PostToolsHook)
    pending = agent.state.pending_llm_request
    action = agent.handle_event(PostToolsHookCompleted(True))
    assert action == SendLlmRequest(pending)
    assert agent.handle_event(broken()) == WaitForInput()
    assert isinstance(agent.state, Error)
    assert agent.handle_event(RetryTimeoutFired()) == SendLlmRequest(pending)
    assert agent.handle_event(answer("made")) == WaitForInput()
    assert isinstance(agent.state, WaitingForUserInput)
    roles = " ".join(message.role for message in agent.state.conversation)
    assert roles == "user assistant tool tool assistant"


def test_when_the_retries_are_used_up_the_failure_is_shown_and_the_person_can_go_on() -> None:
    agent = machine(CallingLlm(Conversation([Message.user("go")]), CONFIG.max_retries))
    action = agent.handle_event(broken())
    assert action == DisplayError(f"LLM error: network: so it goes; {ADVICE[LlmErrorKind.NETWORK]}")
    assert isinstance(agent.handle_event(said("again")), SendLlmRequest)


def test_a_machine_can_be_put_into_another_state_without_touching_the_first() -> None:
    first = machine()
    second = first.with_state(ShuttingDown())
    third = second.with_config(AgentConfig(model_name="other"))
    assert isinstance(first.state, WaitingForUserInput)
    assert (second.config, third.config.model_name) == (CONFIG, "other")
    assert third.state is second.state
