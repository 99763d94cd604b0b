"""Calls a person who has gone elsewhere: a note or a bell, and the title of the window.

It is done without asking the terminal what it knows: the environment says which notes it has, and
a bell is heard everywhere, through tmux and ssh too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from treadle.thread.safe_text import sanitize_text

ABSENT_S: Final = 5.0
"""Who has pressed a key so short ago looks at the screen, and is not called."""
LONG_TURN_S: Final = 15.0
"""A turn of so many seconds is one during which people go elsewhere."""
WORDS_LENGTH_MAX: Final = 120

_BELL: Final = "\a"
_TITLE: Final = "\x1b]2;{words}\a"
_KEEP_TITLE: Final = "\x1b[22;2t"
_RESTORE_TITLE: Final = "\x1b[23;2t"
_NOTES: Final = {
    "iTerm.app": "\x1b]9;{words}\a",
    "WezTerm": "\x1b]9;{words}\a",
    "ghostty": "\x1b]9;{words}\a",
    "xterm-kitty": "\x1b]99;;{words}\x1b\\",
}
"""How terminals are given a note, by what `TERM_PROGRAM` or `TERM` says of them."""
_WITHOUT_TITLE: Final = ("linux", "dumb", "")


class Attention:
    """What is written to call somebody.

    Args:
        write: takes what the terminal is sent.
        environ: says which terminal it is.
        name: what the window is about: the folder.
    """

    def __init__(self, write: Callable[[str], None], environ: Mapping[str, str], name: str) -> None:
        self._write = write
        self._name = name
        terminal = environ.get("TERM", "")
        within = environ.get("TMUX") or environ.get("STY")  # which pass no notes on
        note = _NOTES.get(environ.get("TERM_PROGRAM", "")) or _NOTES.get(terminal)
        self._note = _BELL if within or note is None else note
        self._has_title = terminal not in _WITHOUT_TITLE
        self._title = ""
        """What the title says besides the name; empty if it was not changed, or says no more."""
        self._is_kept = False
        self._calling: asyncio.TimerHandle | None = None

    def call(self, words: str) -> None:
        """Call somebody: `words` say what for."""
        self._write(self._note.replace("{words}", _clean(f"{words} · {self._name}")))

    def call_soon(self, words: str, pressed_at: Callable[[], float]) -> None:
        """Call somebody, unless a key is pressed; `pressed_at` tells when the last one was."""
        self._cancel()
        loop = asyncio.get_running_loop()
        begun_at = loop.time()  # the clock of the key, too

        def call() -> None:
            if pressed_at() < begun_at:
                self.call(words)

        wait = max(0.0, pressed_at() + ABSENT_S - begun_at)
        self._calling = loop.call_later(wait, call)

    def stop(self) -> None:
        """Nobody is wanted any more."""
        self._cancel()
        self.show("")

    def _cancel(self) -> None:
        if self._calling is not None:
            self._calling.cancel()
            self._calling = None

    def show(self, words: str) -> None:
        """Have the title say this, before the name; nothing more if it is empty."""
        if words == self._title or not self._has_title:
            return
        if not self._is_kept:
            self._write(_KEEP_TITLE)
            self._is_kept = True
        self._title = words
        told = f"{words} · {self._name}" if words else self._name
        self._write(_TITLE.replace("{words}", _clean(told)))

    def end(self) -> None:
        """Call nobody any more, and give the window the title that it had."""
        self._cancel()
        if self._is_kept:
            self._write(_RESTORE_TITLE)
            self._is_kept = False


def _clean(words: str) -> str:
    """Words that end no sequence."""
    return sanitize_text(" ".join(words.split()))[:WORDS_LENGTH_MAX]
