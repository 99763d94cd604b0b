"""What the runtime, the journal and people ask of every machine, answered by this one."""

from __future__ import annotations

from core.samples import (
    STATES_TRIED,
    TALK,
    Pending,
    Running,
    asking,
    broken,
    call,
    done,
    executing,
    machine,
)
from treadle.core.chat.machine import ConversationMachine
from treadle.core.chat.states import CallingLlm, Error, ShuttingDown, WaitingForUserInput
from treadle.core.conversation import Conversation
from treadle.core.machine import Machine, Retry
from treadle.core.messages import ToolCall


def test_it_has_every_part_of_a_machine() -> None:
    asked_for = {name for name in vars(Machine) if not name.startswith("_")}
    assert len(asked_for) > 8
    assert asked_for <= set(dir(ConversationMachine))


def test_a_state_is_named_as_in_the_code() -> None:
    for state in STATES_TRIED:
        assert machine(state).state_name == type(state).__name__


def test_there_is_a_conversation_in_every_state_and_none_when_shutting_down() -> None:
    for state in STATES_TRIED:
        expected = getattr(state, "conversation", Conversation())
        assert machine(state).conversation == expected
    assert machine(ShuttingDown()).conversation == Conversation()


def test_only_a_machine_that_waits_for_a_person_is_at_rest() -> None:
    resting = {type(state).__name__ for state in STATES_TRIED if machine(state).is_at_rest}
    assert resting == {"WaitingForUserInput", "WaitingForApproval"}


def test_a_round_is_there_while_it_runs_with_the_arguments_it_runs_with() -> None:
    statuses = (done("a", "look"), Running("b", "edit", modified='{"x":1}'), Pending("c", "look"))
    assert machine(executing(*statuses)).round == (
        (call("a"), statuses[0]),
        (ToolCall("b", "edit", '{"x":1}'), statuses[1]),
        (call("c"), statuses[2]),
    )
    others = (state for state in STATES_TRIED if type(state).__name__ != "ExecutingTools")
    assert {machine(state).round for state in others} == {()}


def test_questions_are_there_while_a_person_is_asked() -> None:
    state = asking(Pending("a", "drop"), about="a")
    assert machine(state).questions == state.questions
    assert machine(CallingLlm(TALK)).questions == ()


def test_a_retry_is_there_while_one_is_waited_for() -> None:
    agent = machine(CallingLlm(TALK))
    event = broken()
    agent.handle_event(event)
    assert isinstance(agent.state, Error)
    assert agent.retry == Retry(event.error, 0.5)
    assert machine(WaitingForUserInput(TALK)).retry is None
