"""A transition table as a Mermaid state diagram. Pure: the same rows give the same text.

Two rules keep the picture readable without leaving anything of the table out:

- Rows between the same two states share one arrow, one line of its label for each row: Mermaid
  lays parallel arrows over each other, so that only one would be seen.
- Rows that differ only in the state they leave share one box, which names those states.

A state whose name Mermaid would not take for one gets an id; its name stands in the box.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from treadle.core.chat.table import Row
from treadle.core.events import name_of

SHARED_COUNT_MIN: Final = 3
"""As many rows that differ only in the state they leave are drawn as one."""

_RESERVED: Final = frozenset(
    {"accdescr", "acctitle", "class", "classdef", "click", "default", "direction", "hide", "href"}
    | {"note", "root_end", "root_start", "scale", "state", "statediagram", "style"}
)
"""What Mermaid reads as words of its own, in whatever case."""


class Edge(NamedTuple):
    """A row of any machine's table: the state it leaves, the one it enters, and the words for it.

    The label is Mermaid text; what somebody else chose goes through `escape` first.
    """

    source: str
    target: str
    label: str


def draw_edges(edges: Sequence[Edge], start: str, terminal: Sequence[str]) -> str:
    """The diagram's text, in the order of the edges; ends with a line break."""
    groups: dict[tuple[str, str], dict[str, None]] = {}
    for source, target, label in edges:
        groups.setdefault((target, label), {})[source] = None
    names = dict.fromkeys([start, *(name for edge in edges for name in edge[:2]), *terminal])
    taken = {name for name in names if _is_id(name)}
    ids = {name: name if name in taken else _new_id("State", taken) for name in names}
    boxes: dict[tuple[str, str], str] = {}
    arrows: dict[tuple[str, str], list[str]] = {}
    for source, target, label in edges:
        key, source = (target, label), ids[source]
        if key in boxes:
            continue
        if len(groups[key]) >= SHARED_COUNT_MIN:
            source = boxes[key] = _new_id("Shared", taken)
        arrows.setdefault((source, ids[target]), []).append(label)
    leavable = {edge.source for edge in edges}
    lines = [
        "stateDiagram-v2",
        "    %% drawn from the transition table by `treadle graph`; change the table, not this",
        *(f'    state "{escape(name)}" as {made}' for name, made in ids.items() if made != name),
        *(
            f'    state "{_states(groups[key], len(leavable))}" as {box}'
            for key, box in boxes.items()
        ),
        f"    [*] --> {ids[start]}",
        *(
            f"    {source} --> {target} : {'<br/>'.join(labels)}"
            for (source, target), labels in arrows.items()
        ),
        *(f"    {ids[name]} --> [*]" for name in terminal),
    ]
    return "\n".join(lines) + "\n"


def draw(rows: Sequence[Row]) -> str:
    """The conversation machine's diagram. A state whose rows all lead back to it is terminal."""
    edges = [Edge(row.state.__name__, row.to.__name__, _label(row)) for row in rows]
    names = dict.fromkeys(name for edge in edges for name in edge[:2])
    left = {edge.source for edge in edges if edge.target != edge.source}
    return draw_edges(edges, edges[0].source, [name for name in names if name not in left])


def escape(text: str) -> str:
    """A name as Mermaid shows it, whatever characters it holds."""
    # It takes `direction LR` for a command, wherever in a line that stands.
    plain = "-_.,()/" if "direction" in text.lower() else "-_.,()/ "
    shown = (char if char.isalnum() or char in plain else f"#{ord(char)};" for char in text)
    return "".join(shown) or "(no name)"


def _is_id(name: str) -> bool:
    is_word = name.isascii() and name.isidentifier() and name[0] != "_"
    return is_word and name.lower() not in _RESERVED


def _new_id(stem: str, taken: set[str]) -> str:
    number = 1
    while f"{stem}{number}" in taken:
        number += 1
    taken.add(f"{stem}{number}")
    return f"{stem}{number}"


def _label(row: Row) -> str:
    """`Event [guard] / Action`; an internal row has no event, an internal action no name."""
    guard = f"[{row.guard.value}]" if row.guard is not None else ""
    action = f"/ {row.action.__name__}" if row.action is not None else "/ (internal)"
    event = name_of(row.event) if row.event is not None else ""
    return " ".join(filter(None, (event, guard, action)))


def _states(left: Iterable[str], leavable_count: int) -> str:
    names = [escape(name) for name in left]
    head = "in any state" if len(names) == leavable_count else "in each of"
    return f"{head}<br/>{'<br/>'.join(names)}"
