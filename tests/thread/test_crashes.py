"""A session that dies and is folded again, anywhere, goes on as if it had not.

A crash keeps all of the journal, or loses the last write in part; the machine is then made of what
is left. Whatever the machine asks for after that is what it would have asked for before.
"""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from core.random_events import check_pairs, random_event
from thread.journals import HEADER, at, fold_of, random_fact
from treadle.core.actions import AgentAction, SendLlmRequest
from treadle.core.events import DURABLE
from treadle.thread.chat_state import snapshot_state
from treadle.thread.codec import Entry, encode_entry
from treadle.thread.fold import ThreadFold
from treadle.thread.record import Head, JournalCondition, encode_batch, scan_journal


class Process:
    """What a process does with one thread, as far as the core and the journal are concerned."""

    def __init__(self, data: bytes) -> None:
        found = scan_journal(data)
        assert found.condition in (JournalCondition.CLEAN, JournalCondition.TORN)
        self.data = data[: found.head.size]
        self.head = found.head
        self.fold = fold_of(found.records)
        self.staged: list[bytes] = []
        self.last_write_at = self.head.size

    def take(self, entry: Entry) -> AgentAction | None:
        fed, stored = encode_entry(entry)
        self.staged.append(stored)
        return self.fold.apply(self.head.seq + len(self.staged), at(self.head.seq), fed)

    def commit(self) -> None:
        if self.staged:
            lines, head = encode_batch(self.head, at(self.head.seq), self.staged)
            self.last_write_at = len(self.data)
            self.data += lines
            self.head, self.staged = head, []


def newborn() -> Process:
    lines, _ = encode_batch(Head(), at(0), [encode_entry(HEADER)[1]])
    return Process(lines)


def check(action: AgentAction | None, process: Process) -> None:
    for sent in (action, process.fold.machine.obligations()):
        if isinstance(sent, SendLlmRequest):
            check_pairs(sent.request.messages)


@settings(max_examples=100, deadline=None)
@given(st.randoms(use_true_random=True), st.integers(1, 80))
def test_pairs_stay_whole_over_crashes_and_lost_writes(random: Random, length: int) -> None:
    process = newborn()
    for clock in range(length):
        event: Entry
        if random.random() < 0.1:
            event = random_fact(random)
        else:
            while not isinstance(
                event := random_event(random, process.fold.state, clock),  # type: ignore[assignment]
                DURABLE,
            ):
                process.fold.machine.handle_event(event)  # type: ignore[arg-type]
        check(process.take(event), process)
        if random.random() < 0.7:
            process.commit()
        if random.random() < 0.15:
            last = process.last_write_at
            size = random.choice((len(process.data), random.randint(last, len(process.data))))
            process = Process(process.data[: max(size, newborn().head.size)])
            check(None, process)


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=True), st.integers(1, 60))
def test_a_process_that_starts_anew_owes_what_the_dead_one_owed(
    random: Random, length: int
) -> None:
    process = newborn()
    for clock in range(length):
        event = random_event(random, process.fold.state, clock)
        if not isinstance(event, DURABLE):
            process.fold.machine.handle_event(event)
            continue
        process.take(event)
        process.commit()
        anew = Process(process.data)
        assert anew.fold.machine.obligations() == process.fold.machine.obligations()
        assert snapshot_state(anew.fold.state) == snapshot_state(process.fold.state)
        assert anew.fold.document() == process.fold.document()


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=True), st.integers(1, 60))
def test_two_folds_of_one_journal_are_equal_in_every_part(random: Random, length: int) -> None:
    process = newborn()
    for clock in range(length):
        event = random_event(random, process.fold.state, clock)
        if isinstance(event, DURABLE):
            process.take(event)
    process.commit()
    one, other = Process(process.data).fold, Process(process.data).fold
    assert one.state == other.state
    assert [getattr(one, name) for name in _parts()] == [getattr(other, name) for name in _parts()]


def _parts() -> list[str]:
    return [name for name in ThreadFold.__slots__ if not name.startswith("_")]
