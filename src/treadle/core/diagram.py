"""A transition table as a Mermaid state diagram. Pure: the same rows give the same text.

Two rules keep the picture readable without leaving anything of the table out:

- Rows between the same two states share one arrow, one line of its label for each row: Mermaid
  lays parallel arrows over each other, so that only one would be seen.
- Rows that differ only in the state they leave share one box, which names those states.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from treadle.core.chat.table import Row
from treadle.core.events import name_of

SHARED_COUNT_MIN: Final = 3
"""As many rows that differ only in the state they leave are drawn as one."""


def draw(rows: Sequence[Row]) -> str:
    """The diagram's text, in the order of the table; ends with a line break.

    The first row leaves the initial state. A state whose rows all lead back to it is terminal.
    """
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(_beside_state(row), []).append(row)
    boxes: dict[tuple[object, ...], str] = {}
    arrows: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        key, source = _beside_state(row), row.state.__name__
        if key in boxes:
            continue
        if len(groups[key]) >= SHARED_COUNT_MIN:
            source = boxes[key] = f"Shared{len(boxes) + 1}"
        arrows.setdefault((source, row.to.__name__), []).append(_label(row))
    lines = [
        "stateDiagram-v2",
        "    %% drawn from the transition table by `treadle graph`; change the table, not this",
        *(f'    state "{_states(groups[key], rows)}" as {box}' for key, box in boxes.items()),
        f"    [*] --> {rows[0].state.__name__}",
        *(
            f"    {source} --> {target} : {'<br/>'.join(labels)}"
            for (source, target), labels in arrows.items()
        ),
        *(f"    {name} --> [*]" for name in _terminal(rows)),
    ]
    return "\n".join(lines) + "\n"


def _beside_state(row: Row) -> tuple[object, ...]:
    return row.event, row.guard, row.to, row.action


def _label(row: Row) -> str:
    """`Event [guard] / Action`; an internal row has no event, an internal action no name."""
    guard = f"[{row.guard.value}]" if row.guard is not None else ""
    action = f"/ {row.action.__name__}" if row.action is not None else "/ (internal)"
    event = name_of(row.event) if row.event is not None else ""
    return " ".join(filter(None, (event, guard, action)))


def _states(group: Iterable[Row], rows: Iterable[Row]) -> str:
    left = list(dict.fromkeys(row.state.__name__ for row in group))
    everything = dict.fromkeys(row.state.__name__ for row in rows)
    head = "in any state" if len(left) == len(everything) else "in each of"
    return f"{head}<br/>{'<br/>'.join(left)}"


def _terminal(rows: Sequence[Row]) -> list[str]:
    names = dict.fromkeys(kind.__name__ for row in rows for kind in (row.state, row.to))
    leavable = {row.state.__name__ for row in rows if row.to is not row.state}
    return [name for name in names if name not in leavable]
