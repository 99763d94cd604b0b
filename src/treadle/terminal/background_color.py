"""The terminal's background: asked for without waiting, the answer kept out of what is typed.

The question leaves with a drawing; what holds until an answer comes is what `COLORFGBG` says, or
nothing. The answer is one of the things that come in where keys do, so `InputFilter` stands before
who reads these. A terminal that does not know the question says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from treadle.terminal.styles import choose_theme, use_theme

QUERY: Final = "\x1b]11;?\x1b\\"
"""OSC 11: which colour has the background?"""

_SILENT_TERMINALS: Final = ("linux", "vt", "ansi", "cons", "dumb")
"""Beginnings of `TERM` that print what they do not understand."""

_START: Final = "\x1b]11;"
_ANSWER: Final = re.compile(r"\x1b\]11;([^\x07\x1b]{0,64})(?:\x07|\x1b\\)")
_PART: Final = re.compile(r"\x1b\](?:1(?:1(?:;[^\x07\x1b]{0,64}\x1b?)?)?)?\Z")
"""The beginning of an answer at the end of what has come in; not Esc alone, which is a key, and is
given as one at once: an answer that goes on behind it loses no more than that."""

_COLOUR: Final = re.compile(r"rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")
_BRIGHT_FROM: Final = 0.18
"""The luminance from which on black is read better than white."""


def may_ask(environ: Mapping[str, str]) -> bool:
    """Whether a terminal would not print the question."""
    return not environ.get("TERM", "dumb").startswith(_SILENT_TERMINALS)


def has_true_colors(environ: Mapping[str, str]) -> bool:
    """Whether a terminal says that it has all colours."""
    return environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit")


def has_palette(environ: Mapping[str, str]) -> bool:
    """Whether a terminal has more than sixteen colours, as rich would find."""
    return has_true_colors(environ) or environ.get("TERM", "").endswith(("-256color", "-kitty"))


def guess_dark(environ: Mapping[str, str]) -> bool | None:
    """What `COLORFGBG` says of the background, as `15;0` does; `None` if it says nothing."""
    background = environ.get("COLORFGBG", "").rpartition(";")[2]
    if not background.isdecimal() or int(background) > 15:
        return None
    return int(background) in (0, 1, 2, 3, 4, 5, 6, 8)


def parse_dark(answer: str) -> bool | None:
    """Whether an answer like `rgb:ffff/ffff/ffff` names a dark colour; `None` if it names none."""
    found = _COLOUR.match(answer)
    if found is None:
        return None
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in found.groups())
    return luminance(red, green, blue) < _BRIGHT_FROM


def luminance(red: float, green: float, blue: float) -> float:
    """How bright a colour is, from 0 to 1, as WCAG 2 computes it from parts from 0 to 1."""
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (red, green, blue)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


class ThemeChoice:
    """Which theme holds: by the setting, and what is known of the background.

    Args:
        environ: the environment, which may say something of the background.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._setting = "auto"
        self._is_dark = guess_dark(environ)
        self._has_palette = has_palette(environ)
        self._apply()

    def hear(self, answer: str) -> None:
        """The terminal's answer: the theme is for that background from now on."""
        if (is_dark := parse_dark(answer)) is not None:
            self._is_dark = is_dark
            self._apply()

    def set_setting(self, setting: str) -> None:
        """What the person wants."""
        self._setting = setting
        self._apply()

    def _apply(self) -> None:
        name = choose_theme(self._setting, self._is_dark) if self._has_palette else "terminal"
        use_theme(name)


class InputFilter:
    """Stands for the reader of a terminal's input, and takes answers out of what it reads.

    Args:
        reader: reads text; has `closed`.
        on_answer: gets each answer.
    """

    def __init__(self, reader: Any, on_answer: Callable[[str], None]) -> None:
        self._reader = reader
        self._on_answer = on_answer
        self._held = ""
        self._is_esc_given = False
        """Whether what is held begins with an Esc that was given as a key already."""

    @property
    def closed(self) -> bool:
        """Whether the input has ended."""
        return bool(self._reader.closed)

    def read(self, count: int = 1024) -> str:
        """What was typed; the beginning of an answer waits for its end."""
        text = f"{self._held}{self._reader.read(count)}"
        is_esc_given, self._held, self._is_esc_given = self._is_esc_given, "", False
        for answer in _ANSWER.findall(text):
            self._on_answer(answer)
        if _ANSWER.match(text):
            is_esc_given = False  # it goes with the answer
        text = _ANSWER.sub("", text)
        if part := _PART.search(text):
            is_rest = is_esc_given and part.start() == 0
            if not is_rest or len(part[0]) >= len(_START):  # `]` behind an Esc is a key by itself
                self._held, self._is_esc_given = part[0], is_rest
                return text[is_esc_given : part.start()]
        elif text.endswith("\x1b"):
            self._held, self._is_esc_given = "\x1b", True
        return text[is_esc_given:]
