"""What each key does to the input; dialogs have their own few keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History as PromptHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys as Pressed

from treadle.app.files.file_names import FileNames
from treadle.terminal.canvas import Canvas
from treadle.terminal.choice_dialog import ChoiceDialog
from treadle.terminal.clipboard_input import insert_clipboard_picture
from treadle.terminal.completions import (
    Completion,
    complete_argument,
    complete_command,
    complete_file,
    find_mention,
    takes_completion,
)
from treadle.terminal.dialogs import CompletionMenu, ListDialog, TextDialog
from treadle.terminal.editor import edit_buffer
from treadle.terminal.history import InputHistory
from treadle.terminal.keys import KEYS, QUIT_WITHIN_S, REWIND_WITHIN_S
from treadle.terminal.ports import ListRow
from treadle.terminal.question_pane import QuestionPane
from treadle.terminal.thread_transcript import look_through
from treadle.terminal.vim_keys import begin_insert, leave_insert

PAGE_ROWS: Final = 10
MATCHES_MAX: Final = 200
"""Earlier prompts that a search shows."""


class ToolkitHistory(PromptHistory):
    """A history file as prompt_toolkit reads and writes it."""

    def __init__(self, history: InputHistory, keeps: Callable[[], bool]) -> None:
        super().__init__()
        self._history = history
        self._keeps = keeps

    def load_history_strings(self) -> Iterable[str]:
        """The newest first."""
        return reversed(self._history.read())

    def store_string(self, string: str) -> None:
        """Keep one, unless nothing is to be kept now."""
        if self._keeps():
            self._history.append(string)


class KeyActions:
    """The main input. Each method that `keys.KEYS` names takes no arguments."""

    def __init__(self, canvas: Canvas, folder: Path) -> None:
        self._canvas = canvas
        self._buffer = canvas.buffer
        self._files = FileNames(folder)
        self._listing: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._is_silent = False
        self._escaped_at = self._cleared_at = -1e9
        self._hint_timer: asyncio.TimerHandle | None = None
        self._buffer.on_text_changed += lambda _: self._open_menu()
        self._buffer.on_cursor_position_changed += lambda _: self._drop_stale_menu()

    # sending

    def send(self) -> None:
        """Enter."""
        menu = self._fresh_menu()
        if menu is not None and menu.before[menu.selection.start :] != menu.selection.text.rstrip():
            self._accept(menu.selection)
            if not menu.selection.is_final:
                return
        self._submit(steers=True)

    def complete(self) -> None:
        """Tab."""
        if (menu := self._fresh_menu()) is not None:
            self._accept(menu.selection)
        elif (
            self._canvas.menu is None and self._buffer.text.strip() and self._canvas.keys.is_at_work
        ):
            self._submit(steers=False)
        else:
            self._open_menu(is_asked=True)

    def _submit(self, *, steers: bool) -> None:
        text = self._buffer.text.strip()
        if text:
            self._buffer.append_to_history()
            self.replace("")
            begin_insert(self._canvas.app)
            self._canvas.keys.submit(text, steers=steers)

    def newline(self) -> None:
        """Ctrl+J, Alt+Enter."""
        self._buffer.insert_text("\n")

    # moving

    def up(self) -> None:
        """Up, in the menu, else in the text, else to earlier prompts or what is queued."""
        if self._canvas.menu is not None:
            self._canvas.menu.move(-1)
        elif not self._buffer.text and self._canvas.scene.queued:
            self._canvas.keys.take_back()
        else:
            self._change_without_menu(self._buffer.auto_up)

    def down(self) -> None:
        """Down, likewise."""
        if self._canvas.menu is not None:
            self._canvas.menu.move(1)
        else:
            self._change_without_menu(self._buffer.auto_down)

    def search(self) -> None:
        """Ctrl+R."""
        self._run_in_background(self._search())

    async def _search(self) -> None:
        entries = [*dict.fromkeys(reversed(self._buffer.history.get_strings()))]

        def search(words: str) -> list[ListRow]:
            wanted = words.lower().split()
            found = (e for e in entries if all(word in e.lower() for word in wanted))
            return [
                ListRow(entry, entry) for entry, _ in zip(found, range(MATCHES_MAX), strict=False)
            ]

        if (entry := await self._canvas.pick("earlier prompts", search)) is not None:
            self.replace(entry)

    # ending things

    def escape(self) -> None:
        """Esc."""
        now = time.monotonic()
        if self._canvas.menu is not None:
            self._canvas.menu = None
        elif leave_insert(self._canvas.app, self._buffer):
            self._canvas.redraw()
        elif self._canvas.keys.interrupt():
            self._escaped_at = -1e9
        elif not self._buffer.text and now - self._escaped_at < REWIND_WITHIN_S:
            self._escaped_at = -1e9
            self.show_hint("")
            self._canvas.keys.rewind()
        else:
            self._escaped_at = now
            if not self._buffer.text:
                self.show_hint("Esc again: go back to an earlier prompt", REWIND_WITHIN_S)

    def clear(self) -> None:
        """Ctrl+C, or a SIGINT."""
        now = time.monotonic()
        dialog = self._canvas.dialog
        if dialog is not None:
            dismiss_dialog(dialog)
        elif self._buffer.text:
            self.replace("")
            # The next press is to interrupt what runs, else to quit.
            is_idle = not self._canvas.keys.is_at_work
            self._cleared_at = now if is_idle else -1e9
            if is_idle:
                self.show_hint("Ctrl+C again: quit", QUIT_WITHIN_S)
        elif now - self._cleared_at < QUIT_WITHIN_S:
            self._canvas.keys.leave()
        else:
            self._canvas.keys.interrupt()
            self._cleared_at = now
            self.show_hint("Ctrl+C again: quit", QUIT_WITHIN_S)

    def leave(self) -> None:
        """Ctrl+D: quit; within a text it deletes, as everywhere."""
        if self._buffer.text:
            self._buffer.delete()
        else:
            self._canvas.keys.leave()

    # others

    def cycle_mode(self) -> None:
        """Shift+Tab."""
        self._canvas.keys.cycle_mode()

    def look_through(self) -> None:
        """Ctrl+O; pressed again before the transcript stands there, it opens no second one."""
        if self._looking is None or self._looking.done():
            self._looking = self._run_in_background(look_through(self._canvas, self.show_hint))

    def redraw(self) -> None:
        """Ctrl+L."""
        self._canvas.app.renderer.clear()

    def suspend(self) -> None:
        """Ctrl+Z, in a dialog too."""
        self._canvas.suspend()

    def edit(self) -> None:
        """Ctrl+G, in a dialog's text too."""
        canvas = self._canvas
        buffer = self._buffer if canvas.dialog is None else canvas.answer
        self._run_in_background(edit_buffer(buffer, canvas.run_in_terminal, self.show_hint))

    def paste_picture(self) -> None:
        """Ctrl+V."""
        self._run_in_background(insert_clipboard_picture(self._buffer, self.show_hint))

    def replace(self, text: str) -> None:
        """Put another text into the input, the cursor behind it."""

        def put() -> None:
            self._buffer.reset()
            self._buffer.text = text
            self._buffer.cursor_position = len(text)

        self._change_without_menu(put)

    # completion

    def _open_menu(self, *, is_asked: bool = False) -> None:
        """A menu for what stands before the cursor; if asked, for an empty word too."""
        if self._is_silent:
            return
        before, commands = self._text_before_cursor, self._canvas.scene.commands
        found = complete_command(before, commands)
        if takes_completion(before, commands):
            if self._listing is None:
                find = partial(complete_argument, commands=commands, may_be_empty=is_asked)
                self._listing = self._run_in_background(self._offer(find))
        elif found or find_mention(before) is None:
            self._canvas.menu = CompletionMenu(found, before) if found else None
        elif self._listing is None:  # the menu of the letter before stays until it is done
            self._listing = self._run_in_background(self._offer(partial(_find_files, self._files)))

    async def _offer(self, find: Callable[[str], Awaitable[list[Completion] | None]]) -> None:
        """Offer what stands there may become when it is known; `None` leaves what is offered."""
        try:
            before, found = "", None
            while before != self._text_before_cursor:
                before = self._text_before_cursor
                found = await find(before)
            if found is not None:
                self._canvas.menu = CompletionMenu(found, before) if found else None
            self._canvas.redraw()
        finally:
            self._listing = None

    def _drop_stale_menu(self) -> None:
        menu = self._canvas.menu
        if (
            menu is not None
            and menu.before != self._text_before_cursor
            and find_mention(self._text_before_cursor) is None
        ):
            self._canvas.menu = None

    def _fresh_menu(self) -> CompletionMenu | None:
        """The menu, if it was made for what stands there now."""
        menu = self._canvas.menu
        return menu if menu is not None and menu.before == self._text_before_cursor else None

    @property
    def _text_before_cursor(self) -> str:
        return self._buffer.document.text_before_cursor

    def _accept(self, completion: Completion) -> None:
        def put() -> None:
            length = self._buffer.cursor_position - completion.start
            self._buffer.delete_before_cursor(length)
            self._buffer.insert_text(completion.text)

        self._change_without_menu(put)

    # helpers

    def _change_without_menu(self, change: Callable[[], None]) -> None:
        """Change the text without a menu."""
        self._is_silent = True
        try:
            change()
        finally:
            self._is_silent = False
        self._canvas.menu = None

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._canvas.app.create_background_task(work)

    def show_hint(self, words: str, seconds: float = QUIT_WITHIN_S) -> None:
        """Say something in place of the status, for a while."""
        if self._hint_timer is not None:
            self._hint_timer.cancel()
            self._hint_timer = None
        self._canvas.hint = words
        self._canvas.redraw()
        if words:
            loop = asyncio.get_running_loop()
            self._hint_timer = loop.call_later(seconds, self.show_hint, "")


