"""Finished blocks as the characters that a terminal prints."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import ConsoleOptions, RenderableType


def render_blocks(blocks: tuple[RenderableType, ...], width: int, *, is_plain: bool = False) -> str:
    """The blocks one below the other, each ending its line; colours as the environment wants.

    A `str` is text and nothing else: no markup, and control characters made visible. If all are,
    rich is not even loaded. What is not plain is broken between words.
    """
    if all(isinstance(block, str) for block in blocks):
        texts = [sanitize_text(str(block)) for block in blocks]
        return "".join(f"{text if is_plain else _fold_text(text, width)}\n" for text in texts)
    from rich.console import Console
    from rich.segment import Segment
    from rich.text import Text

    class _Legible:
        """A block, whatever is in it: the last place that all has to pass."""

        def __init__(self, inner: RenderableType) -> None:
            self._inner = inner

        def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
            for part in console.render(self._inner, options):
                yield Segment(sanitize_text(part.text), part.style)

    console = Console(
        file=io.StringIO(),
        force_terminal=not is_plain,
        width=width,
        color_system=None if is_plain else "auto",
        highlight=False,
        legacy_windows=False,
        soft_wrap=is_plain,
    )
    for block in blocks:
        console.print(_Legible(Text(sanitize_text(block)) if isinstance(block, str) else block))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def render_lines(block: RenderableType, width: int) -> list[str]:
    """The lines of one block, each with its own colours as escape sequences."""
    return render_blocks((block,), width).removesuffix("\n").split("\n")


def _fold_text(text: str, width: int) -> str:
    if text.isascii() and all(len(line) <= width for line in text.split("\n")):
        return text
    from treadle.terminal.live_lines import wrap_text

    return "\n".join(wrap_text(text, width))
