"""A state and a conversation as data come back as they were; what cannot be is refused."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from case_tables import for_every_row
from core.random_events import random_event
from core.samples import (
    CONFIG,
    FULL,
    STATES_TRIED,
    SUMMED_UP,
    TALK,
    Pending,
    Running,
    asking,
    executing,
    machine,
    said,
)
from treadle.core.chat.states import (
    AgentState,
    Compacting,
    CompactionCause,
    ProcessingLlmResponse,
    ShuttingDown,
    WaitingForApproval,
)
from treadle.core.conversation import Compaction
from treadle.core.events import ToolProgressEvent
from treadle.thread.chat_state import (
    KIND_OF_STATE,
    restore_conversation,
    restore_state,
    snapshot_conversation,
    snapshot_state,
    to_snake_case,
)
from treadle.thread.codec import UnknownEntryError
from treadle.thread.document import AgentStateSnapshot, ConversationSnapshot

KEPT = [one for one in STATES_TRIED if not isinstance(one, ProcessingLlmResponse | ShuttingDown)]


def read_again(state: AgentState) -> AgentState:
    """The state as it is after its way through a file."""
    assert not isinstance(state, ShuttingDown)
    stored = msgspec.json.encode((snapshot_state(state), snapshot_conversation(state.conversation)))
    kinds = tuple[AgentStateSnapshot, ConversationSnapshot]
    told, conversation = msgspec.json.decode(stored, type=kinds)
    return restore_state(told, restore_conversation(conversation), CONFIG)


@for_every_row("state", KEPT)
def test_every_state_comes_back_as_it_was(state: AgentState) -> None:
    assert read_again(state) == state
    assert machine(read_again(state)).obligations() == machine(state).obligations()


@pytest.mark.parametrize("status", [Pending("a", "drop"), Running("a", "drop", "12:00")])
def test_a_persons_yes_is_kept_and_without_one_the_bytes_are_as_ever(
    status: Pending | Running,
) -> None:
    approved = executing(replace(status, approved=True))
    assert read_again(approved) == approved
    stored = [msgspec.json.encode(snapshot_state(one)) for one in (approved, executing(status))]
    assert [b"approved" in one for one in stored] == [True, False]


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=True), st.integers(1, 60))
def test_a_session_goes_on_from_a_stored_state_as_from_its_own(random: Random, length: int) -> None:
    agent = machine()
    for clock in range(length):
        event = random_event(random, agent.state, clock)
        while isinstance(event, ToolProgressEvent):
            event = random_event(random, agent.state, clock)
        other = machine(read_again(agent.state))
        assert other.state == agent.state
        assert other.handle_event(event) == agent.handle_event(event)


def test_a_state_is_named_in_snake_case() -> None:
    assert to_snake_case("WaitingForUserInput") == "waiting_for_user_input"
    assert KIND_OF_STATE[WaitingForApproval] == "waiting_for_approval"
    assert KIND_OF_STATE[Compacting] == "compacting"


def test_what_is_in_view_comes_back_and_grows_on() -> None:
    talk = SUMMED_UP.with_tokens(7)
    back = restore_conversation(snapshot_conversation(talk))
    assert (back, list(back.in_view), back.tokens) == (talk, list(talk.in_view), 7)
    action = machine(KEPT[0]).handle_event(said())
    assert machine(KEPT[0]).with_state(read_again(KEPT[0])).handle_event(said()) == action


def test_a_conversation_without_a_summary_is_stored_as_it_always_was() -> None:
    assert msgspec.json.encode(snapshot_conversation(TALK)).startswith(b'{"messages":[')
    assert msgspec.to_builtins(snapshot_conversation(TALK)).keys() == {"messages"}
    assert b"modified" not in msgspec.json.encode(
        snapshot_state(asking(Pending("a", "drop"), about="a"))
    )
    assert restore_conversation(ConversationSnapshot(tuple(TALK))) == TALK


@for_every_row("through", [-1, 0, 4])
def test_a_summary_of_messages_that_are_not_there_is_refused(through: int) -> None:
    told = replace(snapshot_conversation(TALK), compaction=Compaction(through, "sum"))
    with pytest.raises(UnknownEntryError):
        restore_conversation(told)


@for_every_row("through", [-1, 0, 2, 4])
def test_a_compaction_of_what_is_not_in_view_is_refused(through: int) -> None:
    told = snapshot_state(Compacting(SUMMED_UP, through, CompactionCause.TOO_LONG))
    with pytest.raises(UnknownEntryError):
        restore_state(told, SUMMED_UP, CONFIG)


def test_a_question_about_a_call_that_is_not_open_is_refused() -> None:
    state = asking(Pending("a", "drop"), Pending("b", "drop"), about="ab")
    told = snapshot_state(state)
    for wrong in (
        replace(told, questions=()),
        replace(told, pending_tool_calls=told.pending_tool_calls[1:]),
        replace(told, executions=told.executions[1:]),
    ):
        with pytest.raises(UnknownEntryError):
            restore_state(wrong, state.conversation, CONFIG)
    with pytest.raises(UnknownEntryError):
        restore_state(told, FULL, CONFIG)
