"""In every state the machine can say what must be in flight, and asking it changes nothing."""

from __future__ import annotations

from case_tables import for_every_row
from core.samples import (
    CONFIG,
    READ_ON,
    STATES_TRIED,
    TALK,
    Pending,
    Running,
    answer,
    asking,
    broken,
    call,
    decided,
    done,
    ended,
    executing,
    machine,
    said,
)
from treadle.core.actions import (
    ExecuteTools,
    MaskResults,
    RequestApproval,
    RunPostToolsHook,
    SendLlmRequest,
    Shutdown,
    Summarize,
    WaitForInput,
)
from treadle.core.chat.states import (
    AgentState,
    CallingLlm,
    Compacting,
    PostToolsHook,
    WaitingForUserInput,
)
from treadle.core.config import AgentConfig
from treadle.core.events import (
    CancelRequested,
    CompactionRequested,
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
    "WaitingForApproval": RequestApproval,
    "Compacting": Summarize,
}


@for_every_row("state", STATES_TRIED)
def test_each_state_owes_its_kind_of_action(state: AgentState) -> None:
    agent = machine(state)
    owed = agent.obligations()
    of_results = isinstance(state, Compacting) and state.conversation == READ_ON
    assert type(owed) is (MaskResults if of_results else OWED[type(state).__name__])
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


def test_a_question_is_owed_as_long_as_it_is_open_and_then_no_more() -> None:
    agent = machine(asking(Pending("a", "drop"), Pending("b", "drop"), about="ab"))
    first, second = agent.questions
    assert agent.obligations() == RequestApproval((first, second))
    agent.handle_event(decided("a"))
    assert agent.obligations() == RequestApproval((second,))


def test_a_summary_is_owed_by_the_same_bytes_again() -> None:
    agent = machine(WaitingForUserInput(TALK))
    asked = agent.handle_event(CompactionRequested("the names"))
    assert isinstance(asked, Summarize)
    assert "the names" in asked.request.messages[-1].content
    assert agent.obligations() == asked


def test_a_new_configuration_has_its_own_model_write_the_summary() -> None:
    agent = machine(WaitingForUserInput(TALK))
    agent.handle_event(CompactionRequested())
    owed = agent.with_config(AgentConfig(model_name="another")).obligations()
    assert isinstance(owed, Summarize)
    assert owed.request.model == "another"


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
