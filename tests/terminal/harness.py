r"""A program in a terminal of its own: a pseudo-terminal, and a screen that reads as one does.

    with Screen([sys.executable, "-m", "treadle"], cwd=repository, env=environment) as screen:
        screen.wait_for("\n>")
        screen.type("hello\r")
        screen.wait_for("Yes.")

Nothing sleeps: every wait reads until what it waits for is there, and fails with the screen's
picture when the deadline is over. What a program draws as one picture is taken in as one, and each
picture by itself: a wait misses none, however late it looks.
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import pyte

import warm_process
from treadle.terminal.early_prompt import PLACEHOLDER
from treadle.terminal.layout import PLACEHOLDER_AT_WORK

T = TypeVar("T")

DEADLINE_S: Final = 60.0

TREADLE: Final = (sys.executable, "-m", "treadle")

BEGIN, END = b"\x1b[?2026h", b"\x1b[?2026l"
"""Around what is drawn as one picture."""

PICTURE_SIZE_MAX: Final = 32 * 1024
"""What is longer is taken in before its end, as terminals do that have waited long enough."""

LAST: Final = b"\x1b[0;0m"
"""Changes nothing; written behind all that a program wrote, to know when that has been read."""

ENTER: Final = "\r"
ESC: Final = "\x1b"
TAB: Final = "\t"
SHIFT_TAB: Final = "\x1b[Z"
BACKSPACE: Final = "\x7f"
UP: Final = "\x1b[A"
DOWN: Final = "\x1b[B"
RIGHT: Final = "\x1b[C"
LEFT: Final = "\x1b[D"
PAGE_UP: Final = "\x1b[5~"
PAGE_DOWN: Final = "\x1b[6~"
ALT_ENTER: Final = "\x1b\r"


def ctrl(letter: str) -> str:
    """The key that Ctrl and a letter make."""
    return chr(ord(letter.upper()) - 64)


def is_empty_input(line: str) -> bool:
    """Whether the line of a screen is the input with nothing in it but its placeholder."""
    return line.strip() in {">", *(f"> {words}" for words in (PLACEHOLDER, PLACEHOLDER_AT_WORK))}


def _take_terminal() -> None:
    """Make standard input the terminal that signals and suspends this session."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def pasted(text: str) -> str:
    """A text as a terminal hands it over that pastes it in brackets."""
    return f"\x1b[200~{text}\x1b[201~"


def _start(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    terminal: int,
    constants: Mapping[str, float],
) -> subprocess.Popen[bytes] | warm_process.WarmProcess:
    """A program that leads a session of its own, on the terminal; `treadle` with its imports."""
    if tuple(command[:3]) == TREADLE and warm_process.can_be_forked(environment):
        handles = (terminal, terminal, terminal)
        return warm_process.start(
            command[3:], folder, environment, handles, is_leader=True, constants=constants
        )
    assert not constants, "only what is forked can have other constants"
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=_take_terminal,  # noqa: PLW1509 - nothing else gives it one
    )


def _read(line: Any, width: int) -> str:
    return "".join(line[column].data for column in range(width)).rstrip()


class _TwoScreens(pyte.HistoryScreen):
    """A terminal with another screen for programs that take all of it, which pyte does not know.

    What is on it goes when they leave it, and nothing of it comes into the scrollback.
    """

    _other: Final = 1049

    def __init__(self, *given: Any, keeps_cleared: bool = False, **named: Any) -> None:
        self._main: tuple[Any, Any, Any] | None = None
        self._keeps_cleared = keeps_cleared
        super().__init__(*given, **named)

    def erase_in_display(self, how: int = 0, *args: Any, **named: Any) -> None:
        """As tmux does: what goes at one stroke from the first cell on is kept as scrollback."""
        at = self.cursor.y, self.cursor.x
        if self._keeps_cleared and self._main is None and (how == 2 or (how == 0 and at == (0, 0))):
            used = [number for number, line in enumerate(self.display) if line.strip()]
            for number in range(max(used, default=-1) + 1):
                self.history.top.append(self.buffer.pop(number, self.buffer[number]))
        super().erase_in_display(how, *args, **named)

    @property
    def is_on_other(self) -> bool:
        return self._main is not None

    def set_mode(self, *modes: int, **how: Any) -> None:
        if self._other in modes and how.get("private") and self._main is None:
            self._main = self.buffer, copy.copy(self.cursor), self.history
            self.history = self.history._replace(top=deque(), bottom=deque())
            self.buffer = defaultdict(self.buffer.default_factory)
        super().set_mode(*modes, **how)

    def reset_mode(self, *modes: int, **how: Any) -> None:
        if self._other in modes and how.get("private") and self._main is not None:
            self.buffer, self.cursor, self.history = self._main
            self._main = None
            self.dirty.update(range(self.lines))
        super().reset_mode(*modes, **how)


