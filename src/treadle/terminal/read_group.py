"""Calls that only look at files, one behind the other: together they are one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from treadle.app.threads.call_arguments import read_arguments
from treadle.core.messages import ToolCall
from treadle.core.tool_families import ToolKind, kind_of
from treadle.terminal.call_text import CallResultText, to_single_line
from treadle.terminal.live_lines import crop_text
from treadle.terminal.ports import StyledLine

_LOOKS: Final = {
    ToolKind.READ: ("read 1 file", "read {} files"),
    ToolKind.SEARCH: ("searched once", "searched {} times"),
    ToolKind.LIST: ("listed 1 folder", "listed {} folders"),
}


class EndedLook(Struct, frozen=True):
    """A call that has ended well; `took_s` is `None` if nobody knows."""

    call: ToolCall
    how: CallResultText
    took_s: float | None


def is_look(call: ToolCall) -> bool:
    """Whether it only looks at files of the workspace."""
    return kind_of(call.tool_name) in _LOOKS


def describe_looks(looks: Sequence[EndedLook]) -> tuple[str, str]:
    """What they were, in a few words, and the names of what was read, each once."""
    kinds = [kind_of(one.call.tool_name) for one in looks]
    names = [
        to_single_line(str((read_arguments(one.call) or {}).get("path", one.call.tool_name)))
        for one, kind in zip(looks, kinds, strict=True)
        if kind is ToolKind.READ
    ]
    counts = {kind: kinds.count(kind) for kind in _LOOKS}
    counts[ToolKind.READ] = len(set(names))
    parts = [
        once if counts[kind] == 1 else often.format(counts[kind])
        for kind, (once, often) in _LOOKS.items()
        if counts[kind]
    ]
    return ", ".join(parts), ", ".join(dict.fromkeys(names))


def look_line(looks: Sequence[EndedLook], width: int) -> StyledLine:
    """The same as a live line: others may join it."""
    words, names = describe_looks(looks)
    shown = crop_text(f"  {names}", width - 2 - len(words))
    return [("good", "● "), ("bold", crop_text(words, width - 2)), ("dim", shown)]
