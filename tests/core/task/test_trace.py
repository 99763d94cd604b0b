"""The trace: an append-only log that is read as a table, as JSON, or state by state."""

from __future__ import annotations

import json

import pytest

from treadle.core.task.trace import DATA_LENGTH_SHOWN, Trace, TraceEntry

FIRST = TraceEntry(0, "Idle", "AGENT_STARTED", "a task", "2026-11-21T08:15:30.123456Z")
SECOND = TraceEntry(1, "Planning", "STEP_START", "x" * 100, "2026-11-21T08:15:31.000000Z")
THIRD = TraceEntry(12, "Planning", "LLM_TOOL_CALL", "two\nlines", "")
TRACE = Trace([FIRST, SECOND, THIRD])


def test_its_length_is_the_number_of_entries() -> None:
    assert (len(Trace()), len(TRACE)) == (0, 3)


def test_the_entries_of_a_state_are_found_by_its_exact_name() -> None:
    assert TRACE.for_state("Planning") == [SECOND, THIRD]
    assert TRACE.for_state("planning") == []


def test_as_json_it_is_an_array_of_whole_entries() -> None:
    assert json.loads(Trace().to_json()) == []
    told = json.loads(TRACE.to_json())
    assert [TraceEntry(**entry) for entry in told] == [*TRACE]


def test_as_a_table_each_entry_is_a_line_and_long_data_is_cut() -> None:
    lines = TRACE.to_table().splitlines()
    assert lines[0].split() == ["step", "time", "state", "event", "data"]
    assert lines[1].split() == ["0", "08:15:30.123", "Idle", "AGENT_STARTED", "a", "task"]
    assert lines[2].endswith("x" * (DATA_LENGTH_SHOWN - 1) + "…")
    assert lines[3].split() == ["12", "Planning", "LLM_TOOL_CALL", "two", "lines"]
    assert (
        len({line.index(word) for line, word in zip(lines[1:], ["I", "P", "P"], strict=True)}) == 1
    )


def test_it_prints_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    TRACE.print()
    assert capsys.readouterr().out == TRACE.to_table() + "\n"


def test_a_longer_trace_leaves_the_shorter_one_as_it_was() -> None:
    shorter = Trace([FIRST])
    longer = shorter.append(SECOND)
    assert ([*shorter], [*longer]) == ([FIRST], [FIRST, SECOND])
    assert longer.starts_with(shorter)
    assert not shorter.starts_with(longer)
    assert not Trace([SECOND]).starts_with(shorter)
