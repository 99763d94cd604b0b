"""Rows of what a transcript shows: each by its place, none made before it is seen.

A text of a hundred megabytes is never laid out as a whole. A row of it is known by the byte at
which it begins, as in a pager: the next one is found from there, the one before it from the end of
the line above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

from treadle.terminal.ports import StyledLine
from treadle.thread.safe_text import sanitize_text

LINE_SIZE_MAX: Final = 2048
"""Bytes of a line; a longer one is broken at the multiples of this, so that no row is looked for
from far away. What such a row begins with is the same from above and from below."""
SEARCH_SIZE: Final = 1024 * 1024
"""Bytes that are searched at a time: in between others come to run, and one can stop it."""
_TAB_WIDTH: Final = 4
_BYTES_PER_COLUMN: Final = 4
"""Bytes that a column is given at most: a row of letters with many accents is shorter."""


class Rows(Protocol):
    """Rows from top to bottom, by their places: numbers that grow."""

    @property
    def first(self) -> int:
        """The place of the first row; there is one always."""
        ...

    @property
    def last(self) -> int:
        """The place of the last row."""
        ...

    def after(self, place: int) -> int | None:
        """The place of the next row; `None` behind the last."""
        ...

    def before(self, place: int) -> int | None:
        """The place of the row before; `None` before the first."""
        ...

    def line(self, place: int) -> StyledLine:
        """The row."""
        ...

    def find(
        self, words: str, start: int | None, stop: Callable[[], bool], *, is_back: bool
    ) -> int | None:
        """The row with the next place of some words, `None` if there is none.

        Args:
            words: looked for without regard to capitals, unless there are capitals in them.
            start: behind this row, or before it; `None` for all rows.
            stop: whether nobody wants to know any more.
            is_back: whether the nearest one before `start` is wanted, or the last of all.
        """
        ...


class FixedRows:
    """Rows that were made already, of what is short.

    Args:
        lines: at least one.
    """

    first = 0

    def __init__(self, lines: Sequence[StyledLine]) -> None:
        self._lines = lines

    @property
    def last(self) -> int:
        """See `Rows`."""
        return len(self._lines) - 1

    def after(self, place: int) -> int | None:
        """See `Rows`."""
        return place + 1 if place < self.last else None

    def before(self, place: int) -> int | None:
        """See `Rows`."""
        return place - 1 if place > 0 else None

    def line(self, place: int) -> StyledLine:
        """See `Rows`."""
        return self._lines[min(place, self.last)]

    def find(
        self, words: str, start: int | None, stop: Callable[[], bool], *, is_back: bool
    ) -> int | None:
        """See `Rows`."""
        places = range(len(self._lines))
        if start is not None:
            places = places[:start] if is_back else places[start + 1 :]
        for place in reversed(places) if is_back else places:
            if says("".join(text for _, text in self._lines[place]), words):
                return place
        return None


class TextRows:
    """Rows of a text of any length, broken where a row is full.

    Args:
        data: the text as UTF-8.
        width: columns.
        style: the style of all rows.
        indent: blanks before each row, beside the columns.
    """

    first = 0

    def __init__(self, data: bytes, width: int, style: str = "", indent: int = 0) -> None:
        self._data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").rstrip(b"\n")
        self._style = style
        self._indent = " " * indent
        self.width = max(2, width)

    @property
    def line_count(self) -> int:
        """Lines of the text."""
        return self._data.count(b"\n") + 1

    @property
    def last(self) -> int:
        """See `Rows`."""
        return self._row_of(len(self._data))

    def after(self, place: int) -> int | None:
        """See `Rows`."""
        _, end = self._take(place)
        return end if end <= len(self._data) and end > place else None

    def before(self, place: int) -> int | None:
        """See `Rows`."""
        return self._row_of(place - 1) if place > 0 else None

    def line(self, place: int) -> StyledLine:
        """See `Rows`."""
        text, _ = self._take(place)
        shown = sanitize_text(text.replace("\t", " " * _TAB_WIDTH))
        return [(self._style, f"{self._indent}{shown}")]

    def find(
        self, words: str, start: int | None, stop: Callable[[], bool], *, is_back: bool
    ) -> int | None:
        """See `Rows`."""
        wanted, size = _Words(words), len(self._data)
        low, high = 0, size
        if start is not None:
            low, high = (0, start) if is_back else (self.after(start) or size, size)
        for begin, end in _list_spans(low, high, is_back=is_back):
            if stop():
                return None
            # What begins in this span may end in the next one.
            place = wanted.find(self._data[begin : end + wanted.size], is_back=is_back)
            if place >= 0 and begin + place < high:
                return self._row_of(begin + place)
        return None

    def _row_of(self, place: int) -> int:
        """Where the row begins in which this byte stands, or the end of a line."""
        row = self._data.rfind(b"\n", max(0, place - 2 * LINE_SIZE_MAX), place) + 1
        for number in (place // LINE_SIZE_MAX, place // LINE_SIZE_MAX + 1):
            # A character over the border belongs to what follows.
            if (broken := self._break_at(number)) is not None and broken <= place:
                row = max(row, broken)
        while True:
            _, end = self._take(row)
            if end > place or end > len(self._data) or end <= row:
                return row
            row = end

    def _take(self, place: int) -> tuple[str, int]:
        """The text of the row that begins there, and where the next one would."""
        most = place + self.width * _BYTES_PER_COLUMN
        line_end = self._data.find(b"\n", place, most)
        end = line_end if line_end >= 0 else self._align(min(most, len(self._data)))
        broken = self._break_at(place // LINE_SIZE_MAX + 1)
        if broken is not None and place < broken < end:
            line_end, end = -1, broken
        text = self._data[place:end].decode("utf-8", "surrogateescape")
        shown = text[: _count_fitting(text, self.width)]
        if len(shown) == len(text):
            return text, end + 1 if line_end >= 0 or end == len(self._data) else end
        return shown, place + len(shown.encode("utf-8", "surrogateescape"))

    def _break_at(self, number: int) -> int | None:
        """Where a line is broken that has no end for long; `None` if there is none there."""
        place = number * LINE_SIZE_MAX
        is_long = 0 < place < len(self._data) and (
            self._data.find(b"\n", place - LINE_SIZE_MAX, place) < 0
        )
        return self._align(place) if is_long else None

    def _align(self, place: int) -> int:
        """The beginning of a character, at most three bytes before."""
        for back in range(min(4, place + 1)):
            if place - back >= len(self._data) or self._data[place - back] & 0xC0 != 0x80:
                return place - back
        return place


def _count_fitting(text: str, width: int) -> int:
    """How many characters fit a row; one at least, if there is any."""
    if text.isascii() and "\t" not in text:
        return min(len(text), width)
    from prompt_toolkit.utils import get_cwidth

    columns = 0
    for place, character in enumerate(sanitize_text(text)):
        columns += _TAB_WIDTH if character == "\t" else max(0, get_cwidth(character))
        if columns > width:
            return max(1, place)
    return len(text)


def says(text: str, words: str) -> bool:
    """Whether a text holds words that are looked for."""
    return _Words(words).find(text.encode("utf-8", "replace"), is_back=False) >= 0


class _Words:
    """Words that are looked for; capitals count only if there are any in them."""

    def __init__(self, words: str) -> None:
        self._data = words.encode("utf-8", "replace")
        self._any_case = words == words.lower()

    @property
    def size(self) -> int:
        return len(self._data)

    def find(self, data: bytes, *, is_back: bool) -> int:
        """The first place, or the last one; -1 if there is none."""
        said = data.lower() if self._any_case else data
        return said.rfind(self._data) if is_back else said.find(self._data)


def _list_spans(low: int, high: int, *, is_back: bool) -> Iterator[tuple[int, int]]:
    starts = range(low, high, SEARCH_SIZE)
    for start in reversed(starts) if is_back else starts:
        yield start, min(high, start + SEARCH_SIZE)
