"""Lines and small tables that the chat itself has to say, as blocks for the scrollback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from treadle.thread.safe_text import legible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from treadle.core.approval import Question


def words(text: str, style: str = "") -> Text:
    """A line or several in one of `STYLES`; what steers a terminal is taken out."""
    from rich.text import Text

    from treadle.terminal.styles import rich_style

    return Text(legible(text), style=rich_style(style))


def pairs(rows: Iterable[Sequence[str]]) -> RenderableType:
    """Two columns: what it is, dim, and what there is to say; rows of nothing are left out."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        if text:
            table.add_row(words(name, "dim"), words(text))
    return table


def uncertain_block(
    question: Question, *, is_plain: bool, is_whole: bool = False
) -> RenderableType:
    """A call that was running when its process died, and what running it again would mean."""
    from rich.console import Group

    from treadle.terminal.blocks.question import call_block, circumstances, unshown
    from treadle.terminal.changes import planned

    text = "The process died while this was running. It may or may not have happened:"
    risk = f"  to run it again has a risk that is {question.risk.name.lower()}"
    rest = unshown(question, planned(question.call), is_whole=is_whole)
    return Group(
        words(text, "warn"),
        call_block(question.call, is_plain=is_plain, is_whole=is_whole),
        words(risk, "dim"),
        *circumstances(question, unshown=rest),
    )
