"""The empty input, drawn by hand: it is there before what draws it well has been imported.

From `begin` on, keys are neither echoed nor cooked, so that what is typed meanwhile waits for the
real input, whole.
"""

from __future__ import annotations

import contextlib
import os
import sys
import termios
from typing import Any, Final

PROMPT: Final = "> "
PLACEHOLDER: Final = "(say what to do · / commands · @ files · ! a command of yours)"
"""In the empty input; in brackets, as colours alone tell nothing apart."""

ERASE_BELOW: Final = "\x1b[K\x1b7\x1b[C\x1b[J\x1b8"
"""Erases from the cursor to the end of the screen, in two steps: tmux keeps what is erased in one
from the first cell on, in its scrollback, and what was drawn there would stay behind."""
_CLEAR: Final = f"\r{ERASE_BELOW}"


class EarlyPrompt:
    """Draws on standard output; `end` gives the terminal back as it was found."""

    def __init__(self) -> None:
        self._found: list[Any] | None = None
        self._status = ""
        self._is_drawn = self._is_over = self._is_silent = False

    def begin(self) -> None:
        """Take the keyboard and draw."""
        with contextlib.suppress(termios.error, OSError):
            self._found = termios.tcgetattr(sys.stdin.fileno())
            raw = termios.tcgetattr(sys.stdin.fileno())
            raw[0] &= ~(termios.ICRNL | termios.IXON)
            raw[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, raw)
        self._draw()

    def show_status(self, status: str) -> None:
        """Draw again with this status line, a text of one line that fits."""
        self._status = status
        self.print("")

    def print(self, text: str) -> None:
        """Print above the input."""
        if not self._is_silent:
            _write(_CLEAR + text)
        self._draw()

    def clear(self) -> None:
        """Take the drawing away, for the real input."""
        if self._is_drawn:
            _write(_CLEAR)
            self._is_drawn = False

    def silence(self) -> None:
        """Write no more: nobody reads."""
        self._is_silent = self._is_over = True
        self._is_drawn = False

    def end(self) -> None:
        """The terminal's modes, as they were found."""
        self.clear()
        self._is_over = True
        if self._found is not None:
            with contextlib.suppress(termios.error, OSError):
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, self._found)

    def _draw(self) -> None:
        if self._is_over:
            return
        below = f"\r\n{self._status}\r\x1b[1A" if self._status else "\r"
        _write(f"{PROMPT}{_describe_empty_input()}{below}\x1b[{len(PROMPT)}C")
        self._is_drawn = True


def _describe_empty_input() -> str:
    """The placeholder, where it fits a line."""
    if len(PROMPT) + len(PLACEHOLDER) >= screen_width():
        return ""
    return PLACEHOLDER if os.environ.get("NO_COLOR") else f"\x1b[90m{PLACEHOLDER}\x1b[0m"


def _write(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads any more; the input will tell
        sys.stdout.write(text)
        sys.stdout.flush()


def screen_width() -> int:
    """Columns of standard output; 80 if it cannot tell."""
    with contextlib.suppress(OSError, ValueError):
        if columns := os.get_terminal_size(sys.stdout.fileno()).columns:
            return columns
    return 80


def screen_height() -> int:
    """Rows of standard output; 24 if it cannot tell."""
    with contextlib.suppress(OSError, ValueError):
        if rows := os.get_terminal_size(sys.stdout.fileno()).lines:
            return rows
    return 24
