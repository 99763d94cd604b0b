"""The transcript on a screen of its own: keys, drawing, and what takes long beside them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys as Pressed
from prompt_toolkit.layout.containers import Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.layout import Layout

from treadle.errors import TreadleError
from treadle.terminal.buffered_output import BufferedOutput
from treadle.terminal.live_lines import crop_text
from treadle.terminal.styles import prompt_style
from treadle.terminal.transcript_view import TranscriptView

if TYPE_CHECKING:
    from treadle.app.threads.transcript import Transcript

KEYS_TEXT = "Enter open, close · Tab next · / search · n N again · g G ends · q back"
CURSOR_STYLE = " reverse"
NEWS_S_MIN: Final = 0.3
NEWS_REST: Final = 10
"""Seconds between two looks at the thread, and how many times as long as the last one took."""


class TranscriptScreen:
    """A transcript, until its person has seen enough.

    Args:
        view: what is shown.
        wants_person: whether something in the chat waits for them.
        read: see `Keys.read_transcript`; asked for news.
        keyboard: the keys.
        output: the screen.
    """

    def __init__(
        self,
        view: TranscriptView,
        wants_person: Callable[[], bool],
        read: Callable[..., Awaitable[Transcript | None]],
        keyboard: Input,
        output: BufferedOutput,
    ) -> None:
        self._view = view
        self._wants_person = wants_person
        self._read = read
        self._output = output
        self._words: str | None = None
        """What is typed to be looked for; `None` while nothing is."""
        self._found = ""
        """What was looked for last."""
        self._note = ""
        self._stop = threading.Event()
        self._work: asyncio.Task[None] | None = None
        self._app: Application[None] = Application(
            layout=Layout(
                Window(FormattedTextControl(self._text, focusable=True, show_cursor=False))
            ),
            key_bindings=self._bind(),
            input=keyboard,
            output=output,
            full_screen=True,
            include_default_pygments_style=False,
            enable_page_navigation_bindings=False,
            before_render=lambda _: self._before_drawing(),
            after_render=lambda _: output.release(),
            terminal_size_polling_interval=None,
        )
        self._app.ttimeoutlen = self._app.timeoutlen = 0.05

    async def run(self) -> None:
        """Show it; raises `EOFError` if the terminal is gone."""
        if self._view.parts.can_open(
            self._view.cursor.part
        ):  # the newest output: it is what is wanted
            self._toggle()
        following = asyncio.ensure_future(self._follow())
        try:
            await self._app.run_async(set_exception_handler=False, handle_sigint=False)
        finally:
            following.cancel()
            self._stop.set()
            if self._work is not None:
                self._work.cancel()

    def stop(self) -> None:
        """End `run`."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    async def _follow(self) -> None:
        """Show what happens meanwhile; a long thread takes a while to read, so it rests longer."""
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            if (news := await self._read(only_news=True)) is not None:
                while self._work is not None:  # it counts the parts as they are
                    await asyncio.wait([self._work])
                self._view.replace(news)
                self._app.invalidate()
            await asyncio.sleep(max(NEWS_S_MIN, NEWS_REST * (clock() - began)))

    # ---- drawing -------------------------------------------------------------------------------

    def _before_drawing(self) -> None:
        self._output.hold()
        size: Size = self._output.get_size()
        self._view.resize(size.columns, max(1, size.rows - 1))

    def _text(self) -> StyleAndTextTuples:
        text: StyleAndTextTuples = []
        count = 0
        for line, is_cursor in self._view.screen():
            look = CURSOR_STYLE if is_cursor else ""
            text += [(prompt_style(style) + look, words) for style, words in line]
            if is_cursor and not any(words for _, words in line):
                text.append((look, " "))
            text.append(("", "\n"))
            count += 1
        text.append(("", "\n" * (self._view.height - count)))
        text.append((prompt_style("dim"), crop_text(self._footer(), self._view.width - 1)))
        return text

    def _footer(self) -> str:
        if self._words is not None:
            return f"/{self._words}"
        waits = "a question waits in the chat: q" if self._wants_person() else ""
        return self._note or waits or KEYS_TEXT

    # ---- keys ----------------------------------------------------------------------------------

    def _bind(self) -> KeyBindings:
        bound = KeyBindings()
        is_typing = Condition(lambda: self._words is not None)

        def on(*presses: str, do: Callable[[], None]) -> None:
            for press in presses:

                @bound.add(press, filter=~is_typing)
                def _(_event: KeyPressEvent) -> None:
                    self._note = ""
                    do()

        view = self._view
        on("down", "j", do=lambda: view.move(1))
        on("up", "k", do=lambda: view.move(-1))
        on("pagedown", " ", "c-f", do=lambda: view.page(1))
        on("pageup", "b", "c-b", do=lambda: view.page(-1))
        on("home", "g", do=view.move_to_start)
        on("end", "G", do=view.move_to_end)
        on("tab", do=lambda: view.move_to_head(1))
        on("s-tab", do=lambda: view.move_to_head(-1))
        on("enter", "o", do=self._toggle)
        on("right", do=lambda: None if self._is_open else self._toggle())
        on("left", do=lambda: self._toggle() if self._is_open else None)
        on("/", do=self._begin_search)
        on("n", do=lambda: self._search(is_back=False))
        on("N", do=lambda: self._search(is_back=True))
        on("c-l", do=lambda: self._app.renderer.clear())  # noqa: PLW0108  it is made later
        on("q", "c-o", "c-d", do=self.stop)
        on("escape", "c-c", do=self._leave_or_stop_work)

        @bound.add(Pressed.Any, filter=is_typing)
        def _(event: KeyPressEvent) -> None:
            self._words = (self._words or "") + event.data.replace("\n", " ")

        @bound.add("backspace", filter=is_typing)
        def _(_event: KeyPressEvent) -> None:
            self._words = self._words[:-1] if self._words else None

        @bound.add(Pressed.BracketedPaste, filter=is_typing)
        def _(event: KeyPressEvent) -> None:
            self._words = (self._words or "") + " ".join(event.data.split())

        @bound.add("enter", filter=is_typing)
        def _(_event: KeyPressEvent) -> None:
            self._found, self._words = self._words or self._found, None
            self._search(is_back=False)

        @bound.add("escape", filter=is_typing)
        @bound.add("c-c", filter=is_typing)
        def _(_event: KeyPressEvent) -> None:
            self._words = None

        return bound

    @property
    def _is_open(self) -> bool:
        return self._view.cursor.part in self._view.open

    def _begin_search(self) -> None:
        self._words = ""

    def _leave_or_stop_work(self) -> None:
        """Esc and Ctrl+C end what takes long, else the transcript."""
        if self._work is None:
            self.stop()
        else:
            self._stop.set()

    # ---- what takes long -----------------------------------------------------------------------

    def _toggle(self) -> None:
        view, at = self._view, self._view.cursor.part
        if at in view.open or not view.parts.needs_reading(at):
            view.toggle(at)
            return

        async def read() -> None:
            await asyncio.to_thread(view.parts.load, at)
            if not self._stop.is_set():
                view.toggle(at)

        self._begin("reading", read())

    def _search(self, *, is_back: bool) -> None:
        words = self._found
        if not words:
            return

        async def search() -> None:
            found = await asyncio.to_thread(
                self._view.find, words, self._stop.is_set, is_back=is_back
            )
            if found is not None:
                await asyncio.to_thread(self._view.parts.load, found.part)
                self._view.reveal(found)
            elif not self._stop.is_set():
                self._note = f"not found {'above' if is_back else 'below'}: {words}"

        self._begin("searching", search())

    def _begin(self, what: str, work: Awaitable[None]) -> None:
        """Do one thing beside the keys; of a second one nothing comes until it is done."""
        if self._work is not None:
            asyncio.ensure_future(work).cancel()
            return
        self._stop.clear()
        self._note = f"{what} … (Esc stops)"

        async def do() -> None:
            try:
                before = self._note
                await work
                if self._note == before:
                    self._note = ""
            except TreadleError as error:
                self._note = error.message
            finally:
                self._work = None
                self._app.invalidate()

        self._work = asyncio.ensure_future(do())
