"""Lines and small tables that the chat itself has to say, as blocks for the scrollback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from treadle.app.sessions.setup import Setup


def styled_text(text: str, style: str = "") -> Text:
    """A line or several in one of `STYLES`; what steers a terminal is taken out."""
    from rich.text import Text

    from treadle.terminal.styles import rich_style

    return Text(sanitize_text(text), style=rich_style(style))


def shorten_ids(setup: Setup | None, text: str) -> str:
    """A text for the person, in which ids of threads are as short as this machine allows."""
    from treadle.thread.ids import find_ids

    if not find_ids(text):
        return text
    from treadle.app.stores import open_store
    from treadle.app.threads import short_ids

    # Between two threads, and behind the last, no session is there.
    return short_ids.shorten_ids(open_store() if setup is None else setup.store, text)


def two_column_table(rows: Iterable[Sequence[str]]) -> RenderableType:
    """Two columns: what it is, dim, and what there is to say; rows of nothing are left out."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        if text:
            table.add_row(styled_text(name, "dim"), styled_text(text))
    return table
