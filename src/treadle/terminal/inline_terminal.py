"""The drawn terminal: inline, below what was printed, with the terminal's own scrollback.

No answer of the terminal is waited for, over a slow line or none. Only a transcript takes the
terminal's other screen (`transcript_screen.py`).
"""

from __future__ import annotations

import atexit
import contextlib
import gc
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from treadle.terminal.early_prompt import EarlyPrompt, screen_height, screen_width
from treadle.terminal.ports import (
    DialogChoice,
    InputHandler,
    ListRow,
    LiveView,
    QueuedInput,
    RowPreview,
    SlashCommand,
    StatusFields,
)
from treadle.terminal.screen_state import ScreenState
from treadle.terminal.status_line import status_line

if TYPE_CHECKING:
    import asyncio

    from rich.console import RenderableType

    from treadle.terminal.background_color import ThemeChoice
    from treadle.terminal.question_pane import QuestionPane
    from treadle.terminal.toolkit_application import ToolkitApplication

T = TypeVar("T")

GARBAGE_COUNT: Final = 10_000
"""Objects that are made, and not freed, until garbage is looked for: some milliseconds' worth."""


class InlineTerminal:
    """`ports.Terminal`. The empty input is on the screen when it is made.

    What draws well is imported by `run`. Until then, and after it, blocks are simply printed.
    """

    is_plain = False
    is_unread = False
    """Whether the terminal took nothing any more at the end; who writes there waits for good."""

    def __init__(
        self,
        *,
        view: LiveView | None,
        commands: Sequence[SlashCommand],
        folder: Path,
        history: Path,
        theme: ThemeChoice | None = None,
    ) -> None:
        self._scene = ScreenState(view, commands, theme)
        self._folder = folder
        self._history = history
        self._drawing: ToolkitApplication | None = None
        self._asked: QuestionPane | None = None
        self._is_stopped = False
        self._running: asyncio.Event | None = None
        self._laying_out: asyncio.Future[None] | None = None
        self._opening = EarlyPrompt()
        self._opening.begin()
        atexit.register(self._opening.end)

    @property
    def width(self) -> int:
        """Columns, as they are now."""
        return screen_width()

    @property
    def height(self) -> int:
        """Rows, as they are now."""
        return screen_height()

    @property
    def view(self) -> LiveView | None:
        """What draws the unfinished."""
        return self._scene.view

    @view.setter
    def view(self, view: LiveView) -> None:
        self._scene.view = view

    @property
    def commands(self) -> Sequence[SlashCommand]:
        """What `/` completes."""
        return self._scene.commands

    @commands.setter
    def commands(self, commands: Sequence[SlashCommand]) -> None:
        self._scene.commands = commands

    @property
    def keeps_history(self) -> bool:
        """Whether what is entered goes into the history file; false in a private thread."""
        return self._scene.keeps_history

    @keeps_history.setter
    def keeps_history(self, keeps: bool) -> None:
        self._scene.keeps_history = keeps

    @property
    def is_away(self) -> bool:
        """Whether something else has the screen; Ctrl+C is then a SIGINT to all of the group."""
        return self._drawing is not None and self._drawing.is_away

    async def run(self, keys: InputHandler) -> None:
        """Show the input and hear the keyboard until `stop`, or until the terminal is gone."""
        from treadle.terminal.toolkit_application import ToolkitApplication

        try:
            if self._is_stopped:
                return
            self._drawing = ToolkitApplication(
                self._scene, keys, folder=self._folder, history=self._history
            )
            self._running_event().set()
            # Each drawing leaves hundreds of objects that refer to each other. A search among a
            # hundred thousand of them would hold a key up for longer than a drawing takes.
            gc.freeze()  # what is imported stays, and need not be searched
            gc.set_threshold(GARBAGE_COUNT)
            await self._drawing.run(self._opening.clear)
        finally:
            if self._drawing is not None and self._drawing.is_unread:
                self.is_unread = True
                self._opening.silence()
            self._drawing = None
            self._opening.end()
            atexit.unregister(self._opening.end)

    def stop(self) -> None:
        """End `run`; the screen is left tidy, below what was committed."""
        self._is_stopped = True
        if self._drawing is not None:
            self._drawing.stop()

    def commit(self, *blocks: RenderableType) -> None:
        """Print finished blocks above the input; see `committing.printed` for what a `str` is."""
        self._print(self._render(*blocks))

    def _render(self, *blocks: RenderableType) -> str:
        from treadle.terminal.block_text import render_blocks

        return render_blocks(blocks, self.width).replace("\n", "\r\n")

    def _print(self, text: str) -> None:
        if self._drawing is not None:
            self._drawing.write(text)
        else:
            self._opening.print(text)

    def commit_soon(self, block: RenderableType) -> None:
        """The same, laid out in a thread, and printed when nothing is asked; one at a time.

        A million characters in short lines take rich seconds. A question stays where it was read.
        """
        import asyncio

        if self._drawing is None:
            self.commit(block)
        elif self._laying_out is None or self._laying_out.done():
            self._laying_out = asyncio.ensure_future(self._render_in_thread(self._drawing, block))
        else:
            self._drawing.hands.show_hint("an output is being laid out; one at a time")

    async def _render_in_thread(self, drawing: ToolkitApplication, block: RenderableType) -> None:
        await drawing.write_between_dialogs(await _run_in_daemon(lambda: self._render(block)))

    def call_person(self, words: str) -> None:
        """Call somebody who has gone elsewhere."""
        if self._drawing is not None:
            self._drawing.call_person(words)

    def refresh(self) -> None:
        """Draw soon; at most 30 times a second. What is live is drawn ten times a second anyway."""
        if self._drawing is not None:
            self._drawing.redraw_soon()

    def show_status(self, facts: StatusFields) -> None:
        """What the status line tells from now on."""
        self._scene.facts = facts
        if self._drawing is not None:
            self._drawing.redraw()
        elif not self._is_stopped:
            line = status_line(facts, self.width - 1)
            self._opening.show_status("".join(text for _, text in line))

    def show_queue(self, queued: Sequence[QueuedInput]) -> None:
        """What waits to be heard, shown above the input."""
        self._scene.queued = (*queued,)
        self.refresh()

    def fill(self, text: str) -> None:
        """Put a text into the input, to be edited and sent."""
        if self._drawing is not None:
            self._drawing.fill(text)
        else:
            self._scene.filled = text

    async def choose(
        self,
        question: RenderableType,
        choices: Sequence[DialogChoice],
        *,
        body: RenderableType | None = None,
        foot: RenderableType | None = None,
    ) -> str:
        """Wait for one of the choices: by its key, or arrows and Enter.

        Esc and Ctrl+C take the last choice. What was typed before stays in the input.

        Raises:
            EOFError: the terminal was closed or stopped, or Ctrl+D pressed.
        """
        drawing = await self._wait_for_application()
        from treadle.terminal.question_pane import QuestionPane

        self._asked = QuestionPane(question, body, foot)
        return await drawing.choose(self._asked, choices)

    async def enter(
        self, label: str, text: str = "", *, is_long: bool = False, is_answer: bool = False
    ) -> str | None:
        """A text from the person; `None` on Esc, and if the terminal is closed."""
        return await self._enter(label, text, is_long=is_long, is_answer=is_answer)

    async def enter_secret(self, label: str) -> str | None:
        """A text that is shown as dots; `None` on Esc, and if the terminal is closed."""
        return await self._enter(label, "", is_secret=True)

    async def _enter(
        self, label: str, text: str, *, is_answer: bool = False, **how: bool
    ) -> str | None:
        with contextlib.suppress(EOFError):
            drawing = await self._wait_for_application()
            from treadle.terminal.dialogs import TextDialog

            pane = self._asked if is_answer else None
            return await drawing.enter(text, TextDialog(label, pane=pane, **how))
        return None

    async def pick(
        self,
        title: str,
        search: Callable[[str], Sequence[ListRow]],
        preview: RowPreview | None = None,
    ) -> str | None:
        """One row of a list; `search` is called in a thread, not for each key of a fast typist.

        `None` on Esc, and if the terminal is closed. What `search` raises is raised here.
        """
        try:
            return await (await self._wait_for_application()).pick(title, search, preview)
        except EOFError:
            return None

    async def run_in_terminal(self, work: Callable[[], T]) -> T:
        """Run something in a thread, with screen, keyboard and the terminal's usual modes."""
        return await (await self._wait_for_application()).run_in_terminal(work)

    async def _wait_for_application(self) -> ToolkitApplication:
        await self._running_event().wait()
        if self._drawing is None:
            raise EOFError
        return self._drawing

    def _running_event(self) -> asyncio.Event:
        import asyncio

        if self._running is None:
            self._running = asyncio.Event()
        return self._running


async def _run_in_daemon(work: Callable[[], T]) -> T:
    """Do it in a thread for which the end of the program does not wait. Raises what it raises."""
    import asyncio
    import threading

    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(settle_result: Callable[[], None]) -> None:
        if not result.done():
            settle_result()

    def run() -> None:
        try:
            found = work()
            done = partial(result.set_result, found)
        except Exception as error:  # noqa: BLE001  raised where it is awaited
            done = partial(result.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, done)

    threading.Thread(target=run, name="layout", daemon=True).start()
    return await result
