"""Texts in a text: what base64, hex and percent signs hide, and what was one line before a cut.

Each is a view: a text, and where each part of it stands in the one it was made of.
"""

from __future__ import annotations

import re
from binascii import Error, a2b_base64
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import itemgetter
from typing import Final
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from treadle.secrets.byte_dumps import Dump, in_dumps

BASE64_LENGTH_MIN: Final = 24
"""Characters of base64 that may hold a token."""

PERCENT_LENGTH_MAX: Final = 16 * 1024

WRAPPED_LENGTH_MAX: Final = 400
"""Characters of a token that was cut into lines, with what was put between them."""

LINE_LENGTH_MIN: Final = 16
"""Digits of a line of base64 that goes on in the next one, if all but the last are as long."""

LONG_LINE_LENGTH_MIN: Final = 40
"""Digits of a line that goes on in any next one; programs cut at 64 and at 76 by themselves."""

_BASE64: Final = re.compile(rb"[A-Za-z0-9+/_-]{%d,}+" % BASE64_LENGTH_MIN)
_LINE_END_BYTES: Final = rb"(?:\\{0,8}\r?\n|\\{1,8}r\\{1,8}n|\\{1,8}n)[ \t>|]{0,12}"
_LONG_RUN: Final = re.compile(rb"[A-Za-z0-9+/]{%d,}+" % LINE_LENGTH_MIN)
_LINES: Final = re.compile(
    rb"[A-Za-z0-9+/]{%d,}+(?:%b[A-Za-z0-9+/]++)+" % (LONG_LINE_LENGTH_MIN, _LINE_END_BYTES)
)
"""Nothing cuts the form for URLs into lines, and long names in code would look like lines of it."""

_RUN: Final = re.compile(rb"[A-Za-z0-9+/]++")
_HEX: Final = re.compile(rb"[0-9A-Fa-f]++")
_BETWEEN_LINES: Final = re.compile(_LINE_END_BYTES)
_WORDS: Final = re.compile(rb"[\t\n\r -~]{12,}+")
"""What may hold a token: the shortest is a password of 8 characters in a URL, with its marks."""

_FROM_URL: Final = bytes.maketrans(b"-_", b"+/")
_RESERVED: Final = re.compile(rb"%(?:2[0-9A-Fa-f]|3[A-Fa-f]|5[B-Fb-f]|7[B-Eb-e])")
_ENCODED: Final = re.compile(rb"%[0-9A-Fa-f]{2}")
_BETWEEN: Final = b" \n\t\"'"
_APART: Final = re.compile(rb"[^%b]{1,%d}" % (_BETWEEN, PERCENT_LENGTH_MAX))
_LINE_END: Final = r"(?:\\?\r?\n[ \t>|]{0,12}|\\{1,8}r\\{1,8}n|\\{1,8}n {0,12})"
_WRAPPED: Final = re.compile(rf"[^\s\"'\\]{{1,200}}+(?:{_LINE_END}[^\s\"'\\]{{1,200}}+){{1,8}}")
_LINE_END_AT: Final = re.compile(_LINE_END)


class DecodedText(Struct, frozen=True):
    """A text that stands in another one in a form of its own.

    `place` says where in the other one the part of it from one character to another stands.
    """

    text: str
    place: Callable[[int, int], tuple[int, int]]


