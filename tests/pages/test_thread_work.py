"""What a thread did, as a table with bars and as a picture of its machine."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Final

from treadle.exchange.journal_files import JournalPart, make_journal_part
from treadle.pages.state_chart import STATE_COUNT_MAX, StateChart, make_chart
from treadle.pages.thread_work import MachineMove, MachineRow, ThreadWork, read_work
from treadle.pages.work_trace import BAR_WIDTH, describe_length, make_trace
from treadle.telemetry.attributes import INVOKE_AGENT, OPERATION
from treadle.telemetry.spans import FinishedSpan, SpanContext, SpanFailure
from treadle.thread.codec import decode_entry
from treadle.thread.facts import ThreadCreated

GOLDEN: Final = Path(__file__).parents[1] / "golden"
SECOND_NS: Final = 10**9


def read_golden() -> dict[str, list[JournalPart]]:
    """The journals of every thread that a released program has written, by their ids."""
    found = {path.stem: make_journal_part(path.read_bytes()) for path in GOLDEN.rglob("T-*.jsonl")}
    threads = {}
    for name, part in found.items():
        parts, base = [part], part
        while (header := decode_entry(base.records[0].event)) and isinstance(header, ThreadCreated):
            if header.base is None:
                threads[name] = parts
                break
            if header.base.thread not in found:
                break
            base = make_journal_part(found[header.base.thread].data, header.base.version)
            parts.insert(0, base)
    return threads


def test_the_moves_of_every_golden_thread_are_ways_of_its_machine_without_a_gap() -> None:
    threads = read_golden()
    assert len(threads) > 5
    missed = []
    for name, parts in threads.items():
        work = read_work(parts)
        known = {(row.before, row.after) for row in work.rows}
        # An event may leave a state as it is, whether or not the table leads there again.
        ways = [one for one in work.moves if one.after != one.before]
        strange = [one for one in ways if (one.before, one.after) not in known]
        gaps = [(one, two) for one, two in pairwise(work.moves) if one.after != two.before]
        if strange or gaps or (work.moves and work.moves[-1].after != work.state):
            missed.append((name, strange[:2], gaps[:2], work.state))
        chart = make_chart(work)
        assert sum(row.count for row in chart.gone) == len(work.moves)
        assert sum(box.is_now for box in chart.boxes) == 1
        count = sum(one.attributes.get(OPERATION) == INVOKE_AGENT for one in work.spans)
        for turn in range(1, count + 1):
            trace = make_trace(work.spans, turn)
            assert trace is not None
            assert all(row.x + row.width <= BAR_WIDTH + 4 for row in trace.rows)
        assert make_trace(work.spans, count + 1) is None
    assert missed == []


def chart_of(*rows: tuple[str, str, str], moves: tuple[MachineMove, ...] = ()) -> StateChart:
    return make_chart(ThreadWork((), moves, [MachineRow(*row) for row in rows], "A", "A"))


def test_states_stand_in_the_order_in_which_they_are_reached_and_ways_have_a_side() -> None:
    chart = chart_of(
        *(("C", "back", "A"), ("A", "go", "B"), ("B", "on", "C"), ("X", "lost", "A")),
        moves=(
            MachineMove(3, "A", "go", "B"),
            MachineMove(4, "B", "on", "C"),
            MachineMove(7, "B", "on", "C"),
        ),
    )
    assert [(box.name, box.count) for box in chart.boxes] == [
        *(("A", 0), ("B", 1), ("C", 2), ("X", 0)),
    ]
    starts = [int(re.match(r"M(\d+) ", arc.path)[1]) for arc in chart.arcs]  # type: ignore[index]
    assert sorted(starts) == [210, 210, 430, 430], "up on the left, down on the right"
    assert [(row.before, row.after, row.count, row.last) for row in chart.gone] == [
        ("A", "B", 1, 3),
        ("B", "C", 2, 7),
    ]
    assert [row.events for row in chart.others] == ["back", "lost"]
    many = chart_of(*((f"S{one}", "on", f"S{one + 1}") for one in range(STATE_COUNT_MAX + 1)))
    assert (many.boxes, len(many.others)) == ([], STATE_COUNT_MAX + 1)


def span(name: str, begin: float, end: float, parent: str = "", **more: str) -> FinishedSpan:
    context = SpanContext("trace", name)
    attributes = {OPERATION: INVOKE_AGENT} if not parent else {}
    failure = SpanFailure(more["error"]) if "error" in more else None
    times = int(begin * SECOND_NS), int(end * SECOND_NS)
    return FinishedSpan(name, context, parent, "internal", *times, attributes, error=failure)


def test_bars_stand_where_the_work_was() -> None:
    spans = (
        span("turn", 100, 110),
        span("late", 105, 110, "turn", error="timed_out"),
        span("early", 100, 102.5, "turn"),
        span("within", 101, 102, "early"),
        span("elsewhere", 0, 1, "other"),
    )
    trace = make_trace(spans, None)
    assert trace is not None
    told = [(row.name, row.depth, row.begin, row.length, row.x, row.width) for row in trace.rows]
    assert told == [
        ("The turn", 0, "", "10.0 s", 0, 1000),
        ("early", 1, "+0 ms", "2.5 s", 0, 250),
        ("within", 2, "+1.0 s", "1.0 s", 100, 100),
        ("late", 1, "+5.0 s", "5.0 s", 500, 500),
    ]
    assert [(row.outcome, row.is_failed) for row in trace.rows][-1] == ("timed out", True)
    assert trace.at == "1970-01-01T00:01:40.000000Z"
    lengths = (40_000_000, 2_500_000_000, 184 * SECOND_NS, 7500 * SECOND_NS)
    assert [*map(describe_length, lengths)] == ["40 ms", "2.5 s", "3 min 4 s", "2 h 5 min"]
