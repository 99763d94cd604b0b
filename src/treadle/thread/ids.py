"""Thread ids: `T-` and a UUID version 7. Ids become file names, so nothing else passes.

For people an id is its last eight digits. Its first eight are a clock: they are the same for all
threads of a minute, a thread and its sub-agents among them. The last ones are random.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

PREFIX: Final = "T-"

SHORT_LENGTH: Final = 8
"""Digits of an id, from its end, that people are shown."""

_LONG_LENGTH: Final = 12
"""The whole last group of digits."""

_ID: Final = re.compile(
    r"T-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z", re.ASCII
)

_ID_IN_TEXT: Final = re.compile(
    r"(?<![\w./@:='\"-])T-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![\w@/=-]|[.:]\w)", re.ASCII
)
"""An id among words: no part of a path or an address, and not what somebody has typed."""


def is_thread_id(text: str) -> bool:
    """Whether the text is a whole, well-formed thread id."""
    return _ID.match(text) is not None


def is_name_of(text: str, thread_id: str) -> bool:
    """Whether a text means this thread: its id begins so, with or without `T-`, or ends so."""
    return thread_id.startswith((text, PREFIX + text)) or thread_id.endswith(text)


class ShortIds:
    """Ids for people: so much of the end of each as means no other thread.

    Args:
        known: the ids of all threads that could be meant.
    """

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = frozenset(known)
        self._counts: dict[int, Counter[str]] = {}

    def shorten(self, thread_id: str) -> str:
        """An id of a thread; what is none stays as it is."""
        if is_thread_id(thread_id):
            for length in (SHORT_LENGTH, _LONG_LENGTH):
                short = thread_id[-length:]
                others = self._count(length)[short] - (thread_id in self._known)
                if not others:
                    return short
        return thread_id

    def shorten_in(self, text: str) -> str:
        """A text, with each id among its words made short."""
        return _ID_IN_TEXT.sub(lambda one: self.shorten(one[0]), text)

    def _count(self, length: int) -> Counter[str]:
        """How many ids begin or end with these digits."""
        if length not in self._counts:
            start = len(PREFIX)
            self._counts[length] = Counter(
                name for one in self._known for name in {one[-length:], one[start:][:length]}
            )
        return self._counts[length]


def find_ids(text: str) -> list[str]:
    """The ids of threads that stand among the words of a text."""
    return _ID_IN_TEXT.findall(text) if PREFIX in text else []
