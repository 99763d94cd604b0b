"""Lines of a change, laid out to be read one below the other or side by side. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import takewhile, zip_longest
from typing import Final, TypeAlias

from msgspec import Struct

MARKED_LENGTH_MAX: Final = 2000
"""Characters of a line in which words that differ are marked."""
SAME_SHARE_MIN: Final = 0.3
"""Of two lines with less in common, all differs."""

_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")


class LineKind(Enum):
    """What a line of a change is."""

    ADDED = "added"
    REMOVED = "removed"
    PLACE = "place"
    SAME = "same"


Pieces: TypeAlias = Sequence[tuple[str, bool]]
"""A line in parts; of each whether it differs from what stands beside it."""


class DiffRow(Struct, frozen=True):
    """What stood there and what stands there now; one of them is `None` where nothing does."""

    before: Pieces | None
    after: Pieces | None


class DiffRun(Struct, frozen=True):
    """Rows that belong together: a change, lines that stay, or where what follows stands.

    `kind` is `change`, `same` or `place`; of the last two, both sides of a row are the same.
    """

    kind: str
    rows: tuple[DiffRow, ...]


def list_runs(lines: Sequence[tuple[LineKind, str]]) -> Iterator[DiffRun]:
    """The runs of a change. Costs time in proportion to its lines, whatever these are.

    Args:
        lines: as a diff has them, without its signs.
    """
    removed: list[str] = []
    added: list[str] = []
    kept: list[DiffRow] = []
    kind = ""
    for what, line in lines:
        if what in (LineKind.SAME, LineKind.PLACE):
            yield from _end_change(removed, added)
            if kept and kind != what.value:
                yield DiffRun(kind, tuple(kept))
                kept.clear()
            kind = what.value
            pieces = ((line, False),)
            kept.append(DiffRow(pieces, pieces))
            continue
        if kept:
            yield DiffRun(kind, tuple(kept))
            kept.clear()
        if what is LineKind.REMOVED and added:
            yield from _end_change(removed, added)
        (removed if what is LineKind.REMOVED else added).append(line)
    yield from _end_change(removed, added)
    if kept:
        yield DiffRun(kind, tuple(kept))


def _end_change(removed: list[str], added: list[str]) -> Iterator[DiffRun]:
    if removed or added:
        pairs = zip_longest(removed, added)
        yield DiffRun("change", tuple(_make_row(before, after) for before, after in pairs))
        removed.clear()
        added.clear()


def _make_row(before: str | None, after: str | None) -> DiffRow:
    if before is None or after is None:
        return DiffRow(_leave(before), _leave(after))
    return DiffRow(*_mark_words(before, after))


def _leave(line: str | None) -> Pieces | None:
    return None if line is None else ((line, False),)


def _mark_words(before: str, after: str) -> tuple[Pieces, Pieces]:
    """What differs between the words that both begin with and those that both end with."""
    plain = ((before, False),), ((after, False),)
    if max(len(before), len(after)) > MARKED_LENGTH_MAX:
        return plain
    left, right = _WORD.findall(before), _WORD.findall(after)
    head = _count_same(zip(left, right, strict=False))
    tail = _count_same(zip(reversed(left[head:]), reversed(right[head:]), strict=False))
    said = sum(len(word.strip()) for word in (*left[:head], *left[len(left) - tail :]))
    if said < SAME_SHARE_MIN * max(len(before.strip()), len(after.strip())):
        return plain
    return _cut(left, head, tail), _cut(right, head, tail)


def _count_same(pairs: Iterable[tuple[str, str]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _cut(words: list[str], head: int, tail: int) -> Pieces:
    end = len(words) - tail
    parts = (words[:head], False), (words[head:end], True), (words[end:], False)
    return tuple(("".join(part), differs) for part, differs in parts if part)
