"""What takes the place of the input for a while: a question, a text to enter, a list."""

from __future__ import annotations

from asyncio import Future, get_running_loop
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from treadle.terminal.choice_dialog import ChoiceDialog
from treadle.terminal.columns import GAP, crop, fit_columns
from treadle.terminal.completions import Completion
from treadle.terminal.live_lines import wrap_text
from treadle.terminal.ports import ListRow, RowPreview, StyledLine
from treadle.terminal.question_pane import QuestionPane
from treadle.thread.safe_text import sanitize_text

T = TypeVar("T")

PREVIEW_LINES: Final = 5
"""Below a list, the empty one before them among them."""

_MARK: Final = "▸ "


class TextDialog:
    """A text that is asked for; `pane` is the question to which it belongs."""

    def __init__(
        self,
        label: str,
        *,
        is_long: bool = False,
        is_secret: bool = False,
        pane: QuestionPane | None = None,
    ) -> None:
        self.label = label
        self.answer: Future[str | None] = get_running_loop().create_future()
        self.is_long = is_long
        self.is_secret = is_secret
        self.pane = pane

    def settle(self, text: str | None) -> None:
        """The answer, unless there is one."""
        if not self.answer.done():
            self.answer.set_result(text)


class ListDialog:
    """A list that gets shorter as one types.

    Args:
        title: what is asked.
        search: gives the rows for what was typed.
        answer: where the value of the row goes.
        preview: gives lines about the value of a row.
    """

    def __init__(
        self,
        title: str,
        search: Callable[[str], Sequence[ListRow]],
        answer: Future[str | None],
        preview: RowPreview | None = None,
    ) -> None:
        self.title = title
        self.search = search
        self.answer = answer
        self.preview = preview
        self.rows: Sequence[ListRow] = ()
        self.index = 0
        self.is_searching = True
        self.on_mark: Callable[[], None] = lambda: None
        """Called when another row is marked."""
        self._previews: dict[str, Sequence[str]] = {}

    def settle(self, value: str | None) -> None:
        """The answer, unless there is one."""
        if not self.answer.done():
            self.answer.set_result(value)

    def show_rows(self, rows: Sequence[ListRow]) -> None:
        """Show other rows, from the first."""
        self.rows, self.index, self.is_searching = rows, 0, False
        self.on_mark()

    def move(self, by: int) -> None:
        """Up or down, not beyond the ends."""
        self.index = max(0, min(self.index + by, len(self.rows) - 1))
        self.on_mark()

    @property
    def position(self) -> str:
        """Which row is marked, of how many: not all of them may be in sight."""
        return f"{self.index + 1} of {len(self.rows):,}" if len(self.rows) > 1 else ""

    @property
    def unpreviewed(self) -> str | None:
        """The value of the marked row, if its preview is wanted and not there."""
        if self.preview is None or not self.rows:
            return None
        value = self.rows[self.index].value
        return None if value in self._previews else value

    def show_preview(self, value: str, lines: Sequence[str]) -> None:
        """Have these lines for a row."""
        self._previews[value] = lines

    def lines(self, height: int, width: int) -> list[StyledLine]:
        """The rows around the one that would be picked, of which all is shown, and its preview."""
        if not self.rows:
            return [[("dim", "  looking…" if self.is_searching else "  nothing found")]]
        # So many rows whether the preview is there yet or not: nothing jumps while one moves.
        below = PREVIEW_LINES if self.preview is not None and height >= 2 * PREVIEW_LINES else 0
        cells = [_list_cells(row) for row in self.rows]
        fitted = fit_columns(cells, width - len(_MARK))
        chosen = cells[self.index]
        marked = [fitted[self.index]]
        if " ".join(chosen).split() != " ".join(marked[0]).split():  # something was cropped
            whole = wrap_text(GAP.join(filter(None, chosen)), width - len(_MARK))
            marked = [(line, "") for line in whole][:height]
        lines: list[StyledLine] = []
        for at, _ in select_window(self.rows, self.index, height - below - len(marked) + 1):
            if at != self.index:
                text, rest = fitted[at]
                lines.append([("", f"{' ' * len(_MARK)}{text}"), ("dim", rest)])
                continue
            for number, (text, rest) in enumerate(marked):
                mark = " " * len(_MARK) if number else _MARK
                lines.append([("accent", mark), ("accent", text), ("dim", rest)])
        if below:
            lines += self._preview_lines(width)[:below]
        return lines

    def _preview_lines(self, width: int) -> list[StyledLine]:
        """As many as the preview may have, whatever there is of it."""
        told = self._previews.get(self.rows[self.index].value, ())[: PREVIEW_LINES - 1]
        shown: list[StyledLine] = [
            [("dim", crop(f"  {to_single_line(line)}", width))] for line in ("", *told)
        ]
        return [*shown, *([[("", "")]] * (PREVIEW_LINES - len(shown)))]


def _list_cells(row: ListRow) -> list[str]:
    return [to_single_line(one) for one in (row.text, *row.cells, row.detail)]


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
