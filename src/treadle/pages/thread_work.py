"""What a thread did: its work as spans, and the moves of its machine. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from treadle.core.chat.table import TRANSITIONS
from treadle.core.events import name_of
from treadle.core.task.graph import build_graph_table
from treadle.core.task.machine import TaskMachine
from treadle.core.task.table import State, build_transition_table
from treadle.exchange.journal_files import JournalPart
from treadle.telemetry.span_fold import SpanFold
from treadle.telemetry.spans import FinishedSpan
from treadle.thread.codec import Entry, UnknownEntryError, decode_entry, is_event
from treadle.thread.facts import ThreadCreated
from treadle.thread.fold import ThreadFold

INTERNAL: Final = "(internal)"
"""What stands for the event of a row that has none."""


class MachineMove(Struct, frozen=True):
    """The machine's way from a state to the next, which may be the same one."""

    version: int
    before: str
    event: str
    after: str


class MachineRow(Struct, frozen=True):
    """A row of the table of a thread's machine: with this event it can go there."""

    before: str
    event: str
    after: str


class ThreadWork(Struct, frozen=True):
    """What a thread did; of a fork, since it began.

    Args:
        spans: its turns, and what was done in them.
        moves: of its machine.
        rows: the table of its machine.
        start: the state in which that begins.
        state: the one in which it is.
        problem: why that is not all of it; empty if it is.
    """

    spans: Sequence[FinishedSpan]
    moves: Sequence[MachineMove]
    rows: Sequence[MachineRow]
    start: str
    state: str
    problem: str = ""


NO_WORK: Final = ThreadWork((), (), (), "", "")


def read_work(parts: Sequence[JournalPart]) -> ThreadWork:
    """What a thread did.

    Args:
        parts: its journal, behind those that it goes on from.

    Raises:
        UnknownEntryError: this version cannot read how it begins.
    """
    fold: ThreadFold | None = None
    for part in parts[:-1]:
        fold = _begin(part, fold)
        for record in part.records:
            fold.apply(record.seq, record.at, decode_entry(record.event))
    fold = _begin(parts[-1], fold)
    spans, moves, problem = SpanFold(fold), list[MachineMove](), ""
    for record in parts[-1].records:
        before = fold.machine.state_name
        try:
            spans.apply(record)
        except UnknownEntryError as error:
            problem = f"record {record.seq} cannot be read by this version: {error.message}"
            break
        entry = decode_entry(record.event)
        if is_event(entry):
            moves += _list_moves(fold, record.seq, before, entry)
    listed = [*spans.take_finished(), *spans.list_unfinished()]
    rows, start = _list_rows(fold)
    return ThreadWork(listed, moves, rows, start, fold.machine.state_name, problem)


def _begin(part: JournalPart, base: ThreadFold | None) -> ThreadFold:
    header = decode_entry(part.records[0].event)
    if not isinstance(header, ThreadCreated):
        raise UnknownEntryError("record 1 does not create a thread")
    return ThreadFold(header) if base is None else base.make_fork(header)


def _list_moves(fold: ThreadFold, version: int, before: str, entry: Entry) -> Iterator[MachineMove]:
    """The ways that an event has led; a state that is left at once is one of them."""
    machine, event = fold.machine, name_of(type(entry))
    after = machine.state_name
    if isinstance(machine, TaskMachine):
        for state in machine.path:
            yield MachineMove(version, before, event, state)
            before = state
        return
    rows = [row for row in TRANSITIONS if row.state.__name__ == before]
    reached = [row.to.__name__ for row in rows if row.event is type(entry)]
    if after in reached:
        yield MachineMove(version, before, event, after)
        return
    for between in reached:
        if (between, after) in _INTERNAL_WAYS:
            yield MachineMove(version, before, event, between)
            yield MachineMove(version, between, INTERNAL, after)
            return
    if after != before:
        yield MachineMove(version, before, event, after)


_INTERNAL_WAYS: Final = frozenset(
    (row.state.__name__, row.to.__name__) for row in TRANSITIONS if row.event is None
)


def _list_rows(fold: ThreadFold) -> tuple[list[MachineRow], str]:
    machine = fold.machine
    if not isinstance(machine, TaskMachine):
        rows = [
            MachineRow(
                row.state.__name__,
                INTERNAL if row.event is None else name_of(row.event),
                row.to.__name__,
            )
            for row in TRANSITIONS
        ]
        return rows, TRANSITIONS[0].state.__name__
    graph = machine.memory.graph
    table = build_transition_table() if graph is None else build_graph_table(graph)
    return [MachineRow(*row) for row in table.rows], str(State.IDLE)