def _decoded(run: bytes, skip: int) -> bytes:
    """What base64 makes of a run, from one of its first four digits on."""
    digits = run[skip : skip + (len(run) - skip) // 4 * 4 + (len(run) - skip) % 4]
    usable = len(digits) - (len(digits) % 4 == 1)
    padded = digits[:usable] + b"=" * (-usable % 4)
    try:
        return a2b_base64(padded)
    except Error:
        return b""


class HiddenTexts(Struct, frozen=True):
    """All that some bytes may hide in each form of `VIEWS`, one text after the other."""

    base64: str
    percent: str
    dumps: str


def glimpse(words: bytes, different: str, data: bytes) -> HiddenTexts:
    """What the base64, the percent signs and the dumps in some bytes may hide.

    Args:
        words: the long words of the bytes in order, with spaces between them.
        different: the same, each at least once.
        data: the bytes.
    """
    each_word = different.encode("ascii")
    runs = _BASE64.findall(each_word.translate(_FROM_URL))
    if long_runs := _LONG_RUN.findall(words):
        runs += [_joined(lines)[0] for _, lines in _lines(long_runs, data)]
    found: list[bytes] = []
    for run in dict.fromkeys(runs):
        for found_bytes in _readings(run):
            # Chance makes hardly a word of bytes: what is left to be looked through is short.
            found += _WORDS.findall(found_bytes)
    percent = b""
    if _RESERVED.search(each_word):
        percent = unquote_to_bytes(b" ".join(word for word in each_word.split() if b"%" in word))
    dumps = "\0".join(dump.text for dump in in_dumps(data))
    return HiddenTexts(b"\0".join(found).decode("latin-1"), percent.decode("latin-1"), dumps)


def _readings(run: bytes) -> list[bytes]:
    """What a run of digits may hold: as base64, from each of its first four on, and as hex."""
    found = [_decoded(run, skip) for skip in range(4)]
    if _HEX.fullmatch(run):
        found += (bytes.fromhex(one[: len(one) // 2 * 2].decode()) for one in (run, run[1:]))
    return found


def _end_of_lines(data: bytes, start: int, end: int) -> int:
    """Where the lines end whose first one stands from `start` to `end`."""
    if end - start >= LONG_LINE_LENGTH_MIN:
        lines = _LINES.match(data, start)
        return lines.end() if lines else end
    length = end - start
    while (gap := _BETWEEN_LINES.match(data, end)) is not None:
        line = _RUN.match(data, gap.end())
        count = len(line[0]) if line else 0
        if line is None or count > length:
            break
        end = line.end()
        # Of the first line the escape of a line end before it may seem to be a part.
        if count < length - 1 or (count < length and line.end() - start > 3 * length):
            break
        length = count
    return end


def _lines(long_runs: Iterable[bytes], data: bytes) -> Iterator[tuple[int, bytes]]:
    """Where base64 that was cut into lines stands in some bytes, with the lines.

    Args:
        long_runs: those of its runs that may be first lines, in order: to find them again is much
            faster than to look for any.
        data: the bytes.
    """
    place = consumed_count = 0
    for run in long_runs:
        if consumed_count:
            # It is one of the lines already: the next place where it stands is another text's.
            consumed_count -= 1
            continue
        start = data.find(run, place)
        if start >= 0:
            place = start + len(run)
            end = _end_of_lines(data, start, place)
            if end > place:
                consumed_count = len(_LONG_RUN.findall(data, start, end)) - 1
                yield start, data[start:end]
                place = end


def _joined(lines: bytes) -> tuple[bytes, list[tuple[int, int]]]:
    """Lines of base64 as one; for each, at which digit and at which byte it begins."""
    pieces: list[bytes] = []
    starts: list[tuple[int, int]] = []
    digit_count = place = 0
    for end, next_start in [
        *(gap.span() for gap in _BETWEEN_LINES.finditer(lines)),
        (len(lines), len(lines)),
    ]:
        pieces.append(lines[place:end])
        starts.append((digit_count, place))
        digit_count += end - place
        place = next_start
    return b"".join(pieces), starts


def in_base64(data: bytes) -> Iterator[DecodedText]:
    """What stands in the base64 in some bytes, for each way to read it as a text.

    It may be cut into lines: then all of them are read as one.
    """
    for run in _BASE64.finditer(data.translate(_FROM_URL)):
        yield from _texts(run[0], [(0, run.start())])
    for start, lines in _lines(_LONG_RUN.findall(data), data):
        digits, starts = _joined(lines)
        yield from _texts(digits, [(digit, start + place) for digit, place in starts])


def _texts(digits: bytes, starts: list[tuple[int, int]]) -> Iterator[DecodedText]:
    """What some base64 holds, from each of its first four digits on.

    Args:
        digits: without the line ends that stood in it.
        starts: for each of its lines, at which digit and at which place of the text it begins.
    """
    for number, text in enumerate(_readings(digits)):
        if _WORDS.search(text):
            place = _place_of_bytes if number < 4 else _place_of_hex
            yield DecodedText(text.decode("latin-1"), partial(place, starts, number % 4))


def _place_of_bytes(
    starts: list[tuple[int, int]], skip: int, start: int, end: int
) -> tuple[int, int]:
    """Where the digits stand that hold some bytes: six bits each, from the digit `skip` on."""
    first, last = skip + start * 8 // 6, skip - (-end * 8 // 6) - 1
    return _place_of_digit(starts, first), _place_of_digit(starts, last) + 1


def _place_of_hex(
    starts: list[tuple[int, int]], skip: int, start: int, end: int
) -> tuple[int, int]:
    """Where the digits stand that hold some bytes: two for each, from the digit `skip` on."""
    last = _place_of_digit(starts, skip + 2 * end - 1)
    return _place_of_digit(starts, skip + 2 * start), last + 1


def _place_of_digit(starts: list[tuple[int, int]], digit: int) -> int:
    at_digit, place = starts[bisect_right(starts, digit, key=itemgetter(0)) - 1]
    return place + digit - at_digit


def _signed(first: int, signs: list[int], start: int, end: int) -> tuple[int, int]:
    """Where a part of a word stands: each percent sign before its end has two digits behind it.

    Args:
        first: where the word begins.
        signs: which characters of the word stood behind percent signs, in order.
        start: the first character of the part, in the word as it reads.
        end: the one behind it.
    """
    return (
        first + start + 2 * bisect_left(signs, start),
        first + end + 2 * bisect_left(signs, end),
    )


def in_percent(data: bytes) -> Iterator[DecodedText]:
    """The words in some bytes that have characters behind percent signs, with these."""
    done = 0
    for sign in _RESERVED.finditer(data):
        if sign.start() < done:
            continue
        floor = max(done, sign.start() - PERCENT_LENGTH_MAX // 4)
        before = data[floor : sign.start()]
        start = floor + 1 + max(before.rfind(_BETWEEN[n : n + 1]) for n in range(len(_BETWEEN)))
        word = _APART.match(data, start)
        if word is None:
            continue
        done = word.end()
        places = enumerate(_ENCODED.finditer(word[0]))
        signs = [piece.start() - 2 * number for number, piece in places]
        text = unquote_to_bytes(word[0]).decode("latin-1")
        yield DecodedText(text, partial(_signed, start, signs))


VIEWS: Final[tuple[Callable[[bytes], Iterator[DecodedText | Dump]], ...]] = (
    in_base64,
    in_percent,
    in_dumps,
)
"""What each form of hidden text is in some bytes, as `HiddenTexts` has them."""


def unwrapped(text: str, start: int) -> DecodedText | None:
    """What begins at a place of a text without the line ends in it; `None` if it has none."""
    found = _WRAPPED.match(text, start, start + WRAPPED_LENGTH_MAX)
    if found is None:
        return None
    return DecodedText(_LINE_END_AT.sub("", found[0]), partial(_between_lines, found[0], start))


def _between_lines(text: str, place: int, start: int, end: int) -> tuple[int, int]:
    """Where in a text with line ends a part of it without them stands; the text is at `place`."""
    places: list[int] = []
    last = 0
    for gap in _LINE_END_AT.finditer(text):
        places += range(last, gap.start())
        last = gap.end()
    places += range(last, len(text))
    return place + places[start], place + places[end - 1] + 1
