"""What takes the place of the input for a while: a question, a text to enter, a list."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from treadle.terminal.choice_dialog import ChoiceDialog
from treadle.terminal.completions import Completion
from treadle.terminal.live_lines import wrap_text
from treadle.terminal.ports import ListRow, StyledLine
from treadle.terminal.status_line import text_width
from treadle.thread.safe_text import sanitize_text

T = TypeVar("T")

COLUMN_WIDTH_MAX: Final = 24
"""Columns that short texts of a list may take so that their details stand below one another."""


class TextDialog:
    """A text that is asked for."""

    def __init__(
        self, label: str, answer: Future[str | None], *, is_long: bool, is_secret: bool = False
    ) -> None:
        self.label = label
        self.answer = answer
        self.is_long = is_long
        self.is_secret = is_secret

    def settle(self, text: str | None) -> None:
        """The answer, unless there is one."""
        if not self.answer.done():
            self.answer.set_result(text)


class ListDialog:
    """A list that gets shorter as one types."""

    def __init__(
        self, title: str, search: Callable[[str], Sequence[ListRow]], answer: Future[str | None]
    ) -> None:
        self.title = title
        self.search = search
        self.answer = answer
        self.rows: Sequence[ListRow] = ()
        self.index = 0
        self.is_searching = True

    def settle(self, value: str | None) -> None:
        """The answer, unless there is one."""
        if not self.answer.done():
            self.answer.set_result(value)

    def show_rows(self, rows: Sequence[ListRow]) -> None:
        """Show other rows, from the first."""
        self.rows, self.index, self.is_searching = rows, 0, False

    def move(self, by: int) -> None:
        """Up or down, not beyond the ends."""
        self.index = max(0, min(self.index + by, len(self.rows) - 1))

    def lines(self, height: int, width: int) -> list[StyledLine]:
        """The rows around the one that would be picked, of which all is shown."""
        if not self.rows:
            return [[("dim", "  looking…" if self.is_searching else "  nothing found")]]
        column = max(text_width(to_single_line(row.text)) for row in self.rows)
        column = column if column <= COLUMN_WIDTH_MAX else 0
        text, detail = _make_cells(self.rows[self.index], column)
        first, *rest = [*wrap_text(f"{text}{detail}", width - 2)][:height]
        lines: list[StyledLine] = []
        for at, row in select_window(self.rows, self.index, height - len(rest)):
            text, detail = _make_cells(row, column)
            if at != self.index:
                lines.append([("", f"  {text}"), ("dim", detail)])
                continue
            length = len(text)
            lines.append([("accent", "▸ "), ("accent", first[:length]), ("dim", first[length:])])
            lines += ([("accent", f"  {line}")] for line in rest)
        return lines


def _make_cells(row: ListRow, column: int) -> tuple[str, str]:
    """What a row says, and its detail behind a column of this width."""
    text = to_single_line(row.text)
    if not row.detail:
        return text, ""
    gap = max(0, column - text_width(text)) + 2
    return text, f"{' ' * gap}{to_single_line(row.detail)}"


Dialog: TypeAlias = ChoiceDialog | TextDialog | ListDialog


class CompletionMenu:
    """The completions of what stands at the cursor."""

    def __init__(self, completions: Sequence[Completion], before: str) -> None:
        assert completions, "a menu of nothing"
        self.completions = completions
        self.before = before
        """The text before the cursor that they complete."""
        self.index = 0

    @property
    def selection(self) -> Completion:
        """What Tab takes."""
        return self.completions[self.index]

    def move(self, by: int) -> None:
        """Up or down; behind the last comes the first."""
        self.index = (self.index + by) % len(self.completions)

    def lines(self, height: int) -> list[StyledLine]:
        """The completions around the chosen one, their words in a column."""
        window = select_window(self.completions, self.index, height)
        width = max(len(c.shown) for _, c in window)
        return [
            [
                ("accent" if at == self.index else "", f"  {c.shown:<{width}}"),
                ("dim", f"  {c.words}" if c.words else ""),
            ]
            for at, c in window
        ]


def select_window(rows: Sequence[T], index: int, height: int) -> list[tuple[int, T]]:
    """At most `height` of the rows with their numbers, the one at `index` among them."""
    first = max(0, min(index - height // 2, len(rows) - height))
    return list(enumerate(rows))[first : first + height]


def to_single_line(text: str) -> str:
    """A text without what would break its line or steer the terminal."""
    return sanitize_text(" ".join(text.split()))
