"""Finds the lines that the pieces of a patch name in a file, and puts others there. Pure.

Where the lines stand is found as by the program that OpenAI's models know: exactly; but for blanks
at their ends; but for blanks on both sides; but for quotes, dashes and spaces that look alike; the
first place behind that of the piece before. Two things are done better than there: lines that stay
are left as the file has them, and new ones get the indentation of those that were found, if it
differs from the patch's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from treadle.core.tools import ToolErrorKind
from treadle.tool_failure import ToolFailure
from treadle.tools.edit_causes import Missing, find_cause, show_cause
from treadle.tools.files import EDIT_SIZE_MAX
from treadle.tools.patch_format import PatchChunk
from treadle.tools.shown_lines import list_around, show_lines
from treadle.tools.white_space import indent_like

_ALIKE: Final = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a", " "),
        **dict.fromkeys("\u202f\u205f\u3000", " "),
        "\ufeff": "",
    }
)
_LIKENESSES: Final[Sequence[Callable[[str], str]]] = (
    str,
    str.rstrip,
    str.strip,
    lambda line: line.translate(_ALIKE).strip(),
)
"""What of a line is compared, the strictest first."""


_SPACED: Final = 2
"""From here on the blanks before a line may differ."""

NewLine: TypeAlias = int | str
"""A line of the file that stays, by its number from 0; or the text of another one."""


class PatchedText(NamedTuple):
    """A content after a patch, and what is told of it besides."""

    content: bytes
    remarks: tuple[str, ...] = ()


class _Replacement(NamedTuple):
    """What comes in the place of `size` lines from `start` on, which counts from 0."""

    start: int
    size: int
    lines: Sequence[NewLine]


def patch_content(content: bytes, chunks: Sequence[PatchChunk], path: str) -> PatchedText:
    """The content after all pieces of a patch.

    Line ends and encoding stay those of the file. A last line without an end has one after a change
    there.

    Args:
        content: of the file.
        chunks: in the order in which they stand in the file.
        path: for messages.

    Raises:
        ToolFailure: one of them does not fit; the message says why.
    """
    try:
        encoding, text = "utf-8", content.decode()
    except UnicodeDecodeError:
        # Every byte is a character in it, so whatever the file is, nothing else changes.
        encoding, text = "latin-1", content.decode("latin-1")
    # Tools show a file without its mark, so no patch has it.
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    raw = text.removeprefix(mark).split("\n")
    is_ended = not raw[-1]
    if is_ended:
        raw.pop()
    crlf_count = sum(line.endswith("\r") for line in raw)
    end = "\r" if crlf_count * 2 > len(raw) - (not is_ended) else ""
    search = _ChunkSearch([line.removesuffix("\r") for line in raw], path)
    replacements = [search.replace(chunk, number) for number, chunk in enumerate(chunks, 1)]
    if not is_ended and any(one.start + one.size == len(raw) for one in replacements):
        raw[-1] += end
        is_ended = True
    whole, at = list[str](), 0
    for start, size, lines in sorted(replacements, key=lambda one: one.start):
        whole += raw[at:start]
        whole += [raw[one] if isinstance(one, int) else one + end for one in lines]
        at = start + size
    whole += raw[at:]
    changed = "\n".join(whole) + ("\n" if is_ended and whole else "")
    changed = mark + changed.removeprefix(mark) if changed else changed
    if len(changed) > EDIT_SIZE_MAX:
        raise ToolFailure(ToolErrorKind.FAILED, f"{path} would become too large to edit")
    try:
        return PatchedText(changed.encode(encoding), tuple(search.remarks))
    except UnicodeEncodeError as error:
        message = (
            f"{path} is not UTF-8 and is edited as Latin-1, "
            f"which has no {error.object[error.start : error.end]!r}"
        )
        raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, message) from error


class _AlikeLines:
    """Lines as one likeness has them, in which others are found in time proportional to them."""

    def __init__(self, lines: Sequence[str], simplify: Callable[[str], str]) -> None:
        self._simplify = simplify
        simple = [simplify(line) for line in lines]
        # One text, because a search in it takes no longer where all lines are the same.
        self._text = "\n".join(["", *simple, ""])
        self._starts = [0, *accumulate(len(line) + 1 for line in simple)]

    def find(self, wanted: Sequence[str], start: int) -> int | None:
        """The first line from `start` on from which all of them stand; `None` if nowhere."""
        needle = "\n".join(["", *map(self._simplify, wanted), ""])
        at = self._text.find(needle, self._starts[start])
        return None if at < 0 else bisect_left(self._starts, at)


class _ChunkSearch:
    """Finds the pieces of one update, one after the other."""

    def __init__(self, lines: Sequence[str], path: str) -> None:
        self.remarks: list[str] = []
        self._lines = lines
        self._path = path
        self._alike: dict[int, _AlikeLines] = {}
        self._next = 0
        """The first line in which the next piece may begin."""

    def replace(self, chunk: PatchChunk, number: int) -> _Replacement:
        """What the piece puts in which place."""
        place = f"piece {number} of {self._path}"
        for context in chunk.contexts:
            found = self._find([context], self._next)
            if found is None:
                raise self._make_failure(f"`@@ {context}`, {place},", [context], [])
            self._next = found[0] + 1
        if not chunk.old:
            # Behind its context, else at the end of the file, before an empty line there.
            at = len(self._lines) - (self._lines[-1:] == [""])
            at = self._next if chunk.contexts else at
            return _Replacement(at, 0, chunk.new)
        lines = list(chunk.lines)
        found = self._find_chunk(lines, at_end=chunk.at_end)
        while found is None and (shorter := _drop_last_blank(lines)):
            # Often it stands for the end of the last line.
            lines = shorter
            found = self._find_chunk(lines, at_end=chunk.at_end)
        if found is None:
            raise self._make_failure(place, chunk.old, chunk.new)
        start, likeness = found
        old = [text for sign, text in lines if sign != "+"]
        self._next = start + len(old)
        added = self._indent(lines, start, likeness, place)
        if not (chunk.contexts or chunk.at_end or likeness):
            self._remark_places(old, start, place)
        return _Replacement(start, len(old), _merge(lines, start, added))

    def _find_chunk(
        self, lines: Sequence[tuple[str, str]], *, at_end: bool
    ) -> tuple[int, int] | None:
        old = [text for sign, text in lines if sign != "+"]
        last = len(self._lines) - len(old)
        if at_end and last >= self._next and (found := self._find(old, last)) is not None:
            return found
        return self._find(old, self._next)

    def _find(self, wanted: Sequence[str], start: int) -> tuple[int, int] | None:
        """Where they stand, and how like they are; the strictest likeness first."""
        for likeness, simplify in enumerate(_LIKENESSES):
            if likeness not in self._alike:
                self._alike[likeness] = _AlikeLines(self._lines, simplify)
            if (at := self._alike[likeness].find(wanted, start)) is not None:
                return at, likeness
        return None

    def _indent(
        self, lines: Sequence[tuple[str, str]], start: int, likeness: int, place: str
    ) -> list[str]:
        """The new lines of a piece, indented as those around them are in the file."""
        added = [text for sign, text in lines if sign == "+"]
        old = [text for sign, text in lines if sign != "+"]
        if likeness < _SPACED:
            return added
        there = self._lines[start : start + len(old)]
        first, last = start + 1, start + len(old)
        where = f"line {first}" if first == last else f"lines {first}-{last}"
        fitted = indent_like(old, there, added)
        if fitted is None:
            raise ToolFailure(
                ToolErrorKind.TARGET_NOT_FOUND,
                f"{place} differs in white space from {where}, and its indentation fits in more "
                "than one way: copy it from there",
                show_lines(self._lines, list_around(start + 1)),
            )
        what = "white space" if likeness == _SPACED else "white space, quotes or dashes"
        indented = "" if fitted == added else ", and its new lines were indented as they are"
        self.remarks.append(f"[{place} differed from {where} in {what} only{indented}]")
        return fitted

    def _remark_places(self, old: Sequence[str], start: int, place: str) -> None:
        again = self._alike[0].find(old, start + 1)
        if again is not None:
            self.remarks.append(
                f"[{place} fits line {start + 1} and line {again + 1}: taken for the first; "
                "`@@` and a line before it would say which]"
            )

    def _make_failure(self, place: str, old: Sequence[str], new: Sequence[str]) -> ToolFailure:
        kind = ToolErrorKind.TARGET_NOT_FOUND
        if self._next and (found := self._find(old, 0)) is not None:
            why = f"it stands in line {found[0] + 1}, before what the patch names before it"
            return ToolFailure(kind, f"{place} is out of order: {why}; give it first")
        text = "\n".join(self._lines)
        missing = Missing(text, "\n".join(old), "\n".join(new), "its new text")
        cause = find_cause(missing)
        where = f" behind line {self._next}" if self._next else ""
        words = f"{place} is not in the file{where}: {cause.words}"
        return ToolFailure(kind, words, show_cause(missing, cause))


def _drop_last_blank(lines: list[tuple[str, str]]) -> list[tuple[str, str]] | None:
    """Without the last line that is looked for, if that is empty, and without its successor."""
    place = max((at for at, (sign, _) in enumerate(lines) if sign != "+"), default=-1)
    if place < 0 or lines[place][1]:
        return None
    rest = lines[:place] + lines[place + 1 :]
    if lines[place][0] == "-" and rest[-1:] == [("+", "")]:
        rest.pop()
    return rest if any(sign != "+" for sign, _ in rest) else None


def _merge(lines: Sequence[tuple[str, str]], start: int, added: Sequence[str]) -> list[NewLine]:
    """The lines after the piece: those that stay by their number, and the new ones."""
    merged: list[NewLine] = []
    number, new = start, iter(added)
    for sign, _ in lines:
        if sign == "+":
            merged.append(next(new))
            continue
        if sign == " ":
            merged.append(number)
        number += 1
    return merged
