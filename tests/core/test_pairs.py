"""Whatever happens, in every request each tool call is followed by exactly one result.

Sessions are random and hold illegal events, cancels, rejections, failures and repeated ids. The
same holds over crashes, which the tests of the thread add.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import for_every_row
from core.random_events import check_pairs, random_event
from core.samples import CONFIG, EVENTS_TRIED, machine
from treadle.core.actions import SendLlmRequest
from treadle.core.chat.states import AgentState, ShuttingDown
from treadle.core.events import AgentEvent, ShutdownRequested
from treadle.core.messages import Message, ToolCall

randoms = st.randoms(use_true_random=True)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Warnings of refused events are the point of other tests."""
    log = logging.getLogger("treadle.chat")
    log.disabled = True
    yield
    log.disabled = False


def messages_of(state: AgentState) -> tuple[Message, ...]:
    return () if isinstance(state, ShuttingDown) else tuple(state.conversation)


@settings(max_examples=150, deadline=None)
@given(randoms, st.integers(1, 60))
def test_every_request_that_leaves_the_machine_has_its_pairs_whole(
    random: Random, length: int
) -> None:
    agent = machine()
    for clock in range(length):
        action = agent.handle_event(random_event(random, agent.state, clock))
        if isinstance(action, SendLlmRequest):
            check_pairs(action.request.messages)
        owed = agent.obligations()
        if isinstance(owed, SendLlmRequest):
            check_pairs(owed.request.messages)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(EVENTS_TRIED), max_size=60))
def test_they_are_whole_too_when_events_come_without_any_sense(events: list[AgentEvent]) -> None:
    agent = machine()
    for event in events:
        action = agent.handle_event(event)
        if isinstance(action, SendLlmRequest):
            check_pairs(action.request.messages)


@settings(max_examples=100, deadline=None)
@given(randoms, st.integers(1, 60))
def test_older_states_stay_as_they_were_and_the_conversation_only_grows(
    random: Random, length: int
) -> None:
    agent = machine()
    seen: list[tuple[AgentState, tuple[Message, ...]]] = []
    for clock in range(length):
        before = messages_of(agent.state)
        seen.append((agent.state, before))
        agent.handle_event(random_event(random, agent.state, clock))
        assert messages_of(agent.state)[: len(before)] == before
    for state, messages in seen:
        assert messages_of(state) == messages


@settings(max_examples=50, deadline=None)
@given(randoms, st.integers(1, 40), st.integers(0, 39))
def test_a_session_can_fork_at_any_of_its_states(random: Random, length: int, at: int) -> None:
    agent = machine()
    states = [agent.state]
    for clock in range(length):
        agent.handle_event(random_event(random, agent.state, clock))
        states.append(agent.state)
    last = messages_of(agent.state)
    fork = machine(states[min(at, length)])
    for clock in range(20):
        action = fork.handle_event(random_event(random, fork.state, clock))
        if isinstance(action, SendLlmRequest):
            check_pairs(action.request.messages)
    assert messages_of(agent.state) == last


@settings(max_examples=50, deadline=None)
@given(randoms, st.integers(1, 60))
def test_the_same_events_give_the_same_actions_and_states(random: Random, length: int) -> None:
    first, second = machine(), machine()
    for clock in range(length):
        event = random_event(random, first.state, clock)
        assert first.handle_event(event) == second.handle_event(event)
        assert first.state == second.state


@settings(max_examples=50, deadline=None)
@given(randoms, st.integers(0, 40))
def test_shutting_down_succeeds_at_any_moment_and_is_final(random: Random, length: int) -> None:
    agent = machine()
    for clock in range(length):
        agent.handle_event(random_event(random, agent.state, clock))
    agent.handle_event(ShutdownRequested())
    for event in EVENTS_TRIED:
        agent.handle_event(event)
        assert agent.state == ShuttingDown()


def test_random_sessions_visit_every_state_that_is_seen_from_outside() -> None:
    random, agent = Random(1), machine()
    visits: Counter[str] = Counter()
    longest = 0
    for clock in range(3000):
        agent.handle_event(random_event(random, agent.state, clock))
        visits[type(agent.state).__name__] += 1
        longest = max(longest, len(messages_of(agent.state)))
    assert set(visits) == {
        "WaitingForUserInput",
        "CallingLlm",
        "ExecutingTools",
        "PostToolsHook",
        "Error",
        "WaitingForApproval",
        "Compacting",
    }
    assert min(visits.values()) > 30
    assert longest > 300
    assert CONFIG.max_retries > 0


@for_every_row(
    "messages",
    [
        [Message.tool(ToolCall("a", "look"), "alone")],
        [Message.assistant("", (ToolCall("a", "look"),))],
        [Message.assistant("", (ToolCall("a", "look"),)), Message.user("too early")],
        [
            Message.assistant("", (ToolCall("a", "look"),)),
            Message.tool(ToolCall("a", "look"), "1"),
            Message.tool(ToolCall("a", "look"), "2"),
        ],
        [
            Message.assistant("", (ToolCall("a", "x"), ToolCall("b", "x"))),
            Message.tool(ToolCall("b", "x"), "2"),
            Message.tool(ToolCall("a", "x"), "1"),
        ],
        [
            Message.assistant("", (ToolCall("a", "look"),)),
            Message.tool(ToolCall("a", "look"), "1"),
            Message.assistant("", (ToolCall("a", "look"),)),
            Message.tool(ToolCall("a", "look"), "1"),
        ],
        [Message.assistant("", (ToolCall("", "x"),)), Message.tool(ToolCall("", "x"), "1")],
    ],
)
def test_the_check_itself_sees_each_way_a_pair_can_break(messages: list[Message]) -> None:
    with pytest.raises(AssertionError):
        check_pairs(messages)
