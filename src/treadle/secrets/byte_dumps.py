"""Texts in a dump of bytes: what `xxd`, `od` and `hexdump` print, and lists of numbers in code.

What is found in one takes its whole lines with it, as they show the same bytes as text beside them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from msgspec import Struct

_MARKS: Final = bytes(ord("h") if one in b"0123456789abcdefABCDEF" else one for one in range(256))
_SIGNS: Final = (
    *(b"hh hh hh hh hh", b"hhhh hhhh hhhh", b"hhh hhh hhh hhh", b"hhhhhh hhhhhh"),
    *(b"hh:hh:hh:hh:hh", b"hxhh, hxhh", b"hxhh,hxhh", rb"\xhh\xhh"),
)
"""One of these stands in each dump of numbers, once digits in base 16 are all the same."""

_CHARACTERS_SIGN: Final = b"hhhhhh   "
"""Stands in each line of characters, which has no other digits than its offset."""

_NEAR: Final = 4096
"""Bytes around a sign, or a piece with one, that are read as lines of a dump."""

_DIGITS: Final = bytes(ord("0") if one in b"0123456789" else ord(" ") for one in range(256))
_DIGIT_COUNT_MIN: Final = 8
"""Decimal digits near a sign, at least. A secret has as many characters, and the number of a
visible one begins with such a digit in base 16; in base 8 it has no others, nor have offsets."""

_PIECE_LENGTH: Final = 256
"""Bytes in which digits are counted: most have so few that no sign of a dump is there."""

_OVERLAP: Final = 64
"""Bytes of the next piece that are counted as well: a sign, and a short secret, may end in them."""

_LINE_END: Final = re.compile(rb"\n|\r\n|\\\\{0,7}(?:\r?\n|r\\{1,8}n|n)")
"""Each form begins with a character of its own, so that others are passed over fast."""

_HEAD: Final = rb"(?:[^\n]{0,200}?[\"'])?[ \t>|+]{0,40}"
_OFFSET: Final = re.compile(
    _HEAD + rb"(?:[0-9a-fA-F]{4,16}:|[0-9a-fA-F]{7,16}|[0-9a-fA-F]{6}(?= +[0-9a-fA-F]{2,4} ))[ \t]"
)
_MARK: Final = rb"(?:0x|\\{1,8}x)?"
_LIST: Final = re.compile(
    rb"(?<![\w.])" + _MARK + rb"[0-9a-fA-F]{2,16}(?:[,:]?[ \t]?" + _MARK + rb"[0-9a-fA-F]{2,16}){3}"
)
"""Where numbers begin that no offset stands before."""

_GROUP: Final = re.compile(rb"([ \t]*)" + _MARK + rb"([0-9a-fA-F]{2,16})(?![\w.-])[,:]?")
_CHARACTER: Final = re.compile(rb"(?:   (.)|  (\\{1,8}[0abfnrtv]|[a-z]{2})| ([0-7]{3})| [a-z]{3})")
_GROUP_COUNT_MAX: Final = 4096


class Dump(Struct, frozen=True):
    """The bytes that some lines of a text show: the text, and where each line of it stands.

    `starts` are the first bytes of the lines; `lines` from where to where they stand.
    """

    text: str
    starts: list[int]
    lines: list[tuple[int, int]]

    def place(self, start: int, end: int) -> tuple[int, int]:
        """From where to where the lines stand that hold some bytes."""
        first = bisect_right(self.starts, start) - 1
        last = bisect_right(self.starts, end - 1) - 1
        return self.lines[first][0], self.lines[last][1]


def _regions(data: bytes, digits: bytes) -> list[tuple[int, int]]:
    """From where to where the signs of dumps stand in some bytes, with what is near, in order.

    Hardly any text has one. To read each line of one that has would cost fifty times as much.
    """
    marks = data.translate(_MARKS)
    spans: list[tuple[int, int]] = []
    place = marks.find(_CHARACTERS_SIGN)
    while place >= 0:
        spans.append((max(place - _NEAR, 0), min(place + _NEAR, len(data))))
        place = marks.find(_CHARACTERS_SIGN, place + 1)
    for first in range(0, len(data), _PIECE_LENGTH):
        end = first + _PIECE_LENGTH + _OVERLAP
        has_digits = digits.count(b"0", first, end) >= _DIGIT_COUNT_MIN
        if has_digits and any(marks.find(sign, first, end) >= 0 for sign in _SIGNS):
            spans.append((max(first - _NEAR, 0), min(end + _NEAR, len(data))))
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            start, end = found[-1][0], max(end, found.pop()[1])
        found.append((start, end))
    return found


def _words(size: int, base: int, order: str, groups: list[bytes]) -> bytes:
    """The bytes of numbers that have as many digits as `size`; nothing if they are no such ones."""
    length = {2: 1, 3: 1, 4: 2, 6: 2, 8: 4, 16: 8}[size]
    found: list[bytes] = []
    for group in groups:
        count = length if len(group) == size else len(group) // 2
        try:
            found.append(int(group, base).to_bytes(count, order))  # type: ignore[arg-type]
        except (ValueError, OverflowError):
            return b""
    return b"".join(found)


_READINGS: Final[dict[int, tuple[Callable[[list[bytes]], bytes], ...]]] = {
    2: (partial(_words, 2, 16, "big"),),
    3: (partial(_words, 3, 8, "big"),),
    4: (partial(_words, 4, 16, "big"), partial(_words, 4, 16, "little")),
    6: (partial(_words, 6, 8, "little"),),
    8: (partial(_words, 8, 16, "big"), partial(_words, 8, 16, "little")),
    16: (partial(_words, 16, 16, "big"), partial(_words, 16, 16, "little")),
}
"""By the digits of a number, how its bytes may stand in it."""


def in_dumps(data: bytes) -> Iterator[Dump]:
    """What stands in the dumps in some bytes, for each way to read their lines."""
    digits = data.translate(_DIGITS)
    for start, end in _regions(data, digits):
        yield from _in_lines(data, digits, start, end)


def _in_lines(data: bytes, digits: bytes, start: int, end: int) -> Iterator[Dump]:
    readings: dict[object, tuple[list[bytes], list[tuple[int, int]]]] = {}
    line_ends = [found.span() for found in _LINE_END.finditer(data, start, end)]
    for line_end, next_start in (*line_ends, (end, end)):
        span, start = (start, line_end), next_start
        line = data[slice(*span)]
        # To look for a digit first costs a tenth of reading a line that has none.
        found = dict(_read(line)) if digits.find(b"0", *span) >= 0 else {}
        for way in [one for one in readings if one not in found]:
            # A line of a star stands for more of the same.
            if line.strip(b" \t*"):
                yield _dump(*readings.pop(way))
        for way, shown in found.items():
            pieces, places = readings.setdefault(way, ([], []))
            pieces.append(shown)
            places.append(span)
    for pieces, places in readings.values():
        yield _dump(pieces, places)


def _dump(pieces: list[bytes], lines: list[tuple[int, int]]) -> Dump:
    starts: list[int] = []
    count = 0
    for piece in pieces:
        starts.append(count)
        count += len(piece)
    return Dump(b"".join(pieces).decode("latin-1"), starts, lines)


def _read(line: bytes) -> Iterator[tuple[object, bytes]]:
    """The bytes that a line shows, for each way to read it that makes sense."""
    offset = _OFFSET.match(line)
    listed = _LIST.search(line) if offset is None else None
    place = offset.end() if offset else listed.start() if listed else 0
    groups: list[bytes] = []
    size = 0
    while len(groups) < _GROUP_COUNT_MAX and (group := _GROUP.match(line, place)) is not None:
        # The text beside it stands further away, but for the middle of 16 bytes.
        is_far = len(group[1]) > 1 and not (size == 2 and len(groups) == 8)
        if size and (len(group[2]) > size or is_far):
            break
        size = size or len(group[2])
        groups.append(group[2])
        place = group.end()
    for number, reading in enumerate(_READINGS.get(size, ())):
        shown = reading(groups)
        if shown:
            yield (size, number), shown
    if offset is not None:
        shown = b"".join(map(_character, _CHARACTER.finditer(line, offset.end() - 1)))
        if len(shown) > 1:
            yield "characters", shown


def _character(found: re.Match[bytes]) -> bytes:
    """What `od -c` and `od -a` mean; what is no part of a secret is a space."""
    if found[3]:
        return bytes([int(found[3], 8) & 255])
    return found[1] or b" "
