"""How a terminal takes keys while a command of the chat has it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import termios
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

T = TypeVar("T")

_LINES: Final = termios.ECHO | termios.ICANON
"""What shows keys as they are typed, and hands them over line by line."""


@contextlib.contextmanager
def silent_keyboard() -> Iterator[None]:
    """Keys that are typed are not shown, and wait as they are for who reads next: the chat."""
    with _changed_modes() as modes:
        if modes is not None:
            modes[0] &= ~(termios.ICRNL | termios.IXON)
            modes[3] &= ~_LINES
            _set_modes(modes)
        yield


async def run_behind(first: Callable[[], object], work: Callable[[], T]) -> T:
    """Run work in a thread behind something else, for which the keyboard is silent.

    Work takes the keyboard as it wants it in the same breath: between two threads there would be a
    moment in which an Enter comes as a new line.
    """
    with contextlib.ExitStack() as silence:
        silence.enter_context(silent_keyboard())

        def run() -> T:
            with silence:
                first()
            return work()

        return await asyncio.to_thread(run)


@contextlib.contextmanager
def asking_keyboard() -> Iterator[None]:
    """Keys are shown again for a question; those that came before it, unseen, are no answer."""
    with _changed_modes() as modes:
        if modes is not None and modes[3] & _LINES != _LINES:
            modes[0] |= termios.ICRNL
            modes[3] |= _LINES
            with contextlib.suppress(termios.error, OSError):
                termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
            _set_modes(modes)
        yield


@contextlib.contextmanager
def _changed_modes() -> Iterator[list[Any] | None]:
    """The modes, to be changed, and put back; `None` if standard input is no terminal."""
    found = None
    with contextlib.suppress(termios.error, OSError, ValueError):
        found = termios.tcgetattr(sys.stdin.fileno())
    try:
        yield None if found is None else [*found]
    finally:
        if found is not None:
            _set_modes(found)


def _set_modes(modes: list[Any]) -> None:
    with contextlib.suppress(termios.error, OSError, ValueError):
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, modes)
