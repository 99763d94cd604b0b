"""Code between fences in a text, as Markdown has it: where it begins and where it ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")
_TICKS: Final = re.compile("`+")


class MarkdownSegment(Struct, frozen=True):
    """Some lines of a text: outside code, or a block of it.

    `opening` is the line that begins a block, `closing` the one that ends it: that of the text, or
    one that fits if the text ends before it; both are empty outside code.
    """

    lines: tuple[str, ...]
    opening: str = ""
    closing: str = ""

    @property
    def is_code(self) -> bool:
        """Whether it is a block of code."""
        return bool(self.opening)


def split_fenced_code(text: str, *, only_flush: bool = False) -> Iterator[MarkdownSegment]:
    """The text, piece by piece.

    Args:
        text: the text.
        only_flush: whether only a fence without spaces before it begins a block: it does so
            wherever it stands, while an indented one may belong to a list.
    """
    lines: list[str] = []
    opening = fence = ""
    for line in text.split("\n"):
        found = _FENCE.fullmatch(line)
        if fence:
            if found is not None and found[1].startswith(fence) and not found[2].strip():
                yield MarkdownSegment(tuple(lines), opening, line)
                lines, opening, fence = [], "", ""
                continue
        elif (
            found is not None
            and not (found[1][0] == "`" and "`" in found[2])
            and not (only_flush and line.startswith(" "))
        ):
            if lines:
                yield MarkdownSegment(tuple(lines))
            lines, opening, fence = [], line, found[1]
            continue
        lines.append(line)
    if lines or fence:
        yield MarkdownSegment(tuple(lines), opening, fence)


def make_code_block(text: str, language: str = "") -> str:
    """The text as a block of code: its fence is longer than any run of backticks inside."""
    longest = max(map(len, _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
