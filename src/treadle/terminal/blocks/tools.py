"""Calls that have ended, and commands that a person ran: a line, and a part of what was said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from treadle.terminal.blocks.diffs import count_changed_lines, diff_block
from treadle.terminal.blocks.frames import PrefixedBlock
from treadle.terminal.call_text import CallResultText, format_duration
from treadle.terminal.styles import rich_style

LINE_LENGTH_MAX: Final = 200
"""Characters of a line of an output."""


def call_start_line(title: str) -> RenderableType:
    """That a call runs, for a terminal on which it could not be seen otherwise."""
    return Text(f"running: {title}")


def result_block(
    title: str,
    how: CallResultText,
    took_s: float | None,
    *,
    shown: Sequence[str] = (),
    diff: str | None = None,
    is_known: bool = False,
    is_plain: bool = False,
) -> RenderableType:
    """A call that has ended.

    Args:
        title: the call in a line.
        how: how it ended.
        shown: the lines of its output that are shown; see `call_text.preview_lines`.
        took_s: seconds; `None` if nobody knows.
        diff: what it changed, shown instead of what it said.
        is_known: whether the diff was shown just before, so that its size is enough.
        is_plain: whether it is for a terminal that shows lines only.
    """
    if diff is not None and how.is_good:
        added, removed = count_changed_lines(diff)
        head = _render_head(title, how, took_s, f"+{added} -{removed}", is_plain=is_plain)
        if is_known:
            return head
        return Group(head, _indent_block(diff_block(diff, is_plain=is_plain)))
    head = _render_head(title, how, took_s, "", is_plain=is_plain)
    if not shown:
        return head
    style = rich_style("dim" if how.is_good else "bad")
    return Group(head, _indent_block(Text("\n".join(map(_crop_line, shown)), style)))


def looks_block(words: str, names: str) -> RenderableType:
    """Calls that looked at files, in a line: how many, and the names of what was read."""
    head = Text("● ", rich_style("good"))
    head.append(words, "bold")
    return head.append(f"  {_crop_line(names)}" if names else "", rich_style("dim"))


def _render_head(
    title: str, how: CallResultText, took_s: float | None, extra: str, *, is_plain: bool
) -> RenderableType:
    took = "" if took_s is None else format_duration(took_s)
    if is_plain:
        done = f"{'done' if how.is_good else 'not done'}{f' in {took}' if took else ''}"
        return Text(f"{_join_parts([done, how.how, extra])}: {title}")
    mark, style = ("●", "good") if how.is_good else ("✗", "bad")
    head = Text(f"{mark} ", rich_style(style))
    head.append(title, "bold")
    if how.how:
        head.append(f"  {how.how}", rich_style("dim" if how.is_good else "bad"))
    if rest := _join_parts([extra, took]):
        head.append(f"  {rest}", rich_style("dim"))
    return head


def _join_parts(parts: Sequence[str]) -> str:
    return ", ".join(part for part in parts if part)


def _crop_line(line: str) -> str:
    more = len(line) - LINE_LENGTH_MAX
    return line if more <= 0 else f"{line[:LINE_LENGTH_MAX]}… ({more} more characters)"


def _indent_block(block: RenderableType) -> RenderableType:
    return PrefixedBlock(block, "  ")
