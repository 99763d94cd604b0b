"""Threads of tasks fold like all others: a snapshot at any cut and the tail equal the whole."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from core.task.random_tasks import random_event, random_settings, random_task
from thread.journals import ID, OTHER_ID, at, fold_of, random_fact, records_of, write
from thread.test_snapshots import assert_same, extended, head_of, restored
from treadle.core.actions import WaitForInput
from treadle.core.events import LlmEvent, UserInput
from treadle.core.llm import Usage
from treadle.core.messages import Message
from treadle.core.task.events import TaskGiven
from treadle.core.task.machine import TaskMachine, TaskState
from treadle.core.task.table import State
from treadle.core.tools import RiskLevel
from treadle.thread.codec import Entry, Event, UnknownEntryError, decode_entry, encode_entry
from treadle.thread.facts import (
    FORMAT_VERSION,
    ChildStarted,
    Configured,
    Granted,
    InputQueued,
    ThreadCreated,
)
from treadle.thread.fold import TASK, ThreadFold
from treadle.thread.snapshot import decode_snapshot, encode_snapshot, restore_fold

HEADER: Final = ThreadCreated(
    FORMAT_VERSION, ID, TASK, "treadle library", parent=OTHER_ID, parent_call="a", depth=1
)


def machine_of(fold: ThreadFold) -> TaskMachine:
    assert isinstance(fold.machine, TaskMachine)
    return fold.machine


def random_entry(random: Random, fold: ThreadFold, clock: int) -> Entry:
    """An event that is stored, or a fact."""
    if random.random() < 0.2:
        fact = random_fact(random)
        if isinstance(fact, Configured | InputQueued):
            granted = Granted("edit", random.choice((*RiskLevel,)))
            return random.choice((granted, ChildStarted(f"c{clock}", OTHER_ID)))
        return fact
    event: Any = random_event(random, machine_of(fold), clock)
    while not isinstance(event, Event):
        event = random_event(random, machine_of(fold), clock)
    if isinstance(event, LlmEvent.Completed) and event.response.usage is not None:
        cost = Decimal(random.randrange(9)) / 100
        usage = Usage(event.response.usage.input_tokens, 5, cost_usd=cost)
        event = replace(event, response=replace(event.response, usage=usage))
    return event


def random_journal(random: Random, count: int) -> list[tuple[Entry, ...]]:
    """Writes of a task that gets on: what its machine refuses with an error is not in it."""
    fold = ThreadFold(HEADER)
    entries: list[Entry] = []
    begin: list[Entry] = [HEADER, Configured(random_settings(random)), random_task(random)]
    while len(entries) < count:
        entry, _ = encode_entry(begin.pop(0) if begin else random_entry(random, fold, len(entries)))
        try:
            fold.apply(len(entries) + 1, at(len(entries)), entry)
        except UnknownEntryError:
            continue
        entries.append(entry)
    batches: list[tuple[Entry, ...]] = []
    while entries:
        size = random.choice((1, 1, 2, 3))
        batches.append(tuple(entries[:size]))
        del entries[:size]
    return batches


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=True), st.integers(3, 60))
def test_a_snapshot_of_a_task_at_any_cut_and_the_tail_equal_the_whole_fold(
    random: Random, count: int
) -> None:
    data, head = write(random_journal(random, count))
    records = records_of(data)
    whole = fold_of(records)
    for cut in range(1, head.seq + 1):
        taken = encode_snapshot(fold_of(records[:cut]), head_of(data, cut))
        assert_same(restored(taken), fold_of(records[:cut]))
        again = extended(restored(taken), records[cut:])
        assert_same(again, whole)
        assert again.children == whole.children
        assert again.usage == whole.usage


def test_random_tasks_stand_in_every_state_that_waits_when_the_snapshot_is_taken() -> None:
    found: dict[str, int] = {}
    extras = costs = summaries = 0
    for seed in range(120):
        records = records_of(write(random_journal(Random(seed), 60))[0])
        fold = fold_of(records[:1])
        for record in records[1:]:
            extended(fold, [record])
            found[machine_of(fold).state_name] = found.get(machine_of(fold).state_name, 0) + 1
        extras += bool(machine_of(fold).memory.extra)
        costs += bool(fold.usage.cost_usd)
        summaries += fold.conversation.compaction is not None
    assert {*State} <= {*found}, "Idle is that of a thread before its task"
    assert {"Gate", "Parked"} <= {*found}
    assert min(extras, costs, summaries) > 0


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=True), st.integers(3, 40))
def test_a_task_that_is_folded_again_owes_what_the_live_one_asked_for(
    random: Random, count: int
) -> None:
    records = records_of(write(random_journal(random, count))[0])
    fold = ThreadFold(HEADER)
    for record in records:
        action = fold.apply(record.seq, record.at, decode_entry(record.event))
        owed = fold_of(records[: record.seq]).machine.obligations()
        assert owed == fold.machine.obligations()
        moved = isinstance(decode_entry(record.event), Event) and machine_of(fold).path
        if moved and not isinstance(action, WaitForInput):
            assert owed == action


def test_a_task_cannot_hold_what_only_a_conversation_has() -> None:
    records: Sequence[Entry] = (HEADER, Configured(random_settings(Random(1))))
    fold = fold_of(records_of(write([records])[0]))
    before = fold.state
    action = fold.apply(3, at(3), UserInput(Message.user("hello")))
    assert isinstance(action, WaitForInput)
    assert fold.state == before


def test_a_conversation_that_holds_an_event_of_a_task_is_not_folded() -> None:
    fold = ThreadFold(replace(HEADER, machine="chat"))
    with pytest.raises(UnknownEntryError, match="a conversation holds an event of a task"):
        fold.apply(1, at(1), TaskGiven("weave"))
    assert not isinstance(fold.state, TaskState)


def test_a_snapshot_that_has_lost_its_task_gives_nothing() -> None:
    data, _ = write(random_journal(Random(7), 30))
    taken = encode_snapshot(fold_of(records_of(data)), head_of(data, 30))
    snapshot = decode_snapshot(taken)
    assert snapshot is not None
    assert snapshot.task is not None
    assert restore_fold(snapshot) is not None
    assert restore_fold(replace(snapshot, task=None)) is None
