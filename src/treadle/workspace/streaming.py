"""Takes secrets out of a text that comes in pieces: a piece may end in the middle of one.

What is shown at once is what no secret can begin in. The rest is held back: the last word, as a
token has no spaces; a value behind the name it is known by; the lines of a key; the beginning of a
known value. It is shown when what follows says that it is none, when it is too long for one, and at
the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from treadle.workspace.shape_rules import OPEN

WORD_LENGTH_MAX: Final = 2048
"""Characters of a word that is held back: the longest tokens are shorter, but for some JWTs."""

HELD_LENGTH_MAX: Final = 32 * 1024
"""Characters that are held back at most: the lines of a key, a known value in some form."""

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

    def _first_word(self, text: str) -> int:
        end = len(text)
        while end and end > len(text) - WORD_LENGTH_MAX - 1 and "!" <= text[end - 1] <= "~":
            end -= 1
        return len(text) if end == len(text) - WORD_LENGTH_MAX - 1 else end

    def _first_open(self, text: str) -> int:
        found = OPEN.search(text, max(0, len(text) - HELD_LENGTH_MAX))
        return len(text) if found is None else found.start()

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

    def take(self, piece: str) -> str:
        """The next piece; what can be shown by now, without secrets. It may be empty."""
        text = self._held + piece
        first = self._openings.first(text)
        if len(text) - first > HELD_LENGTH_MAX:
            first = len(text)
        for start, end in reversed(self._places(text)) if first else ():
            if start < first < end:
                # What says that it is a secret may stand before it, and is held back with it.
                first = min(start, self._openings.first(text[: start + 1]))
        self._held = text[first:]
        return self._redact(text[:first])

    def end(self) -> str:
        """What was still held back, without secrets; nothing after it is the same text."""
        text, self._held = self._held, ""
        return self._redact(text)
