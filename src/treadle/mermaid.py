"""Mermaid state diagrams. Pure: the same edges give the same text.

Two rules keep the picture readable without leaving anything of the table out:

- Edges between the same two states share one arrow, one line of its label for each: Mermaid lays
  parallel arrows over each other, so that only one would be seen.
- Edges that differ only in the state they leave share one box, which names those states.

A state whose name Mermaid would not take for one gets an id; its name stands in the box.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

SHARED_COUNT_MIN: Final = 3
"""As many rows that differ only in the state they leave are drawn as one."""

_RESERVED: Final = frozenset(
    {"accdescr", "acctitle", "class", "classdef", "click", "default", "direction", "hide", "href"}
    | {"note", "root_end", "root_start", "scale", "state", "statediagram", "style"}
)
"""What Mermaid reads as words of its own, in whatever case."""


class Edge(NamedTuple):
    """A row of any machine's table: the state it leaves, the one it enters, and the words for it.

    The label is Mermaid text; what somebody else chose goes through `escape_label` first.
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
    ids = {name: name if name in taken else _make_id("State", taken) for name in names}
    boxes: dict[tuple[str, str], str] = {}
    arrows: dict[tuple[str, str], list[str]] = {}
    for source, target, label in edges:
        key, source = (target, label), ids[source]
        if key in boxes:
            continue
        if len(groups[key]) >= SHARED_COUNT_MIN:
            source = boxes[key] = _make_id("Shared", taken)
        arrows.setdefault((source, ids[target]), []).append(label)
    leavable = {edge.source for edge in edges}
    lines = [
        "stateDiagram-v2",
        "    %% drawn from the transition table by `treadle graph`; change the table, not this",
        *(
            f'    state "{escape_label(name)}" as {made}'
            for name, made in ids.items()
            if made != name
        ),
        *(
            f'    state "{_format_states(groups[key], len(leavable))}" as {box}'
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


def escape_label(text: str) -> str:
    """A name as Mermaid shows it, whatever characters it holds."""
    # It takes `direction LR` for a command, wherever in a line that stands.
    plain = "-_.,()/" if "direction" in text.lower() else "-_.,()/ "
    shown = (char if char.isalnum() or char in plain else f"#{ord(char)};" for char in text)
    return "".join(shown) or "(no name)"


def _is_id(name: str) -> bool:
    is_word = name.isascii() and name.isidentifier() and name[0] != "_"
    return is_word and name.lower() not in _RESERVED


def _make_id(stem: str, taken: set[str]) -> str:
    number = 1
    while f"{stem}{number}" in taken:
        number += 1
    taken.add(f"{stem}{number}")
    return f"{stem}{number}"


def _format_states(left: Iterable[str], leavable_count: int) -> str:
    names = [escape_label(name) for name in left]
    head = "in any state" if len(names) == leavable_count else "in each of"
    return f"{head}<br/>{'<br/>'.join(names)}"
