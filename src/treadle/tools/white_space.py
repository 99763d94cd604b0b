"""Finds a text that stands in a file but for its white space, and fits its replacement in there.

Models write tabs as spaces, indent anew, leave out the indentation of a block, or add spaces at the
ends of lines. Such a text is taken for the one in the file only if it is there once, and only if
each indentation that was written stands for one of the file: then nothing is guessed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

SEARCH_SIZE_MAX: Final = 2 * 1024 * 1024
"""Characters of a file that is searched; in more, only exact texts are found."""
WORD_SIZE_MIN: Final = 8
"""Characters besides white space that a text needs: `)` alone is anywhere."""
WORD_SIZE_MAX: Final = 50_000
"""And at most; what is longer was copied, and is told where it differs."""
CANDIDATE_COUNT_MAX: Final = 50
"""Places that are looked at more closely."""
PLACE_COUNT_MAX: Final = 6
"""Places that are looked for."""

_INDENT: Final = re.compile(r"[ \t]*")
_WORD: Final = re.compile(r"\w+|[^\w\s]")


class TextSpan(NamedTuple):
    """A part of a text, from its first character up to the one behind its last."""

    start: int
    end: int


class Fit(NamedTuple):
    """Where in the file a text stands, and what comes in its place there."""

    span: TextSpan
    new: str


def find_places(text: str, wanted: str, count: int = PLACE_COUNT_MAX) -> list[TextSpan]:
    """Where `wanted` stands in a text, whatever the white space; of its first words to its last.

    Where one has a line break the other has one too, and where one has two words. Costs time in
    proportion to the text.

    Args:
        text: the file.
        wanted: what is looked for; one with few words is found nowhere.
        count: how many places are looked for.
    """
    needle = "".join(wanted.split())
    if not WORD_SIZE_MIN <= len(needle) <= WORD_SIZE_MAX or len(text) > SEARCH_SIZE_MAX:
        return []
    # Without white space it is a plain search, whose time no file can make grow with its square.
    squeezed = ["".join(line.split()) for line in text.split("\n")]
    ends = [*accumulate(map(len, squeezed))]
    haystack = "".join(squeezed)
    if needle not in haystack:
        return []
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    words, found, at = _split_words(wanted), list[TextSpan](), -1
    for _ in range(CANDIDATE_COUNT_MAX):
        at = haystack.find(needle, at + 1)
        if at < 0 or len(found) == count:
            break
        span = TextSpan(
            _find_position(text, starts, ends, at),
            _find_position(text, starts, ends, at + len(needle) - 1) + 1,
        )
        if _split_words(text[span.start : span.end]) == words:
            found.append(span)
    return found


def _find_position(text: str, starts: Sequence[int], ends: Sequence[int], at: int) -> int:
    """Where a character that is no white space stands, by how many such stand before it."""
    line = bisect_right(ends, at)
    left = at - (ends[line - 1] if line else 0)
    for place in range(starts[line], starts[line + 1]):
        if not text[place].isspace():
            if not left:
                return place
            left -= 1
    raise AssertionError("a line has as many characters as were counted")


def _split_words(text: str) -> list[list[str]]:
    """The words and signs of each line that has any."""
    return [words for line in text.split("\n") if (words := _WORD.findall(line))]


def fit_replacement(text: str, old: str, new: str) -> Fit | None:
    """The one place where `old` stands but for its white space, and `new` as it is indented there.

    `None` if there is no such place, or more than one, or if the indentation of `old` does not say
    which one of the file it stands for.
    """
    places = find_places(text, old, 2)
    if len(places) != 1:
        return None
    start, end = places[0]
    old, new = _strip_common_breaks(old, new)
    line_start = text.rfind("\n", 0, start) + 1
    is_line = not text[line_start:start].strip()
    old_lines = [line for line in old.splitlines() if line.strip()]
    if is_line and _INDENT.match(old_lines[0])[0]:  # type: ignore[index]  # it matches anything
        start = line_start
    elif old_lines[0][:1].isspace():
        return None  # it was written as the beginning of a line, and is the middle of one
    file_lines = [line for line in text[start:end].splitlines() if line.strip()]
    skipped = int(start != line_start)
    indents = _pair_indents(old_lines[skipped:], file_lines[skipped:])
    if indents == {} and is_line:
        indents = {"": text[line_start:start]}
    fitted = None if indents is None else _indent(new, indents, skipped)
    if fitted is None:
        return None
    if old.endswith("\n"):
        rest = re.compile(r"[^\S\n]*\n").match(text, end)
        end = end if rest is None else rest.end()
    return Fit(TextSpan(start, end), fitted)


def indent_like(old: Sequence[str], there: Sequence[str], new: Sequence[str]) -> list[str] | None:
    """New lines with the indentation of the file; `None` if it is not clear which that is.

    Args:
        old: lines as they were written.
        there: the same lines as the file has them.
        new: what comes to stand among them, indented as `old` is.
    """
    pairs = [(one, other) for one, other in zip(old, there, strict=True) if one.strip()]
    indents = _pair_indents([one for one, _ in pairs], [other for _, other in pairs])
    fitted = None if indents is None else _indent("\n".join(new), indents, 0)
    return None if fitted is None else fitted.split("\n") if new else []


def _strip_common_breaks(old: str, new: str) -> tuple[str, str]:
    """Both without the empty lines that both begin with: they stay as the file has them."""
    while old.startswith("\n") and new.startswith("\n"):
        old, new = old[1:], new[1:]
    return old.lstrip("\n"), new


def _pair_indents(old_lines: Sequence[str], file_lines: Sequence[str]) -> dict[str, str] | None:
    """For each indentation that was written the one in the file; `None` if one has two."""
    pairs: dict[str, str] = {}
    for old, there in zip(old_lines, file_lines, strict=True):
        written, is_there = _indent_of(old), _indent_of(there)
        if pairs.setdefault(written, is_there) != is_there:
            return None
    # Two that were different must not become one: it would change what belongs to what.
    return pairs if len({*pairs.values()}) == len(pairs) else None


def _indent(new: str, indents: dict[str, str], skipped: int) -> str | None:
    """The replacement with the file's indentation; `None` if one of its own fits nothing."""
    lines = new.split("\n")
    fitted = lines[:skipped]
    for line in lines[skipped:]:
        if not line.strip():
            fitted.append(line)
            continue
        written = _indent_of(line)
        is_there = _translate(written, indents)
        if is_there is None:
            return None
        fitted.append(is_there + line[len(written) :])
    return "\n".join(fitted)