class Screen:
    """What a person in front of a terminal sees and does; leaving the `with` kills the program."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        columns: int = 80,
        rows: int = 24,
        constants: Mapping[str, float] | None = None,
        keeps_cleared: bool = False,
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.raw = bytearray()
        """All bytes that were taken in, for what a screen does not keep."""
        self._unseen = bytearray()
        self._screen = _TwoScreens(
            columns, rows, history=10_000, ratio=0.5, keeps_cleared=keeps_cleared
        )
        self._stream = pyte.ByteStream(self._screen)
        self._drawn: list[str] | None = None
        self._gone: dict[int, tuple[Any, str]] = {}  # by its number each line that does not change
        self._resize(theirs, columns, rows)
        self._theirs = theirs  # kept open, so that its modes can be asked for after the end
        environment = {
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            "PATH": os.environ["PATH"],
            **(env or {}),
        }
        self.process = _start([*command], cwd or Path.cwd(), environment, theirs, constants or {})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    @staticmethod
    def _resize(terminal: int, columns: int, rows: int) -> None:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    # what a person does

    def type(self, keys: str) -> None:
        """Press keys; see the constants above."""
        data = keys.encode()
        while data:  # a terminal takes 4 KiB at a time, and gives while it takes
            _, writable, _ = select.select([], [self._ours], [], 0.1)
            if writable:
                written = os.write(self._ours, data[:512])
                data = data[written:]
            self.read(0)

    def answer(self, keys: str) -> None:
        """Answer a question as soon as it takes keys; each of `keys` by itself, the last takes it.

        A choice is marked from when it does until it is answered.
        """
        self.wait_for(lambda screen: screen.is_asking)
        for key in keys[:-1]:
            self.type(key)
            self.wait_for(lambda screen, key=key: screen.is_marked(key))  # type: ignore[misc]
        if keys[-1] == ENTER:  # in a row with the letter it would be a paste
            self.read_for(0.1)
        self.type(keys[-1])
        self.wait_for(lambda screen: not screen.is_asking)

    @property
    def is_asking(self) -> bool:
        """Whether a row or a choice is marked."""
        return self.is_marked("")

    def is_marked(self, words: str) -> bool:
        """Whether the row or choice that is marked begins with these words."""
        return any(line.startswith(f"▸ {words}") for line in self.lines)

    def resize(self, columns: int, rows: int) -> None:
        """Drag the window's corner; the kernel sends SIGWINCH."""
        self.read(0)
        while self._see_next():
            pass
        for line in range(self._screen.lines - rows):  # pyte, other than terminals, drops them
            self._screen.history.top.append(self._screen.buffer[line])
        self._screen.resize(rows, columns)
        self._drawn, self._gone = None, {}
        self._resize(self._ours, columns, rows)

    def close_window(self) -> None:
        """Take the terminal away; nothing can be read or typed from here on."""
        for file in (self._ours, self._theirs):
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, file, inheritable=False)
            os.close(nothing)

    def hang_up(self) -> None:
        """Close the window: SIGHUP, and nothing to read or write any more."""
        os.kill(self.process.pid, signal.SIGHUP)

    # what a person sees

    def read(self, seconds: float) -> bool:
        """Take in the next picture that comes within a time; false if nothing came."""
        if self._see_next():
            return True
        readable, _, _ = select.select([self._ours], [], [], seconds)
        if not readable:
            return False
        try:
            data = os.read(self._ours, 65536)
        except OSError:
            return False
        self._unseen += data
        self._see_next()
        return bool(data)

    def _see_next(self) -> bool:
        """Take in what was read, to the end of a picture; false if there is no whole one."""
        begin, end, size = self._unseen.find(BEGIN), self._unseen.find(END), len(self._unseen)
        if end >= 0:
            return self._see(end + len(END))
        if begin < 0:  # or only a part of the mark has come so far
            tails = range(max(0, size - len(BEGIN) + 1), size)
            begin = next((at for at in tails if BEGIN.startswith(bytes(self._unseen[at:]))), size)
        return self._see(size if size > PICTURE_SIZE_MAX else begin)

    def _see(self, size: int) -> bool:
        data = bytes(self._unseen[:size])
        del self._unseen[:size]
        self.raw += data
        self._stream.feed(data)
        self._drawn = None
        return bool(data)

    def read_for(self, seconds: float) -> None:
        """Take in all that comes within a time, which is how a person pauses."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.read(left)
        while self.read(0):
            pass

    def _read_the_rest(self, deadline_s: float = DEADLINE_S) -> None:
        """Take in all that a program wrote which has ended: it may still be on its way."""
        while self.read(0):
            pass
        os.write(self._theirs, LAST)
        until = time.monotonic() + deadline_s
        while LAST not in self.raw + self._unseen:  # what it has started may still write
            assert time.monotonic() < until, f"what it wrote does not come:\n{self.picture()}"
            self.read(0.05)
        self._see(len(self._unseen))
        at = self.raw.rindex(LAST)
        del self.raw[at : at + len(LAST)]

    def look_away(self, seconds: float) -> None:
        """Read nothing for a time, as over a slow line; what comes waits."""
        threading.Event().wait(seconds)

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, top to bottom, without blanks behind."""
        if self._drawn is None:
            self._drawn = [line.rstrip() for line in self._screen.display]
        return [*self._drawn]

    @property
    def scrollback(self) -> list[str]:
        """The lines that have left the screen at its top."""
        width, left = self._screen.columns, self._screen.history.top
        gone = {id(line): self._gone.get(id(line)) or (line, _read(line, width)) for line in left}
        self._gone = gone
        return [words for _, words in gone.values()]

    @property
    def text(self) -> str:
        """Everything: scrollback and screen."""
        return "\n".join([*self.scrollback, *self.lines]).rstrip("\n")

    @property
    def shown(self) -> str:
        """The screen alone, without blank lines below."""
        return "\n".join(self.lines).rstrip("\n")

    @property
    def is_on_other(self) -> bool:
        """Whether a program has taken the whole terminal; what was there comes back behind it."""
        return self._screen.is_on_other

    @property
    def cursor(self) -> tuple[int, int]:
        """Line and column of the cursor, from 0."""
        return self._screen.cursor.y, self._screen.cursor.x

    @property
    def terminal(self) -> int:
        """The program's end of the terminal, to ask for its modes."""
        return self._theirs

    @property
    def columns(self) -> int:
        """The width of the screen."""
        return int(self._screen.columns)

    @property
    def is_cursor_visible(self) -> bool:
        """Whether the cursor can be seen."""
        return not self._screen.cursor.hidden

    def style_at(self, line: int, column: int) -> pyte.screens.Char:
        """The character there, with `fg`, `bg`, `bold`, `reverse`."""
        char: pyte.screens.Char = self._screen.buffer[line][column]
        return char

    def line_with(self, words: str) -> int:
        """The number of the last line of the screen with these words."""
        found = [number for number, line in enumerate(self.lines) if words in line]
        assert found, f"no line with {words!r}:\n{self.picture()}"
        return found[-1]

    def picture(self) -> str:
        """The screen in a frame, for messages."""
        rule = "-" * self._screen.columns
        return "\n".join([rule, *self.lines, rule, f"cursor {self.cursor}"])

    # waiting

    def wait_for(
        self, what: str | Callable[[Screen], bool], deadline_s: float = DEADLINE_S
    ) -> None:
        """Read until words are in `text`, or a predicate of this screen holds.

        Raises:
            AssertionError: not within the deadline, or the program ended without it.
        """
        until = time.monotonic() + deadline_s
        wanted = repr(what) if isinstance(what, str) else "what was waited for"
        has_ended = False
        while not (what in self.text if isinstance(what, str) else what(self)):
            if self.read(0 if has_ended else 0.05):
                continue
            assert not has_ended, f"the program ended before {wanted}\n{self.picture()}"
            assert time.monotonic() < until, f"never saw {wanted}:\n{self.picture()}"
            if self.process.poll() is not None:
                self._read_the_rest()
                has_ended = True

    def wait_for_shown(self, words: str, deadline_s: float = DEADLINE_S) -> None:
        """Read until words are on the screen itself, scrollback left aside."""
        self.wait_for(lambda screen: words in screen.shown, deadline_s)

    def wait_until_gone(self, words: str, deadline_s: float = DEADLINE_S) -> None:
        """Read until words are no longer on the screen."""
        self.wait_for(lambda screen: words not in screen.shown, deadline_s)

    def wait_for_end(self, deadline_s: float = DEADLINE_S) -> int:
        """The exit code; everything that was written is read."""
        until = time.monotonic() + deadline_s
        while self.process.poll() is None:
            assert time.monotonic() < until, f"it did not end:\n{self.picture()}"
            self.read(0.05)
        self._read_the_rest()
        return self.process.wait()

    @property
    def sends_signals(self) -> bool:
        """Whether Ctrl+C is a signal: a command of the chat has the terminal."""
        return bool(termios.tcgetattr(self._theirs)[3] & termios.ISIG)

    @property
    def is_silent(self) -> bool:
        """Whether a command of the chat has the terminal, and keys wait for the chat."""
        flags = termios.tcgetattr(self._theirs)[3]
        return flags & (termios.ISIG | termios.ICANON | termios.ECHO) == termios.ISIG

    @property
    def is_cooked(self) -> bool:
        """Whether the terminal's modes are as a shell wants them: echo, lines, signals."""
        flags = termios.tcgetattr(self._theirs)[3]
        wanted = termios.ECHO | termios.ICANON | termios.ISIG
        return flags & wanted == wanted


class Hand:
    """Presses keys at a pace that the clock of the program goes by, and notes if it was held up."""

    def __init__(self) -> None:
        self.is_steady = True
        self._at = 0.0

    def begin(self) -> None:
        """From here on it counts."""
        self._at = time.monotonic()

    def comes_within(self, seconds: float) -> None:
        """What it has just done came so soon behind the last, or the hand was held up."""
        now = time.monotonic()
        self.is_steady = self.is_steady and now - self._at < seconds
        self._at = now


def steadily(act: Callable[[Hand], T]) -> T:
    """What came of acting with a hand that was not held up; as often as that takes.

    A machine that stands still in the middle of a word makes two words of it, and nothing is
    wrong with a program that hears two.
    """
    for _ in range(20):
        hand = Hand()
        found = act(hand)
        if hand.is_steady:
            return found
    raise AssertionError("this machine stands still too often to type on it")
