"""Unified diffs, coloured, with the numbers of the lines where they are known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from treadle.terminal.call_text import more_lines_text
from treadle.terminal.styles import rich_style
from treadle.thread.question_text import mark_unseen

SHOWN_LINES_MAX: Final = 40
LINE_LENGTH_MAX: Final = 2000

_HUNK_HEADER: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_NUMBERED_WIDTH_MIN: Final = 40
"""Columns below which the numbers are left out."""


class _DiffLine(NamedTuple):
    number: int | None
    sign: str
    text: str


def diff_block(
    diff: str,
    width: int = 80,
    *,
    lines_max: int | None = SHOWN_LINES_MAX,
    line_length_max: int = LINE_LENGTH_MAX,
    is_plain: bool = False,
) -> RenderableType:
    """A diff as it is read: number, sign, line. Characters that cannot be seen are marked.

    Args:
        diff: the changes in the unified format, with or without `@@` heads.
        width: columns there are; on few of them there are no numbers.
        lines_max: lines that are shown, and then how many more there are; `None` for all.
        line_length_max: characters of a line that are shown, and then how many more there are.
        is_plain: whether it is for a terminal that shows lines only.
    """
    lines = list(_parse_diff(diff))
    shown = lines if lines_max is None else lines[:lines_max]
    most = max((line.number or 0 for line in shown), default=0)
    gutter = len(str(most)) + 1 if most and width >= _NUMBERED_WIDTH_MIN else 0
    blocks: list[RenderableType] = [_render_line(line, gutter, line_length_max) for line in shown]
    if count := len(lines) - len(shown):
        words = more_lines_text(count, is_part=False, is_plain=is_plain)
        blocks.append(Text(words, rich_style("dim")))
    return Group(*blocks)


def count_changed_lines(diff: str) -> tuple[int, int]:
    """How many lines it adds and removes."""
    signs = [line.sign for line in _parse_diff(diff)]
    return signs.count("+"), signs.count("-")


def _parse_diff(diff: str) -> Iterator[_DiffLine]:
    old: int | None = None
    new: int | None = None
    for place, text in enumerate(diff.split("\n") if diff else ()):
        sign, rest = text[:1], text[1:]
        if sign == "@":
            head = _HUNK_HEADER.match(text)
            old, new = (int(head[1]), int(head[2])) if head else (None, None)
            words = text.strip("@ ")
            if place or not head:
                yield _DiffLine(None, "@", "" if head else words)
        elif sign == "\\":
            yield _DiffLine(None, sign, rest.strip())
        elif sign == "-":
            yield _DiffLine(old, "-", rest)
            old = None if old is None else old + 1
        elif sign == "+":
            yield _DiffLine(new, "+", rest)
            new = None if new is None else new + 1
        else:
            yield _DiffLine(new, " ", rest)
            old = None if old is None else old + 1
            new = None if new is None else new + 1


def _render_line(line: _DiffLine, gutter: int, length_max: int) -> Text:
    if line.sign == "@":
        return Text(f"{' ' * gutter}… {mark_unseen(line.text)}".rstrip(), rich_style("dim"))
    if line.sign == "\\":
        return Text(f"{' ' * gutter}  ({line.text})", rich_style("dim"))
    style = {"+": rich_style("added"), "-": rich_style("removed")}.get(line.sign, "")
    number = "" if line.number is None else str(line.number)
    text = Text()  # of no style, which would hold for all of it
    text.append(f"{number:>{gutter - 1}} " if gutter else "", rich_style("dim"))
    shown = line.text.removesuffix("\r")
    more = len(shown) - length_max
    text.append(f"{line.sign} {mark_unseen(shown[:length_max])}", style)
    if more > 0:
        text.append(f" … {more} more characters", rich_style("warn"))
    return text
