"""Takes secrets out of a text that comes in pieces: a piece may end in the middle of one.

What is shown at once is what no secret can begin in. The rest is held back: the last word, as a
token has no spaces; a value behind the name it is known by; the lines of a key; the beginning of a
known value. It is shown when what follows says that it is none, when it is too long for one, and at
the end. Of a key that is too long to be held back only its label is shown, and nothing until it
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from treadle.secrets.token_rules import compile_open_end

WORD_LENGTH_MAX: Final = 2048
"""Characters of a word that are held back: the longest tokens are shorter, but for some JWTs."""

HELD_LENGTH_MAX: Final = 32 * 1024
"""Characters that are held back at most: the lines of a key, a known value in some form."""

KEY_LABEL: Final = "[REDACTED:private_key]"

_KEY_BEGIN: Final = "-----BEGIN"
_KEY_START: Final = f"{_KEY_BEGIN} PRIVATE KEY-----\n{'A' * 64}"
"""Stands for what was there of a key: a line of it, which the next characters go on with."""
_KEY_END_LENGTH: Final = 256
"""Characters of such a key that are kept: its end may have begun in them."""

_WORD_PIECE_LENGTH: Final = 256
"""Characters of a longer word that are shown at once: each time, what is held back is looked at."""

_VISIBLE: Final = "".join(map(chr, range(ord("!"), ord("~") + 1)))
_KEY_LENGTH: Final = 4


class Openings:
    """Where at the end of a text a secret may have begun that goes on after it.

    Args:
        values: known secrets, in all their forms.
        has_shapes: whether tokens count that are known by their format.
    """

    def __init__(self, values: Iterable[str], *, has_shapes: bool) -> None:
        self._has_shapes = has_shapes
        self._values: dict[str, list[str]] = {}
        self._short: set[str] = set()
        self._length_max = 0
        for value in values:
            self._values.setdefault(value[:_KEY_LENGTH], []).append(value)
            self._short.update(value[:count] for count in range(1, _KEY_LENGTH))
            self._length_max = max(self._length_max, len(value))

    def first(self, text: str) -> int:
        """The first character of what may go on; the length of the text if nothing may."""
        found = len(text)
        if self._has_shapes:
            # Each try costs what stands behind it: of a long text only the end is looked at.
            found = min(found, self._first_word(text), self._first_open(text))
        return self._first_value(text, found)

    def key(self, text: str) -> int | None:
        """Where the last private key begins that may go on; `None` if there is none."""
        begin = text.rfind(_KEY_BEGIN) if self._has_shapes else -1
        return None if begin < 0 or compile_open_end().match(text, begin) is None else begin

    def _first_word(self, text: str) -> int:
        floor = max(0, len(text) - WORD_LENGTH_MAX) // _WORD_PIECE_LENGTH * _WORD_PIECE_LENGTH
        return floor + len(text[floor:].rstrip(_VISIBLE))

    def _first_open(self, text: str) -> int:
        floor = max(0, len(text) - HELD_LENGTH_MAX)
        found = compile_open_end().search(text, floor)
        key = self.key(text) if floor else None
        return min(found.start() if found else len(text), len(text) if key is None else key)

    def _first_value(self, text: str, before: int) -> int:
        for place in range(max(0, len(text) - self._length_max), before):
            key = text[place : place + _KEY_LENGTH]
            if len(key) < _KEY_LENGTH:
                if key in self._short:
                    return place
            elif key in self._values:
                rest = text[place:]
                if any(value.startswith(rest) for value in self._values[key]):
                    return place
        return before


class Stream:
    """One text that comes in pieces.

    Args:
        redact: replaces the secrets in a text.
        places: says from where to where they stand in it, in order.
        openings: says where one may have begun.
    """

    def __init__(
        self,
        redact: Callable[[str], str],
        places: Callable[[str], Sequence[tuple[int, int]]],
        openings: Openings,
    ) -> None:
        self._redact = redact
        self._places = places
        self._openings = openings
        self._held = ""
        self._is_key_told = False

    def feed(self, piece: str) -> str:
        """The next piece; what can be shown by now, without secrets. It may be empty."""
        text = self._held + piece
        first = self._openings.first(text)
        for start, end in reversed(self._places(text)) if first else ():
            if start <= first < end:
                # What says that it is a secret may stand before it, and is held back with it.
                first = min(start, self._openings.first(text[: start + 1]))
        if self._is_key_told or len(text) - first > HELD_LENGTH_MAX:
            key, told = self._openings.key(text), 0 if self._is_key_told else None
            if key is not None and (key == told or len(text) - key > HELD_LENGTH_MAX):
                return self._without_key(text, key)
            if len(text) - first > HELD_LENGTH_MAX:
                first = len(text)
        self._held = text[first:]
        return self._told(text[:first])

    def end(self) -> str:
        """What was still held back, without secrets; nothing after it is the same text."""
        text, self._held = self._held, ""
        return self._told(text)

    def _without_key(self, text: str, key: int) -> str:
        """What stands before a key that goes on, and its label; of the key its end is kept."""
        shown = self._told(text[:key]) if key else ""
        shown += "" if key == 0 and self._is_key_told else KEY_LABEL
        self._held = _KEY_START + text[max(key, len(text) - _KEY_END_LENGTH) :]
        self._is_key_told = True
        return shown

    def _told(self, text: str) -> str:
        """The text without secrets, and without the key it begins with if that was told before."""
        if text and self._is_key_told:
            self._is_key_told = False
            text = text[next((end for start, end in self._places(text) if not start), 0) :]
        return self._redact(text)
