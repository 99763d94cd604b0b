"""Where things stand: what is live, what is queued, the input or a dialog, a list, the status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.containers import ConditionalContainer, HSplit, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.layout import Layout
from prompt_toolkit.layout.processors import (
    AfterInput,
    ConditionalProcessor,
    PasswordProcessor,
    Processor,
)

from treadle.terminal.canvas import Canvas
from treadle.terminal.choice_dialog import ChoiceDialog
from treadle.terminal.dialogs import PREVIEW_LINES, ListDialog, TextDialog, to_single_line
from treadle.terminal.early_prompt import PLACEHOLDER, PROMPT
from treadle.terminal.ports import QueuedInput, StyledLine
from treadle.terminal.status_line import status_line
from treadle.terminal.styles import prompt_style
from treadle.terminal.vim_keys import describe_mode

QUEUE_LINES_MAX: Final = 3
MENU_LINES_MAX: Final = 6
LIST_LINES_MAX: Final = 10
SPACED_ROWS_MIN: Final = 10
"""Screens with so many rows have an empty line above the input."""

PLACEHOLDER_AT_WORK: Final = "(Enter: heard next · Tab: after this turn · Esc: stop)"

OTHER_ROWS_MIN: Final = 3
"""Rows that a question leaves to the rest: air, what was being written, the status."""

INPUT_LINES_MAX: Final = 12
"""A longer text scrolls within so many lines."""


class _LineWindow:
    """A few lines that were made for this drawing; `to_style` reads the styles of their pieces."""

    def __init__(self, to_style: Callable[[str], str] = prompt_style) -> None:
        self.lines: Sequence[Sequence[tuple[str, str]]] = ()
        self._to_style = to_style
        self.window = Window(
            FormattedTextControl(self._text, focusable=True, show_cursor=False),
            height=lambda: Dimension.exact(len(self.lines)),
        )

    @property
    def height(self) -> int:
        return len(self.lines)

    def _text(self) -> StyleAndTextTuples:
        text: StyleAndTextTuples = []
        for number, line in enumerate(self.lines):
            if number:
                text.append(("", "\n"))
            text += [(self._to_style(style), piece) for style, piece in line]
        return text


class ScreenLayout:
    """The layout; `fit` makes its lines before each drawing, so that they fill the height."""

    def __init__(self, canvas: Canvas) -> None:
        self._canvas = canvas
        self._live, self._queue, self._title = _LineWindow(), _LineWindow(), _LineWindow()
        self._label = _LineWindow()
        self._list, self._status = _LineWindow(), _LineWindow()
        self._question = _LineWindow(str)
        self._input_height = 1
        self._columns = 0
        self._input = self._make_input(
            canvas.buffer, AfterInput(self._placeholder), lambda: not canvas.buffer.text
        )
        self._answer = self._make_input(
            canvas.answer,
            PasswordProcessor("•"),
            lambda: isinstance(canvas.dialog, TextDialog) and canvas.dialog.is_secret,
        )
        self.layout = Layout(
            HSplit(
                [
                    self._live.window,
                    self._queue.window,
                    self._title.window,
                    self._question.window,
                    self._label.window,
                    ConditionalContainer(self._input, Condition(lambda: canvas.dialog is None)),
                    ConditionalContainer(
                        self._answer,
                        Condition(lambda: isinstance(canvas.dialog, TextDialog | ListDialog)),
                    ),
                    self._list.window,
                    self._status.window,
                ]
            ),
            focused_element=self._input,
        )

    def _make_input(
        self, buffer: Buffer, processor: Processor, is_processed: Callable[[], bool]
    ) -> Window:
        return Window(
            BufferControl(
                buffer, input_processors=[ConditionalProcessor(processor, Condition(is_processed))]
            ),
            height=lambda: Dimension.exact(self._input_height),
            get_line_prefix=_line_prefix,
            wrap_lines=True,
        )

    def _placeholder(self) -> StyleAndTextTuples:
        words = PLACEHOLDER_AT_WORK if self._canvas.keys.is_at_work else PLACEHOLDER
        fits = len(PROMPT) + len(words) < self._columns
        return [(prompt_style("dim"), words if fits else "")]

    @property
    def is_live(self) -> bool:
        """Whether the view had something to draw."""
        return self._live.height > 0

    def focus(self) -> None:
        """Keys go to what is shown."""
        dialog = self._canvas.dialog
        if dialog is None:
            self.layout.focus(self._input)
        elif isinstance(dialog, ChoiceDialog):
            self.layout.focus(self._list.window)
        else:
            self.layout.focus(self._answer)

    def fit(self, size: Size) -> int:
        """Make all lines anew for a screen of this size; the rows that they take.

        Input and choices come first, then the rest as far as there is room, what is live last.
        """
        self._columns = size.columns
        room = size.rows
        room -= self._fit_input(size, room)
        asked = self._question_height(room, size.columns)
        self._list.lines = self._list_lines(room - asked, size.columns)
        room -= self._list.height
        self._fit_question(asked, size.columns)
        room -= self._question.height
        self._title.lines = self._title_lines()[:room]
        room -= self._title.height
        self._label.lines = self._label_lines()[:room]
        room -= self._label.height
        hint = self._canvas.hint or self._question_hint
        facts = self._canvas.scene.facts
        mode = describe_mode(self._canvas.app, self._canvas.buffer)
        mark = f"{mode} │ " if mode and self._canvas.dialog is None else ""
        told = status_line(facts, size.columns - len(mark))
        status = [("warn", hint)] if hint else [*([("accent", mark)] if mark else []), *told]
        self._status.lines = [status][: min(room, 1)]
        room -= self._status.height
        air: list[StyledLine] = [[("", "")]] * (size.rows >= SPACED_ROWS_MIN)
        self._queue.lines = [*air, *_queue_lines(self._canvas.scene.queued)][:room]
        room -= self._queue.height
        view = self._canvas.scene.view
        live = [] if view is None else [*view.live_lines(size.columns)]
        self._live.lines = live[-room:] if room > 0 else []
        return size.rows - room + self._live.height

    def _fit_input(self, size: Size, room: int) -> int:
        if isinstance(self._canvas.dialog, ChoiceDialog):
            return 0
        control = (self._input if self._canvas.dialog is None else self._answer).content
        most = max(1, min(INPUT_LINES_MAX, room // 2))
        wanted = control.preferred_height(size.columns, most, True, _line_prefix)
        self._input_height = max(1, min(wanted or 1, most))
        return self._input_height

    def _question_height(self, room: int, width: int) -> int:
        """Rows of what is asked: all that its choices leave, half of the screen at the least."""
        dialog = self._canvas.dialog
        if not isinstance(dialog, ChoiceDialog | TextDialog) or dialog.pane is None:
            return 0
        room -= OTHER_ROWS_MIN
        below = dialog.height(width) if isinstance(dialog, ChoiceDialog) else 1
        left = max(room - below, room // 2)
        return max(0, min(dialog.pane.height(width), left))

    def _fit_question(self, height: int, width: int) -> None:
        dialog = self._canvas.dialog
        pane = dialog.pane if isinstance(dialog, ChoiceDialog | TextDialog) else None
        lines = [] if pane is None else pane.lines(width, height)
        self._question.lines = [[(one[0], one[1]) for one in line] for line in lines]

    def _list_lines(self, room: int, width: int) -> Sequence[StyledLine]:
        dialog, menu = self._canvas.dialog, self._canvas.menu
        if isinstance(dialog, ChoiceDialog):
            return dialog.lines(width, room)
        if isinstance(dialog, ListDialog):
            most = LIST_LINES_MAX + PREVIEW_LINES * (dialog.preview is not None)
            return dialog.lines(max(1, min(most, room - 1)), width)[:room]
        if menu is not None:
            return menu.lines(max(1, min(MENU_LINES_MAX, room - 1)))[:room]
        return []

    @property
    def _question_hint(self) -> str:
        dialog = self._canvas.dialog
        return dialog.hint if isinstance(dialog, ChoiceDialog) else ""

    def _label_lines(self) -> list[StyledLine]:
        dialog = self._canvas.dialog
        if not isinstance(dialog, TextDialog):
            return []
        return [[("bold", to_single_line(dialog.label))]]

    def _title_lines(self) -> list[StyledLine]:
        dialog = self._canvas.dialog
        if isinstance(dialog, ListDialog):
            return [[("bold", to_single_line(dialog.title)), ("dim", f"  {dialog.position}")]]
        if isinstance(dialog, ChoiceDialog) and (draft := self._canvas.buffer.text):
            return [[("dim", f"{PROMPT}{to_single_line(draft)}")]]
        return []


def _queue_lines(queued: Sequence[QueuedInput]) -> list[StyledLine]:
    """The next ones, and how many more there are."""
    lines: list[StyledLine] = [
        [
            ("accent" if waiting.is_sent else "dim", "» "),
            ("" if waiting.is_sent else "dim", to_single_line(waiting.text)),
            ("dim", _describe_delivery(waiting)),
        ]
        for waiting in queued[:QUEUE_LINES_MAX]
    ]
    if more := len(queued) - QUEUE_LINES_MAX:
        lines += [[("dim", f"  and {more} more")]] * (more > 0)
    return lines


def _describe_delivery(waiting: QueuedInput) -> str:
    if not waiting.is_sent:
        return "  (not sent yet)"
    return "" if waiting.steers else "  (after this turn)"


def _line_prefix(line: int, wraps: int) -> StyleAndTextTuples:
    return [("", PROMPT if line == wraps == 0 else " " * len(PROMPT))]
