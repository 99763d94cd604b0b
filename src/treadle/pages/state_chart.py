"""The machine of a thread as a picture of lines and arcs, with the ways that it went. Pure.

The states stand below each other, in the order in which they are reached. A way down is an arc on
the right, a way up one on the left; both are the wider the farther they lead, so that none hides
another. Whatever graph somebody has made is drawn like that.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from treadle.pages.thread_work import MachineMove, MachineRow, ThreadWork

STATE_COUNT_MAX: Final = 40
"""States of a machine that is drawn; a larger one is a table alone."""
NAME_LENGTH_MAX: Final = 24
ROW_HEIGHT: Final = 52
BOX_WIDTH: Final = 220
BOX_HEIGHT: Final = 28
MIDDLE: Final = 320
"""Where the boxes have their middle; the picture is twice as wide."""


class StateBox(Struct, frozen=True):
    """A state: its name, how often it was entered, where its box begins, whether it is in it."""

    name: str
    count: int
    y: int
    is_now: bool


class WayArc(Struct, frozen=True):
    """A way from a state to another: its path, how often it was gone, where that is said."""

    path: str
    count: int
    x: int
    y: int


class WayRow(Struct, frozen=True):
    """A way as a line of the table: on which events, how often, at which version the last time."""

    before: str
    after: str
    events: str
    count: int
    last: int


class StateChart(Struct, frozen=True):
    """The picture, and the same as rows: first the ways that were gone."""

    boxes: Sequence[StateBox]
    arcs: Sequence[WayArc]
    height: int
    gone: Sequence[WayRow]
    others: Sequence[WayRow]


def make_chart(work: ThreadWork) -> StateChart:
    """The states of a thread's machine, and the ways between them."""
    names = _order_states(work.rows, work.start, work.moves)
    entered = Counter(move.after for move in work.moves if move.after != move.before)
    gone = Counter((move.before, move.after) for move in work.moves)
    ways = dict.fromkeys((row.before, row.after) for row in work.rows) | dict.fromkeys(gone)
    boxes, arcs = list[StateBox](), list[WayArc]()
    if len(names) <= STATE_COUNT_MAX:
        places = {name: ROW_HEIGHT * index + 8 for index, name in enumerate(names)}
        boxes = [
            StateBox(_cut(name), entered[name], y, name == work.state) for name, y in places.items()
        ]
        # What was gone is drawn last: over all else.
        for way in sorted(ways, key=lambda one: gone[one] > 0):
            if way[0] != way[1]:
                arcs.append(_draw_arc(places[way[0]], places[way[1]], gone[way]))
    rows = _list_ways(work, [*ways])
    return StateChart(
        boxes,
        arcs,
        ROW_HEIGHT * len(boxes) + 8,
        [row for row in rows if row.count],
        [row for row in rows if not row.count],
    )


def _order_states(
    rows: Sequence[MachineRow], start: str, moves: Sequence[MachineMove]
) -> list[str]:
    """Each state behind one that leads to it: as far from the start as there are ways."""
    ways = defaultdict(list)
    for row in rows:
        ways[row.before].append(row.after)
    found, todo = {start: None}, deque((start,))
    while todo:
        for name in ways[todo.popleft()]:
            if name not in found:
                found[name] = None
                todo.append(name)
    known = [
        *((row.before, row.after) for row in rows),
        *((one.before, one.after) for one in moves),
    ]
    return [*(found | dict.fromkeys(name for way in known for name in way))]


def _draw_arc(start: int, end: int, count: int) -> WayArc:
    is_down = end > start
    side = 1 if is_down else -1
    edge = MIDDLE + side * BOX_WIDTH // 2
    span = abs(end - start) // ROW_HEIGHT
    reach = side * min(200, 22 + 16 * span)
    # It leaves a box below its middle and enters one above, so that ends can be told apart.
    y1, y2 = start + BOX_HEIGHT // 2 + side * 5, end + BOX_HEIGHT // 2 - side * 5
    path = f"M{edge} {y1}C{edge + reach} {y1} {edge + reach} {y2} {edge} {y2}"
    return WayArc(path, count, edge + reach * 3 // 4, (y1 + y2) // 2 + 4)


def _list_ways(work: ThreadWork, ways: Sequence[tuple[str, str]]) -> list[WayRow]:
    moves: dict[tuple[str, str], list[MachineMove]] = {way: [] for way in ways}
    events: dict[tuple[str, str], dict[str, None]] = {way: {} for way in ways}
    for move in work.moves:
        moves[move.before, move.after].append(move)
        events[move.before, move.after][move.event] = None
    for row in work.rows:
        way = row.before, row.after
        if not moves[way]:
            events[way][row.event] = None
    return [
        WayRow(*way, ", ".join(events[way]), len(gone), gone[-1].version if gone else 0)
        for way, gone in moves.items()
    ]


def _cut(name: str) -> str:
    return name if len(name) <= NAME_LENGTH_MAX else name[: NAME_LENGTH_MAX - 1] + "…"
