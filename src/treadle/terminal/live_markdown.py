"""The block of an answer that is being written, laid out as it will be when it is finished.

What is laid out is its end, and marks that are still open are closed for that: so a table is one
from its first row on, and code from its first line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from treadle.terminal.live_lines import TEXT_LINES_MAX, text_lines
from treadle.terminal.ports import StyledLine

LAYOUT_INTERVAL_S: Final = 0.1
"""Seconds after which a text that has only grown is laid out again: it takes some milliseconds."""

_PLAIN: Final = re.compile(r"[^*_`~\[\]!<>|\\&#\n=+-]*")
"""What looks the same with and without layout."""
_BARE_MARK: Final = re.compile(r"\s*(?:`{1,2}|~{1,2}|#{1,6}|[-*+_=>|]+|\d{1,9}[.)]?)[ \t]*")
"""A line that is a mark so far and nothing else; what it will be is not known yet."""
_RULE_OF_TABLE: Final = re.compile(r"[|:\- \t]*")


class LiveMarkdown:
    """Remembers what it has laid out last."""

    def __init__(self) -> None:
        self._text = ""
        self._width = 0
        self._made_s = 0.0
        self._lines: list[StyledLine] = []

    def lines(self, text: str, width: int, now_s: float) -> Sequence[StyledLine]:
        """The end of the block, as many lines as are drawn of what is being written.

        Args:
            text: the end of the block, from the beginning of a line; of code also its first line.
            width: columns.
            now_s: the time, for what need not be laid out for every letter.
        """
        is_same = width == self._width and text == self._text
        has_grown = width == self._width and bool(self._text) and text.startswith(self._text)
        if is_same or (has_grown and 0 <= now_s - self._made_s < LAYOUT_INTERVAL_S):
            return self._lines
        self._text, self._width, self._made_s = text, width, now_s
        self._lines = self._lay_out(text, width)
        return self._lines

    def _lay_out(self, text: str, width: int) -> list[StyledLine]:
        from treadle.terminal.blocks.markdown import PROSE_WIDTH_MAX

        if _PLAIN.fullmatch(text):
            return text_lines(text, min(width, PROSE_WIDTH_MAX))
        from treadle.terminal.blocks.markdown import MarkdownBlock
        from treadle.terminal.styled_rows import render_rows

        block = MarkdownBlock(close_marks(text))
        if block.is_empty:
            return []
        return render_rows(block, width)[-TEXT_LINES_MAX:]


def close_marks(text: str) -> str:
    """The beginning of Markdown with an end, so that what stands open in it is laid out already.

    A last line that is a mark and nothing else is left out; the head of a table gets its rule.
    """
    *before, last = text.split("\n")
    if before and last and _BARE_MARK.fullmatch(last):
        last = ""
    elif not before and _BARE_MARK.fullmatch(last):
        return ""
    lines = [*before, last]
    if (head := _find_table_head(lines)) is not None:
        columns = lines[head].strip().strip("|").count("|") + 1
        return "\n".join([*lines[: head + 1], "|---" * columns + "|"])
    return "\n".join([*before, _close_emphasis(last)])


def _find_table_head(lines: Sequence[str]) -> int | None:
    """The line that is the head of a table whose rule has not come, or not to its end."""
    at = len(lines) - 1
    if at > 0 and not lines[at]:
        at -= 1
    if at > 0 and lines[at - 1].lstrip().startswith("|") and _RULE_OF_TABLE.fullmatch(lines[at]):
        at -= 1
    is_first = at == 0 or not lines[at - 1].strip()
    is_row = lines[at].lstrip().startswith("|") and lines[at].count("|") > 1
    return at if is_row and is_first else None


def _close_emphasis(line: str) -> str:
    """The line with an end to the code or the strong words that stand open in it."""
    for mark in ("`", "**"):
        if line.count(mark) % 2:
            # A mark that stands at the end may be half of one, or open what has not come.
            rest = line.rstrip().rstrip("*`")
            return f"{rest}{mark}" if rest.count(mark) % 2 else rest
    return line