def dismiss_dialog(dialog: ChoiceDialog | TextDialog | ListDialog) -> None:
    """Esc and Ctrl+C: the last choice, no text, no row."""
    if isinstance(dialog, ChoiceDialog):
        dialog.settle(dialog.choices[-1].key)
    else:
        dialog.settle(None)


def make_key_bindings(canvas: Canvas, hands: KeyActions) -> KeyBindings:
    """All keys: the table's for the input, and those of the dialogs."""
    bound = KeyBindings()
    in_input = Condition(lambda: canvas.dialog is None)
    for key in KEYS:
        presses = key.presses + ((("down",),) if key.does == "up" else ())
        for press in presses:
            does = "down" if press == ("down",) else key.does
            bound.add(*press, filter=in_input)(_make_key_handler(getattr(hands, does)))
    # Eager, as all keys of a question are.
    bound.add("c-z", filter=~in_input, eager=True)(_make_key_handler(hands.suspend))
    _bind_alt_letters(canvas, hands, bound)
    _bind_choice_dialog(canvas, bound)
    _bind_text_dialog(canvas, hands, bound)
    _bind_list_dialog(canvas, bound)
    return bound


def _make_key_handler(method: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
    return lambda _: method()


def _bind_alt_letters(canvas: Canvas, hands: KeyActions, bound: KeyBindings) -> None:
    """Where there is no text to move in, Alt and a letter are Esc and the letter."""

    def press(event: KeyPressEvent) -> None:
        hands.escape()
        event.app.key_processor.feed(event.key_sequence[-1], first=True)

    is_empty = Condition(lambda: canvas.dialog is None and not canvas.buffer.text)
    for letter in map(chr, range(ord("!"), ord("~") + 1)):
        bound.add("escape", letter, filter=is_empty)(press)


def _bind_choice_dialog(canvas: Canvas, bound: KeyBindings) -> None:
    def on(*press: str, do: Callable[[ChoiceDialog, str], None]) -> None:
        @bound.add(*press, filter=is_choosing, eager=True)
        def _(event: KeyPressEvent) -> None:
            assert isinstance(canvas.dialog, ChoiceDialog)
            do(canvas.dialog, event.data)

    is_choosing = Condition(lambda: isinstance(canvas.dialog, ChoiceDialog))
    on(Pressed.Any, do=lambda _, key: canvas.press(key))
    on("up", do=lambda *_: canvas.press("up"))
    on("down", do=lambda *_: canvas.press("down"))
    on("c-m", do=lambda *_: canvas.press("enter"))
    on("c-o", do=lambda dialog, _: dialog.scroll(QuestionPane.scroll_around))
    on("pagedown", do=lambda dialog, _: dialog.scroll(lambda pane: pane.scroll(1)))
    on("pageup", do=lambda dialog, _: dialog.scroll(lambda pane: pane.scroll(-1)))
    on("escape", do=lambda dialog, _: dismiss_dialog(dialog))
    on("c-c", do=lambda dialog, _: dismiss_dialog(dialog))
    on("c-d", do=lambda dialog, _: _end_dialog_input(dialog))
    on("s-tab", do=lambda dialog, _: canvas.keys.cycle_mode())  # it may settle the question
    on(Pressed.BracketedPaste, do=lambda *_: canvas.press(""))


def _end_dialog_input(dialog: ChoiceDialog) -> None:
    if not dialog.answer.done():
        dialog.answer.set_exception(EOFError())


def _bind_text_dialog(canvas: Canvas, hands: KeyActions, bound: KeyBindings) -> None:
    is_entering = Condition(lambda: isinstance(canvas.dialog, TextDialog))
    is_long = Condition(lambda: isinstance(canvas.dialog, TextDialog) and canvas.dialog.is_long)

    def settle(text: str | None) -> None:
        dialog = canvas.dialog
        assert isinstance(dialog, TextDialog)
        lines = [] if text is None else text.split("\n")
        dialog.settle(text if dialog.is_long or len(lines) < 2 else " ".join(lines))  # a paste

    bound.add("c-m", filter=is_entering)(lambda _: settle(canvas.answer.text))
    bound.add("escape", filter=is_entering)(lambda _: settle(None))
    bound.add("c-c", filter=is_entering)(lambda _: settle(None))
    bound.add("c-d", filter=is_entering & Condition(lambda: not canvas.answer.text))(
        lambda _: settle(None)
    )
    is_shown = Condition(
        lambda: isinstance(canvas.dialog, TextDialog) and not canvas.dialog.is_secret
    )
    bound.add("c-g", filter=is_shown)(lambda _: hands.edit())

    def scroll(pages: int) -> None:
        dialog = canvas.dialog
        if isinstance(dialog, TextDialog) and dialog.pane is not None:
            dialog.pane.scroll(pages)

    bound.add("pagedown", filter=is_entering)(lambda _: scroll(1))
    bound.add("pageup", filter=is_entering)(lambda _: scroll(-1))
    for press in (("c-j",), ("escape", "c-m")):
        bound.add(*press, filter=is_long)(lambda _: canvas.answer.insert_text("\n"))
        bound.add(*press, filter=is_entering & ~is_long)(lambda _: None)


def _bind_list_dialog(canvas: Canvas, bound: KeyBindings) -> None:
    is_picking = Condition(lambda: isinstance(canvas.dialog, ListDialog))

    def on(*press: str, do: Callable[[ListDialog], None]) -> None:
        @bound.add(*press, filter=is_picking)
        def _(_event: KeyPressEvent) -> None:
            assert isinstance(canvas.dialog, ListDialog)
            do(canvas.dialog)

    def choose_row(picking: ListDialog) -> None:
        if picking.rows and not picking.is_searching and picking.rows[picking.index].value:
            picking.settle(picking.rows[picking.index].value)

    on("c-m", do=choose_row)
    on("c-j", do=lambda _: None)
    on("up", do=lambda picking: picking.move(-1))
    on("down", do=lambda picking: picking.move(1))
    on("pageup", do=lambda picking: picking.move(-PAGE_ROWS))
    on("pagedown", do=lambda picking: picking.move(PAGE_ROWS))
    for press in ("escape", "c-c", "c-d"):
        on(press, do=lambda picking: picking.settle(None))


async def _find_files(files: FileNames, before: str) -> list[Completion] | None:
    """The files that may be meant before the cursor; `None` where none is."""
    paths = await asyncio.to_thread(files.list)
    if find_mention(before) is None:
        return None
    return await asyncio.to_thread(complete_file, before, paths)
