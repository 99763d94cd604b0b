"""The plain terminal: lines in, lines out, as screen readers and simple terminals want them.

A line that ends with a backslash goes on in the next. While the agent works, a line is heard after
the current round of tools; one that begins with `>` when the turn is over.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
import sys
import termios
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from treadle.terminal.block_text import render_blocks
from treadle.terminal.choice_dialog import KEY_PAUSE_S, VISIBLE_S_MIN
from treadle.terminal.early_prompt import PROMPT, screen_height, screen_width
from treadle.terminal.keys import QUIT_WITHIN_S, SIGNAL_S
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
from treadle.terminal.writer import OutputWriter
from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from rich.console import RenderableType

T = TypeVar("T")

ANNOUNCE_S: Final = 15.0
"""What is still going on is told so often, if it has changed."""

ROWS_MAX: Final = 20
"""Rows of a list that are read out; more are found by searching."""


class PlainTerminal:
    """`ports.Terminal` with standard input and output, whatever they are."""

    is_plain = True
    is_unread = False
    """Whether the terminal took nothing any more at the end; who writes there waits for good."""

    def __init__(self, *, view: LiveView | None, commands: Sequence[SlashCommand]) -> None:
        self.view = view
        self.commands = commands
        self._notifies = True
        self.keeps_history = False
        """Nothing is kept: lines are entered with what the terminal itself offers."""
        self.is_away = False
        self._keys: InputHandler | None = None
        self._done: asyncio.Event | None = None
        self._is_stopped = False
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._begun = ""
        self._continued: list[str] = []
        self._waiting: deque[asyncio.Future[str]] = deque()
        self._turn: asyncio.Lock | None = None
        self._is_prompting = False
        self._queued: Sequence[QueuedInput] = ()
        self._told = ""
        self._told_at = time.monotonic()
        self._interrupted_at = -1e9
        self._is_at_end = False
        self._is_asking = self._is_followed = False
        self._back_at = -1e9
        self._writer = OutputWriter(sys.stdout.fileno())
        self._is_over = False
        if sys.stdout.isatty():
            self._prompt_now()

    @property
    def width(self) -> int:
        """Columns, as they are now."""
        return screen_width()

    @property
    def height(self) -> int:
        """Rows, as they are now."""
        return screen_height()

    async def run(self, keys: InputHandler) -> None:
        """Hear lines until `stop`; the end of the input asks to leave."""
        self._keys = keys
        self._done = asyncio.Event()
        if self._is_stopped:
            self._end()
            return
        self._prompt_soon()
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ValueError, RuntimeError):  # not in the main thread
            loop.add_signal_handler(signal.SIGINT, self._on_sigint)
        try:
            with self._watch_input():
                await self._done.wait()
        finally:
            with contextlib.suppress(ValueError, RuntimeError):
                loop.remove_signal_handler(signal.SIGINT)
            self._fail_pending_reads()
            self._end()

    def _end(self) -> None:
        """From here on everything is written when it is said, or never."""
        self._end_prompt()
        self._is_over = True
        self._write("")

    def stop(self) -> None:
        """End `run`."""
        self._is_stopped = True
        if self._done is not None:
            self._done.set()

    def commit(self, *blocks: RenderableType) -> None:
        """Print blocks as text without colours, boxes, or live parts."""
        self._print(render_blocks(blocks, self.width, is_plain=True))

    commit_soon = commit

    def call_person(self, words: str) -> None:
        """Ring, where somebody may hear it; the words stand there already."""
        if self._notifies and sys.stdout.isatty():
            self._write("\a")

    def refresh(self) -> None:
        """Tell what is going on, seldom: the last line of what is live, if it is another."""
        now = time.monotonic()
        if self.view is None or now - self._told_at < ANNOUNCE_S:
            return
        live = self.view.live_lines(self.width)
        words = sanitize_text("".join(text for _, text in live[-1]).strip()) if live else ""
        if words and words != self._told:
            self._told, self._told_at = words, now
            self._print(f"{words}\n")

    def show_status(self, facts: StatusFields) -> None:
        """Nothing is shown: they are told when asked for (/status)."""
        self._notifies = facts.notifies

    def show_queue(self, queued: Sequence[QueuedInput]) -> None:
        """Tell what has been queued since."""
        known = Counter(self._queued)
        for waiting in queued:
            known[waiting] -= 1
            if known[waiting] < 0:
                self._print(f"{_describe_delivery(waiting)}: {sanitize_text(waiting.text)}\n")
        self._queued = (*queued,)

    def fill(self, text: str) -> None:
        """Print a text, to be sent again as it is or otherwise: lines cannot be filled."""
        self._print(f"your text was:\n{sanitize_text(text)}\n")

    async def choose(
        self,
        question: RenderableType,
        choices: Sequence[DialogChoice],
        *,
        body: RenderableType | None = None,
        foot: RenderableType | None = None,
    ) -> str:
        """Print question and choices; read lines until one is a key, or the words, of a choice."""
        async with self._dialog_lock():
            self.commit(*(part for part in (question, body, foot) if part is not None))
            self._print("".join(f"{choice.key}: {choice.words}\n" for choice in choices))
            self.call_person("")
            while True:
                line = (await self._read_answer()).strip()
                for same in (str.__eq__, lambda a, b: a.lower() == b.lower()):
                    for choice in choices:
                        if same(line, choice.key) or same(line, choice.words):
                            return choice.key
                keys = ", ".join(choice.key for choice in choices)
                self._print(f"one of: {keys}\n")

    async def _read_answer(self) -> str:
        """A line for a question, not one that came before it could be read or in a row of them."""
        while True:
            self._is_asking = True
            try:
                await self._wait_until_written()  # nobody answers what is not on the screen
                self._discard_typed_input()
                asked_at, self._is_followed = time.monotonic(), False
                line = await self._read_line("your choice: ")
                stood_s = time.monotonic() - asked_at
                await asyncio.sleep(KEY_PAUSE_S)
            finally:
                self._is_asking = False
                self._prompt_soon()
            if stood_s >= VISIBLE_S_MIN and not (self._is_followed or self._begun):
                return line
            self._print("lines before this question, or in a row, were not taken\n")

    async def enter(
        self, label: str, text: str = "", *, is_long: bool = False, is_answer: bool = False
    ) -> str | None:
        """Read a text; an empty line leaves the text that stands there, or none if none does.

        A long one may have several lines, each but the last ending with a backslash.
        """
        async with self._dialog_lock():
            if text:
                self._print(f"{sanitize_text(label)}, now:\n{sanitize_text(text)}\n")
            try:
                entered = await self._read_line(f"{sanitize_text(label)}: ")
                while is_long and entered.endswith("\\"):
                    entered = f"{entered[:-1]}\n{await self._read_line('')}"
            except EOFError:
                return None
            return entered or text or None

    async def enter_secret(self, label: str) -> str | None:
        """Read a line that the terminal does not show; an empty one is none."""
        async with self._dialog_lock():
            with _without_echo():
                try:
                    entered = await self._read_line(f"{sanitize_text(label)}: ")
                except EOFError:
                    return None
            self._print("\n")
            return entered or None

    async def pick(
        self,
        title: str,
        search: Callable[[str], Sequence[ListRow]],
        preview: RowPreview | None = None,
    ) -> str | None:
        """Print numbered rows; read a number, words to search for, or nothing for none."""
        async with self._dialog_lock():
            words = ""
            while True:
                rows = await asyncio.to_thread(search, words)
                lines = [
                    f"{at}: {sanitize_text(row.text)}" + _format_details(row)
                    for at, row in enumerate(rows[:ROWS_MAX], 1)
                ]
                more = [f"and {len(rows) - ROWS_MAX} more"] * (len(rows) > ROWS_MAX)
                body = [*lines, *more] or ["nothing found"]
                self._print("\n".join([sanitize_text(title), *body, ""]))
                try:
                    words = (await self._read_line("a number, words to search, or Enter: ")).strip()
                except EOFError:
                    return None
                if not words:
                    return None
                if (
                    words.isdecimal()
                    and 0 < int(words) <= len(lines)
                    and rows[int(words) - 1].value
                ):
                    return rows[int(words) - 1].value

    async def run_in_terminal(self, work: Callable[[], T]) -> T:
        """Run something in a thread; nothing is read meanwhile."""
        self._end_prompt()
        self.is_away = True
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ValueError, OSError):
            loop.remove_reader(sys.stdin.fileno())
        modes = None
        with contextlib.suppress(termios.error, OSError):
            modes = termios.tcgetattr(sys.stdin.fileno())
        try:
            await asyncio.to_thread(self._writer.drain)
            return await asyncio.to_thread(work)
        finally:
            if modes is not None:
                with contextlib.suppress(termios.error, OSError):
                    termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, modes)
            self.is_away = False
            self._back_at = time.monotonic()
            if self._done is not None and not self._done.is_set() and not self._is_at_end:
                loop.add_reader(sys.stdin.fileno(), self._read)
            self._prompt_soon()

    # reading

    @contextlib.contextmanager
    def _watch_input(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        file = sys.stdin.fileno()
        try:
            loop.add_reader(file, self._read)
        except PermissionError:  # a plain file, which is always ready
            loop.call_soon(self._read_all)
        try:
            yield
        finally:
            loop.remove_reader(file)

    def _read_all(self) -> None:
        while not self._is_at_end:
            self._read()

    def _read(self) -> None:
        try:
            data = os.read(sys.stdin.fileno(), 65536)
        except OSError:  # the terminal is gone
            data = b""
        self._is_prompting = self._is_prompting and not data.endswith(b"\n")
        *lines, self._begun = (self._begun + self._decoder.decode(data)).split("\n")
        for line in lines:
            self._handle_line(line)
        if not data:
            self._is_at_end = True
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            if self._begun:
                self._handle_line(self._begun)
            self._fail_pending_reads()
            if self._keys is not None:
                self._keys.leave()

    def _handle_line(self, line: str) -> None:
        assert self._keys is not None
        if self._waiting:
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_result(line)
            return
        if self._is_asking:
            self._is_followed = True
            return
        if line.endswith("\\"):
            self._continued.append(line[:-1])
            return
        text = "\n".join([*self._continued, line]).strip()
        self._continued.clear()
        waits = self._keys.is_at_work and text.startswith(">")
        if text := text[1:].strip() if waits else text:
            self._keys.submit(text, steers=not waits)
        self._prompt_soon()

    async def _read_line(self, prompt: str) -> str:
        if self._is_at_end or self._is_stopped:
            raise EOFError
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._end_prompt()
        self._write(prompt)
        try:
            return await answer
        finally:
            if answer in self._waiting:
                self._waiting.remove(answer)
            self._prompt_soon()

    def _discard_typed_input(self) -> None:
        """What was typed before a question was shown does not answer it."""
        self._begun = ""
        with contextlib.suppress(termios.error, OSError):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def _fail_pending_reads(self) -> None:
        while self._waiting:
            answer = self._waiting.popleft()
            if not answer.done():
                answer.set_exception(EOFError())

    def _on_sigint(self) -> None:
        """Ctrl+C: interrupt; twice: quit."""
        if self.is_away or self._keys is None:
            return
        now = time.monotonic()
        if now - self._back_at < SIGNAL_S:
            return
        if now - self._interrupted_at < QUIT_WITHIN_S:
            self._keys.leave()
            return
        self._interrupted_at = now
        self._begun = ""
        self._continued.clear()
        if not self._keys.interrupt():
            self._print("Ctrl+C again: quit\n")

    def _dialog_lock(self) -> asyncio.Lock:
        if self._turn is None:
            self._turn = asyncio.Lock()
        return self._turn

    # writing

    def _print(self, text: str) -> None:
        self._end_prompt()
        self._write(text)
        self._prompt_soon()

    def _prompt_soon(self) -> None:
        """Ask for a line soon: what is printed at a time has one prompt below it."""
        with contextlib.suppress(RuntimeError):  # nothing runs yet, or any more
            asyncio.get_running_loop().call_soon(self._prompt_now)

    def _prompt_now(self) -> None:
        """Ask for a line, unless that has been done or something else is asked for."""
        if self.is_away or self._is_asking:
            return
        if not self._is_prompting and not self._waiting and not self._is_stopped:
            self._write(PROMPT)
            self._is_prompting = True

    def _end_prompt(self) -> None:
        if self._is_prompting:
            self._write("\n")
            self._is_prompting = False

    def _write(self, text: str) -> None:
        if self.is_unread:
            return
        self._writer.put(text.encode(sys.stdout.encoding or "utf-8", "replace"))
        if self._is_over:
            self.is_unread = not self._writer.drain()

    async def _wait_until_written(self) -> None:
        while not (self._is_stopped or await asyncio.to_thread(self._writer.drain)):
            pass


@contextlib.contextmanager
def _without_echo() -> Iterator[None]:
    """The terminal shows nothing of what is typed, and drops what was typed before."""
    file = sys.stdin.fileno()
    try:
        found = termios.tcgetattr(file)
    except (termios.error, OSError):  # no terminal, which shows nothing
        yield
        return
    silent = [*found]
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(file, termios.TCSAFLUSH, silent)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error, OSError):  # the terminal is gone
            termios.tcsetattr(file, termios.TCSADRAIN, found)


def _describe_delivery(waiting: QueuedInput) -> str:
    """When it is heard, or that it is not said yet."""
    if not waiting.is_sent:
        return "waits, not sent yet"
    if waiting.text.startswith(("!", "/")):
        return "when the turn is over"
    return f"heard after {'this round of tools' if waiting.steers else 'this turn'}"


def _format_details(row: ListRow) -> str:
    """What a row tells behind its text."""
    words = ", ".join(sanitize_text(one) for one in (*row.cells, row.detail) if one)
    return f" ({words})" if words else ""
