"""The drawing and the keyboard of a drawn terminal, on prompt_toolkit; loaded when it runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.output.color_depth import ColorDepth

from treadle.errors import TreadleError
from treadle.terminal.attention import Attention
from treadle.terminal.background_color import QUERY, InputFilter, has_true_colors, may_ask
from treadle.terminal.buffered_output import BufferedOutput
from treadle.terminal.choice_dialog import KEY_PAUSE_S, ChoiceDialog
from treadle.terminal.dialogs import CompletionMenu, Dialog, ListDialog, TextDialog
from treadle.terminal.early_prompt import screen_width
from treadle.terminal.history import InputHistory
from treadle.terminal.key_actions import KeyActions, ToolkitHistory, make_key_bindings
from treadle.terminal.keyboard_modes import run_behind
from treadle.terminal.keys import SIGNAL_S
from treadle.terminal.layout import ScreenLayout
from treadle.terminal.ports import DialogChoice, InputHandler, ListRow, RowPreview
from treadle.terminal.question_pane import QuestionPane
from treadle.terminal.screen_state import ScreenState
from treadle.terminal.vim_keys import begin_insert, set_vim_keys

if TYPE_CHECKING:
    from treadle.app.threads.transcript import Transcript
    from treadle.terminal.transcript_screen import TranscriptScreen

T = TypeVar("T")

FRAME_S: Final = 1 / 15
LIVE_INTERVAL_S: Final = 0.1
"""So often is drawn while something is live, or while blocks wait for a terminal that is behind."""

SEARCH_PAUSE_S: Final = 0.05
"""A list is searched when nobody has typed for so long."""

ESC_S: Final = 0.05
"""How long the rest of a key's sequence may take behind its Esc; over a slow line it comes in one
piece too."""


class ToolkitApplication:
    """One run of a drawn terminal."""

    def __init__(
        self, scene: ScreenState, keys: InputHandler, *, folder: Path, history: Path
    ) -> None:
        self.scene = scene
        self.keys = keys
        self.dialog: Dialog | None = None
        self.menu: CompletionMenu | None = None
        self.hint = ""
        self.is_away = False
        self.is_unread = False
        """Whether the terminal took nothing any more when the drawing ended."""
        self.buffer = Buffer(
            multiline=True,
            history=ToolkitHistory(InputHistory(history), lambda: scene.keeps_history),
        )
        self.answer = Buffer(multiline=True, on_text_changed=lambda _: self._search_soon())
        self._pressed_at = -1e9
        self._output = BufferedOutput(
            sys.stdout,
            _screen_size,
            term=None,
            default_color_depth=_find_color_depth(),
            enable_bell=False,
            enable_cpr=False,
        )
        self._attention = Attention(self._send, os.environ, folder.name)
        self._stage = ScreenLayout(self)
        self.hands = KeyActions(self, folder)
        self.app: Application[None] = Application(
            layout=self._stage.layout,
            key_bindings=make_key_bindings(self, self.hands),
            input=self._make_input(),
            output=self._output,
            include_default_pygments_style=False,
            enable_page_navigation_bindings=False,
            erase_when_done=True,
            before_render=lambda _: self._before_drawing(),
            after_render=lambda _: self._after_drawing(),
            terminal_size_polling_interval=None,
        )
        self.app.ttimeoutlen = ESC_S
        self.app.timeoutlen = ESC_S
        self.app.key_processor.before_key_press += lambda _: self._note_key_time()
        self._browsing: TranscriptScreen | None = None
        self._turn = asyncio.Lock()
        self._unprinted: list[str] = []
        self._drawn_at = 0.0
        self._back_at = -1e9
        self._due: asyncio.TimerHandle | None = None
        self._spin: asyncio.TimerHandle | None = None
        self._searching: asyncio.Task[None] | None = None
        self._previewing: asyncio.Task[None] | None = None
        self._opening: asyncio.TimerHandle | None = None
        self._settling: asyncio.TimerHandle | None = None
        self._flushing: asyncio.TimerHandle | None = None

    def _make_input(self) -> Vt100Input:
        """The keyboard, without what the terminal answers."""
        keyboard = Vt100Input(sys.stdin)
        filtered: Any = InputFilter(keyboard.stdin_reader, self._hear_background)
        keyboard.stdin_reader = filtered
        return keyboard

    def _hear_background(self, answer: str) -> None:
        self.scene.theme.hear(answer)
        self.redraw()

    async def run(self, clear: Callable[[], None]) -> None:
        """Draw and listen until `stop`; `clear` takes away what was drawn before."""
        if self.scene.filled:
            self.fill(self.scene.filled)
        if may_ask(os.environ):
            self._output.write_raw(QUERY)
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread
            loop.add_signal_handler(signal.SIGINT, self._on_sigint)
        try:
            await self.app.run_async(clear, set_exception_handler=False, handle_sigint=False)
        except EOFError:
            self.keys.leave()
        finally:
            with contextlib.suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(signal.SIGINT)
            self._end()

    def stop(self) -> None:
        """End `run`."""
        if self._browsing is not None:
            self._browsing.stop()
        if self.app.is_running and not self.app.is_done:
            self._output.release()
            self.app.exit()

    def _end(self) -> None:
        for timer in (self._due, self._spin, self._opening, self._settling, self._flushing):
            if timer is not None:
                timer.cancel()
        if self.dialog is not None and not self.dialog.answer.done():
            self.dialog.answer.set_exception(EOFError())
        with contextlib.suppress(OSError):
            self._output.release()
            self._print_blocks()
            self._output.reset_attributes()
            self._attention.end()
            self._output.show_cursor()
            self._output.flush()
            self.is_unread = not self._output.drain()

    # drawing

    def write(self, text: str) -> None:
        """Print above the input, at the next drawing and together with it; from any thread.

        A fast model ends a block every few milliseconds, and each drawing sends the input again: so
        blocks wait for one another.
        """
        self._unprinted.append(text)
        if (loop := self.app.loop) is not None and not self.is_away:
            loop.call_soon_threadsafe(self.redraw_soon)

    async def write_between_dialogs(self, text: str) -> None:
        """Print when nothing is asked, so that a question stays where it was read."""
        async with self._turn:
            self.write(text)

    def redraw(self) -> None:
        """Draw now, or rather when the loop comes to it."""
        self.app.invalidate()

    def redraw_soon(self) -> None:
        """Draw, but not more often than eyes can follow."""
        if self._due is None:
            wait = max(0.0, self._drawn_at + FRAME_S - time.monotonic())
            self._due = asyncio.get_running_loop().call_later(wait, self._redraw_if_read)

    def _redraw_if_read(self) -> None:
        """Draw, unless the terminal has not taken what was drawn before: then later."""
        if self._output.is_behind:
            self._due = asyncio.get_running_loop().call_later(LIVE_INTERVAL_S, self._redraw_if_read)
        else:
            self.app.invalidate()

    def _before_drawing(self) -> None:
        set_vim_keys(self.app, are_wanted=self.scene.facts.has_vim_keys)
        if self._unprinted and not self.is_away and not self._output.is_behind:
            self._output.hold()
            self.app.renderer.erase()
            self._print_blocks()
        height = self._stage.fit(self._output.get_size())
        last = self.app.renderer.last_rendered_screen
        if last is not None and last.height > height:  # else it would stay as high as it was
            self._output.hold()
            self.app.renderer.erase()

    def _print_blocks(self) -> None:
        while self._unprinted:  # another thread may add to them now
            self._output.write_raw(self._unprinted.pop(0))
        self._output.flush()

    def _after_drawing(self) -> None:
        self._output.release()
        self._drawn_at = time.monotonic()
        for timer in (self._due, self._spin):
            if timer is not None:
                timer.cancel()
        self._due = self._spin = None
        if isinstance(self.dialog, ChoiceDialog) and self.dialog.mark_visible(self._drawn_at):
            self._open_question_when_quiet()
        if (self._stage.is_live or self._unprinted) and not self.app.is_done:
            self._spin = asyncio.get_running_loop().call_later(
                LIVE_INTERVAL_S, self._redraw_if_read
            )

    # the input

    def fill(self, text: str) -> None:
        """Put a text into the input, before what stands there."""
        self.hands.replace("\n".join(filter(None, [text, self.buffer.text])))
        self.redraw()

    def _note_key_time(self) -> None:
        self._pressed_at = time.monotonic()
        if self.dialog is None:
            self._attention.show("")

    # somebody who has gone elsewhere

    def call_person(self, words: str) -> None:
        """Call them if no key is pressed for a while; the title of the window says it at once."""
        if not self.scene.facts.notifies:
            return
        self._attention.show(words)
        self._attention.call_soon(words, lambda: self._pressed_at)

    def _send(self, text: str) -> None:
        """Write what is no part of a drawing, unless somebody else has the screen."""
        if not self.is_away:
            self._output.write_raw(text)
            self._output.flush()

    def _on_sigint(self) -> None:
        if not self.is_away and time.monotonic() - self._back_at > SIGNAL_S:
            self.hands.clear()

    # dialogs

    async def choose(self, pane: QuestionPane, choices: Sequence[DialogChoice]) -> str:
        """Wait for a choice; the question stands above them until then."""
        async with self._turn:
            self._process_typed_keys()
            answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            has_draft = bool(self.buffer.text)
            with self._show_dialog(ChoiceDialog(choices, answer, has_draft=has_draft, pane=pane)):
                self.call_person("a question")
                try:
                    return await answer
                finally:
                    self._attention.stop()

    def _open_question_when_quiet(self) -> None:
        """Take keys for the question when it is time, not those that came before, read or not."""
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        self._process_typed_keys()
        dialog = self.dialog
        if not isinstance(dialog, ChoiceDialog) or dialog.is_open:
            return
        if self._unprinted or not self._output.is_written:  # it is not on the screen yet
            dialog.mark_hidden()
            dialog.mark_visible(time.monotonic())
            self.redraw_soon()
        if (wait := dialog.wait_s(self._pressed_at, time.monotonic())) > 0:
            self._opening = asyncio.get_running_loop().call_later(
                wait, self._open_question_when_quiet
            )
        else:
            dialog.is_open = True
            self.redraw()

    def press(self, key: str) -> None:
        """A key for the question that is asked."""
        dialog = self.dialog
        assert isinstance(dialog, ChoiceDialog), "a key for no question"
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        dialog.press(key, time.monotonic())
        if dialog.pending is not None:
            loop = asyncio.get_running_loop()
            self._settling = loop.call_later(KEY_PAUSE_S, self._settle, dialog)

    def _settle(self, dialog: ChoiceDialog) -> None:
        """Take the answer, unless a key behind it has not been read yet."""
        pressed_at = self._pressed_at
        self._process_typed_keys()
        if self._pressed_at == pressed_at and dialog.pending is not None:
            dialog.settle(dialog.choices[dialog.pending].key)

    async def enter(self, text: str, dialog: TextDialog) -> str | None:
        """Wait for a text; `text` stands there already."""
        async with self._turn:
            self.answer.text = text
            self.answer.cursor_position = len(text)
            try:
                with self._show_dialog(dialog):
                    return await dialog.answer
            finally:
                self.answer.reset()  # with what could be undone

    async def pick(
        self,
        title: str,
        search: Callable[[str], Sequence[ListRow]],
        preview: RowPreview | None = None,
    ) -> str | None:
        """Wait for a row."""
        async with self._turn:
            answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
            self.answer.text = ""
            picking = ListDialog(title, search, answer, preview)
            picking.on_mark = partial(self._preview_soon, picking)
            with self._show_dialog(picking):
                self._search_soon()
                try:
                    return await answer
                finally:
                    for task in (self._searching, self._previewing):
                        if task is not None:
                            task.cancel()

    def _process_typed_keys(self) -> None:
        """Keys that the terminal has, but we have not read, were not meant for the question."""
        if self.is_away:
            return
        self._process_keys(self.app.input.read_keys())
        if self._flushing is not None:
            self._flushing.cancel()
        self._flushing = asyncio.get_running_loop().call_later(ESC_S, self._flush_keys)

    def _flush_keys(self) -> None:
        """An Esc was a key by itself if nothing has followed; who reads keys has to see to it."""
        if self.app.is_running and not self.is_away:
            self._process_keys(self.app.input.flush_keys())

    def _process_keys(self, keys: list[KeyPress]) -> None:
        self.app.key_processor.feed_multiple(keys)
        self.app.key_processor.process_keys()

    @contextlib.contextmanager
    def _show_dialog(self, dialog: Dialog) -> Iterator[None]:
        if self.app.is_done:
            raise EOFError
        self.dialog, self.menu = dialog, None
        begin_insert(self.app)
        self._stage.focus()
        self.redraw()
        try:
            yield
        finally:
            self.dialog = None
            if not self.app.is_done:
                self._stage.focus()
                self.redraw()

    def _search_soon(self) -> None:
        if isinstance(self.dialog, ListDialog):
            if self._searching is not None:
                self._searching.cancel()
            self.dialog.is_searching = True
            self._searching = asyncio.ensure_future(self._search(self.dialog))

    async def _search(self, picking: ListDialog) -> None:
        text = self.answer.text
        if text:
            await asyncio.sleep(SEARCH_PAUSE_S)
        try:
            picking.show_rows(await asyncio.to_thread(picking.search, text))
        except Exception as error:  # noqa: BLE001 - raised where the list was asked for
            if not picking.answer.done():
                picking.answer.set_exception(error)
        self.redraw()

    def _preview_soon(self, picking: ListDialog) -> None:
        if self._previewing is not None:
            self._previewing.cancel()
        if picking.unpreviewed is not None:
            self._previewing = asyncio.ensure_future(self._preview(picking))

    async def _preview(self, picking: ListDialog) -> None:
        value, preview = picking.unpreviewed, picking.preview
        assert value is not None
        assert preview is not None
        await asyncio.sleep(SEARCH_PAUSE_S)  # not for each row that somebody passes
        try:
            lines: Sequence[str] = await asyncio.to_thread(preview, value)
        except (TreadleError, OSError) as error:
            lines = [str(error)]
        picking.show_preview(value, lines)
        self.redraw()

    # others on the screen

    async def run_in_terminal(self, work: Callable[[], T]) -> T:
        """Give screen and keyboard to something else, and take them back whatever it does."""
        async with self._give_screen():
            return await run_behind(self._output.drain, work)

    async def browse(self, transcript: Transcript) -> None:
        """See `Canvas`; what is printed meanwhile stands in the scrollback afterwards."""
        from treadle.terminal.transcript_screen import TranscriptScreen
        from treadle.terminal.transcript_view import TranscriptView

        size = self._output.get_size()
        view = TranscriptView(transcript, size.columns, max(1, size.rows - 1))
        keyboard = self._make_input()
        screen = TranscriptScreen(
            view, lambda: self.dialog is not None, self.keys.read_transcript, keyboard, self._output
        )
        async with self._give_screen():
            if self.app.is_done:  # while something else had the screen
                return
            self._browsing = screen
            try:
                await screen.run()
            except EOFError:
                self.keys.leave()
            finally:
                self._browsing = None

    @contextlib.asynccontextmanager
    async def _give_screen(self) -> AsyncIterator[None]:
        self._output.release()
        if not self.is_away:  # while keys are raw still: an Enter comes as a new line after that
            self.app.renderer.erase()
            self._print_blocks()
        async with in_terminal():
            self.is_away = True
            try:
                yield
            finally:
                self.is_away = False
                self._hide_question()
                self._back_at = time.monotonic()
                self._output.reset_attributes()
                self._output.show_cursor()
                self._output.flush()

    def suspend(self) -> None:
        """Stop, until the shell goes on with us."""

        async def stop() -> None:
            async with self._give_screen():
                self._output.drain()
                os.kill(0, signal.SIGTSTP)

        self.app.create_background_task(stop())

    def _hide_question(self) -> None:
        """What was typed while the question was away does not answer it."""
        if isinstance(self.dialog, ChoiceDialog):
            self.dialog.mark_hidden()


def _screen_size() -> Size:
    with contextlib.suppress(OSError, ValueError):
        found = os.get_terminal_size(sys.stdout.fileno())
        if found.columns and found.lines:
            return Size(rows=found.lines, columns=found.columns)
    return Size(rows=24, columns=screen_width())


def _find_color_depth() -> ColorDepth | None:
    """As many colours as committed blocks have; none with NO_COLOR."""
    if (wanted := ColorDepth.from_env()) is not None:
        return wanted
    return ColorDepth.TRUE_COLOR if has_true_colors(os.environ) else None
