"""Blocks as lines that are drawn again and again, in the looks of the drawing's own library."""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING

from treadle.terminal.ports import StyledLine
from treadle.terminal.styles import FAINT, LOOK, TOOLKIT_COLORS
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.style import Style


def render_rows(block: RenderableType, width: int) -> list[StyledLine]:
    """The lines of the block, none wider than `width` columns, without blanks at their ends."""
    from treadle.terminal.blocks.frames import TrimmedBlock

    console = _make_console()
    options = console.options.update(width=width)
    return [
        [
            (_describe_look(one.style), sanitize_text(one.text))
            for one in line
            if one.text and not one.control
        ]
        for line in console.render_lines(TrimmedBlock(block), options, pad=False)
    ]


@cache
def _make_console() -> Console:
    from rich.console import Console

    return Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard",
        highlight=False,
        legacy_windows=False,
    )


@cache
def _describe_look(style: Style | None) -> str:
    """A style of rich as a style of a live line."""
    if style is None:
        return ""
    look = [
        name for name in ("bold", "italic", "underline", "reverse", "strike") if _has(style, name)
    ]
    color = style.color
    if color is not None and color.number is not None and color.number < len(TOOLKIT_COLORS):
        look.append(f"fg:{TOOLKIT_COLORS[color.number]}")
    elif color is not None and color.triplet is not None:
        look.append(f"fg:{color.triplet.hex}")
    elif style.dim:
        look.append(FAINT)
    return f"{LOOK}{' '.join(look)}" if look else ""


def _has(style: Style, name: str) -> bool:
    return bool(getattr(style, name))
