"""What a terminal says of itself when it is asked: whether it draws sixel pictures."""

from __future__ import annotations

import os
import re
import select
import termios
import time
from typing import Final

WAIT_S: Final = 0.3
"""Seconds for which an answer is waited for; a terminal on this desk takes some milliseconds."""
_ASK: Final = b"\033[c"
_ANSWER: Final = re.compile(rb"\033\[\?([\d;]*)c")
_SIXEL: Final = b"4"
_ANSWER_SIZE_MAX: Final = 1000


def announces_sixel() -> bool:
    """Whether the terminal of this process says that it draws sixel; false if it says nothing.

    It is not asked in the background, where that would stop the process, nor when somebody has
    typed ahead: what they typed would be taken for the answer.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        if os.tcgetpgrp(terminal) != os.getpgrp():
            return False
        found = termios.tcgetattr(terminal)
        raw = termios.tcgetattr(terminal)
        raw[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(terminal, termios.TCSANOW, raw)
        try:
            return _SIXEL in _ask(terminal).split(b";")
        finally:
            termios.tcsetattr(terminal, termios.TCSANOW, found)
    except (OSError, termios.error):
        return False
    finally:
        os.close(terminal)


def _ask(terminal: int) -> bytes:
    """The attributes; nothing if they do not come in time."""
    said = b""
    if select.select([terminal], [], [], 0)[0]:
        return said
    os.write(terminal, _ASK)
    until = time.monotonic() + WAIT_S
    while len(said) < _ANSWER_SIZE_MAX:
        left = until - time.monotonic()
        if left <= 0 or not select.select([terminal], [], [], left)[0]:
            break
        said += os.read(terminal, _ANSWER_SIZE_MAX)
        if answer := _ANSWER.search(said):
            return answer[1]
    return b""
