"""What an agent said, as it is shown: its Markdown laid out in a terminal, its words elsewhere."""

from __future__ import annotations

import shutil
import sys
from typing import Final

from treadle.thread.safe_text import sanitize_text

WIDTH_MAX: Final = 100
"""Columns of prose that can be read well."""


def render_answer(text: str) -> str:
    """The text for standard output, without its last line end."""
    if not sys.stdout.isatty():
        return sanitize_text(text)
    from treadle.terminal.block_text import render_blocks
    from treadle.terminal.blocks.markdown import MarkdownBlock
    from treadle.terminal.markdown_splitter import MarkdownPiece, MarkdownSplitter

    splitter, links, width = MarkdownSplitter(), dict[str, object](), _find_width()
    shown = ""
    for piece in (*splitter.feed(text), *splitter.close()):
        if not (block := MarkdownBlock(piece, links)).is_empty:
            is_apart = shown and not (isinstance(piece, MarkdownPiece) and piece.goes_on)
            shown += "\n" * bool(is_apart) + render_blocks((block,), width)
    return shown.rstrip("\n")


def _find_width() -> int:
    return min(WIDTH_MAX, shutil.get_terminal_size().columns)