def _translate(written: str, indents: dict[str, str]) -> str | None:
    """The file's indentation for one that was written, by those that are known; `None` if none."""
    if written in indents:
        return indents[written]
    if not indents or all(one == other for one, other in indents.items()):
        return written
    known = max((one for one in indents if written.startswith(one)), key=len, default=None)
    units = _find_units(indents)
    if known is not None:
        rest = written[len(known) :]
        if units is None or not rest:
            return indents[known] + rest
        unit, file_unit = units
        count, odd = divmod(len(rest), len(unit))
        return None if odd or rest != unit * count else indents[known] + file_unit * count
    # Less deep than all that is known: what the file has more, or less, it has there too.
    for one, other in indents.items():
        if one.startswith(written):
            if units is not None:
                unit, file_unit = units
                count, odd = divmod(len(one) - len(written), len(unit))
                if odd or not other.endswith(file_unit * count):
                    return None
                return other[: len(other) - len(file_unit) * count]
            if other.endswith(one):
                return other[: len(other) - len(one)] + written
    return None


def _find_units(indents: dict[str, str]) -> tuple[str, str] | None:
    """One level as it was written and as the file has it; `None` if they do not differ."""
    known = sorted(indents.items(), key=lambda pair: len(pair[0]))
    for (low, low_there), (high, high_there) in pairwise(known):
        if high.startswith(low) and high_there.startswith(low_there):
            unit, file_unit = high[len(low) :], high_there[len(low_there) :]
            return None if unit == file_unit else _reduce(unit, file_unit)
    for one, other in known:
        if one and other and {*one} != {*other} and len({*one}) == len({*other}) == 1:
            return _reduce(one, other)  # tabs for spaces, or the other way
    return None


def _reduce(unit: str, file_unit: str) -> tuple[str, str]:
    """The same for one level, where both are several."""
    for count in range(min(len(unit), len(file_unit)), 1, -1):
        if not len(unit) % count and not len(file_unit) % count:
            return unit[: len(unit) // count], file_unit[: len(file_unit) // count]
    return unit, file_unit


def _indent_of(line: str) -> str:
    found = _INDENT.match(line)
    assert found is not None
    return found[0]
