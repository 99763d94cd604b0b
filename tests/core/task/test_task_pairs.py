"""Whatever happens to a task, every request that leaves it is whole, and nothing raises.

Tasks, graphs, answers, decisions and failures are random; a quarter of the events make no sense.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from core.random_events import check_pairs
from core.task.random_tasks import random_event, random_settings, random_task
from treadle.core.actions import WAIT, AgentAction, ExecuteTools, SendLlmRequest, Summarize
from treadle.core.events import CallAssessed, ToolCompleted
from treadle.core.task.events import StateCompleted
from treadle.core.task.machine import TaskMachine
from treadle.core.task.table import State
from treadle.core.tools import ToolExecutionStatus
from treadle.errors import InvalidTransition, OwnershipViolation

randoms = st.randoms(use_true_random=True)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Warnings of refused events are the point of other tests."""
    log = logging.getLogger("treadle.task")
    log.disabled = True
    yield
    log.disabled = False


def fresh(random: Random) -> TaskMachine:
    return TaskMachine(random_settings(random))


def lives(random: Random, machine: TaskMachine, length: int) -> Iterator[tuple[Any, AgentAction]]:
    """A task and what happens to it, each with the action that follows."""
    event: Any = random_task(random)
    for clock in range(length):
        try:
            action = machine.handle_event(event)
        except (InvalidTransition, OwnershipViolation):
            assert isinstance(event, StateCompleted)
            action = WAIT
        yield event, action
        event = random_event(random, machine, clock)


def check_request(action: AgentAction, machine: TaskMachine) -> None:
    if isinstance(action, SendLlmRequest):
        messages = action.request.messages
        check_pairs(messages)
        for message in messages:
            assert message.role != "assistant" or message.content.strip() or message.tool_calls
    elif isinstance(action, Summarize):
        assert action.request.tools == ()
        check_pairs(action.request.messages)


@settings(max_examples=250, deadline=None)
@given(randoms, st.integers(1, 70))
def test_every_request_that_leaves_a_task_is_whole_and_nothing_raises(
    random: Random, length: int
) -> None:
    machine = fresh(random)
    for event, action in lives(random, machine, length):
        check_request(action, machine)
        owed = machine.obligations()
        check_request(owed, machine)
        if machine.is_at_rest:
            continue
        if action != WAIT and not isinstance(event, CallAssessed):
            assert owed == action


@settings(max_examples=200, deadline=None)
@given(randoms, st.integers(1, 70))
def test_whatever_happens_no_call_runs_without_the_yes_it_needs_and_no_id_runs_twice(
    random: Random, length: int
) -> None:
    machine = fresh(random)
    open_ids, ended = set[str](), set[str]()
    for event, action in lives(random, machine, length):
        if isinstance(event, ToolCompleted) and event.call_id in open_ids:
            ended.add(event.call_id)
        if isinstance(action, ExecuteTools):
            assert ended.isdisjoint(call.id for call in action.calls)
            for call, status in machine.round:
                if isinstance(status, ToolExecutionStatus.Pending) and status.approved is UNSET:
                    assert machine.config.make_question(call, None) is None
        open_ids = {call.id for call, _ in machine.round}


@settings(max_examples=60, deadline=None)
@given(randoms, st.integers(1, 60))
def test_older_states_stay_as_they_were_and_messages_only_grow(random: Random, length: int) -> None:
    machine = fresh(random)
    seen = []
    for _ in lives(random, machine, length):
        memory = machine.memory
        copies = (tuple(memory.transcript), tuple(memory.history), tuple(memory.trace))
        if seen:
            earlier = seen[-1][1]
            assert copies[0][: len(earlier[0])] == earlier[0]
            assert copies[2][: len(earlier[2])] == earlier[2]
        seen.append((memory, copies))
    for memory, copies in seen:
        assert (tuple(memory.transcript), tuple(memory.history), tuple(memory.trace)) == copies


@settings(max_examples=60, deadline=None)
@given(randoms, st.integers(1, 50), st.integers(0, 49))
def test_a_task_can_go_on_from_any_of_its_states(random: Random, length: int, index: int) -> None:
    machine = fresh(random)
    states = [machine.state for _ in lives(random, machine, length)]
    last = tuple(machine.conversation)
    fork = machine.with_state(states[min(index, length - 1)])
    for clock in range(25):
        try:
            action = fork.handle_event(random_event(random, fork, clock))
        except (InvalidTransition, OwnershipViolation):
            continue
        check_request(action, fork)
    assert tuple(machine.conversation) == last


@settings(max_examples=60, deadline=None)
@given(randoms, st.integers(1, 60))
def test_the_same_random_events_lead_to_the_same_states_and_actions(
    random: Random, length: int
) -> None:
    machine = fresh(random)
    again = TaskMachine(machine.config)
    for event, action in lives(random, machine, length):
        try:
            assert again.handle_event(event) == action
        except (InvalidTransition, OwnershipViolation):
            assert action == WAIT
        assert again.state == machine.state


@settings(max_examples=60, deadline=None)
@given(randoms, st.integers(1, 60))
def test_steps_time_and_usage_never_run_backwards(random: Random, length: int) -> None:
    machine = fresh(random)
    before = machine.memory
    for _ in lives(random, machine, length):
        memory = machine.memory
        assert memory.step >= before.step or "Planning" in machine.custom_states
        assert memory.elapsed_s >= before.elapsed_s
        assert memory.total_usage.total_tokens >= before.total_usage.total_tokens
        assert memory.moves >= before.moves
        assert memory.retry_count <= memory.config.max_retries
        assert memory.retry_count >= before.retry_count
        before = memory


def test_random_tasks_visit_every_state_and_both_ends() -> None:
    random = Random(1)
    visits: Counter[str] = Counter()
    for _ in range(600):
        machine = fresh(random)
        for _ in lives(random, machine, 60):
            visits.update(machine.path)
    assert {str(state) for state in State} | {"Gate", "Parked"} == set(visits)
    assert min(visits.values()) >= 3, visits
