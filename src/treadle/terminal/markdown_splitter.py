"""Markdown that is still being written, cut into pieces that no later text can change.

A piece is one or more whole blocks (paragraph, list, code, table, heading, quote): what is shown of
the pieces one by one is what is shown of the whole. Where a piece ends is proposed by how a line
begins and decided by the parser itself, which is asked only where the answer is likely to be yes,
so that each character is looked at a bounded number of times, whatever the text.

What is very long is given away in parts: code with its fences, whatever it is with all the rest.

One thing cannot be known early: a link whose definition comes behind it stays as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

from treadle.thread.safe_text import sanitize_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

DENIED_COUNT_MAX: Final = 8
"""So often the parser may say no within a piece before it is only asked when it has doubled."""

PART_SIZE_MAX: Final = 20_000
"""Characters of a piece, and of a line; what is longer is given away in parts."""
PART_LINES_MAX: Final = 500
"""Lines of a piece, likewise: the time to read and to show it goes by them too."""
CODE_SIZE_MAX: Final = 8_000
"""Characters of a part of code, which takes more time to show."""
COLORED_SIZE_MAX: Final = 60_000
"""Characters of code in one block whose parts say what language it is."""

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")
_HEADING: Final = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_RULE: Final = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_ITEM: Final = re.compile(r"( {0,3})([-+*]|\d{1,9}[.)])([ \t]+|$)")
_CLOSED_BY_BLANK: Final = frozenset({"paragraph", "heading", "table", "blockquote", "hr"})
_CODE_INDENT: Final = 4


class MarkdownPiece(str):
    """A piece; one that `goes_on` is a later part of a long one, and belongs right below it."""

    __slots__ = ("goes_on",)

    def __new__(cls, text: str, *, goes_on: bool = False) -> MarkdownPiece:
        """The text, and whether it is a later part."""
        made = super().__new__(cls, text)
        made.goes_on = goes_on
        return made

    goes_on: bool


class MarkdownSplitter:
    """Takes text as it comes, gives pieces as they are finished."""

    def __init__(self) -> None:
        self._held = ""
        """A carriage return that may be half a line end."""
        self._unended: list[str] = []
        """What has come of the current line."""
        self._unended_size = 0
        self._lines: list[str] = []
        """The lines of the current piece; its first begins a block."""
        self._goes_on = False
        """Whether the current piece is a later part of a long one."""
        self._rest_indent: int | None = None
        """In the rest of a list that was given away in parts: how far its text is indented."""
        self._begin_piece()

    def _begin_piece(self) -> None:
        self._size = 0
        self._denied_count = 0
        self._ask_from = 0
        self._fence = self._opening = ""
        self._code_size = 0
        self._item_indent: int | None = None
        self._is_code = False
        self._is_after_blank = False

    def feed(self, text: str) -> Iterator[str]:
        """The pieces that this text finishes, in whole lines. To be iterated to the end."""
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r").replace("\r\n", "\n")
        *ended, rest = text.split("\n")
        for line in ended:
            self._unended.append(line)
            yield from self._add_in_parts(self._end_line())
        if rest:
            self._unended.append(rest)
            self._unended_size += len(rest)
            if self._unended_size > PART_SIZE_MAX:
                yield from self._add_in_parts(self._end_line())

    def close(self) -> Iterator[str]:
        """What is left, as the last piece: no more text comes. Another text may be fed then."""
        self._held = ""
        if self._unended:
            yield from self._add_in_parts(self._end_line())
        yield from self._cut(len(self._lines))
        self._goes_on = False
        self._rest_indent = None

    def _end_line(self) -> str:
        # Not before: what a chunk begins with may belong to the end of the one before.
        line = sanitize_text("".join(self._unended))
        self._unended.clear()
        self._unended_size = 0
        return line

    def tail(self, size: int) -> str:
        """The end of what is not finished: `size` characters, if there are, at most three times it.

        It begins at the same place for a long time, so that it can be wrapped without flickering.
        """
        count = min(self._unended_size, size + self._unended_size % size)
        parts: list[str] = []
        found = 0
        for chunk in reversed(self._unended):
            if found >= count:
                break
            parts.append(chunk)
            found += len(chunk)
        lines = [sanitize_text("".join(reversed(parts))[found - count :])]
        for line in reversed(self._lines):
            if count >= size:
                break
            lines.append(line[-size:])
            count += len(line) + 1
        return "\n".join(reversed(lines))

    def beginning(self, size: int) -> str | None:
        """What is not finished, as it may be laid out already; `None` if it is shown as written.

        Of what is long that is the end, as `tail` has it, behind what makes it what it is: the
        first line of code, the head of a table. It begins with a line.
        """
        if self._goes_on and not self._fence:
            return None
        text = self.tail(size)
        if len(text) >= self._size + self._unended_size:
            return text
        _, _, rest = text.partition("\n")
        if self._fence:
            return f"{self._opening}\n{rest}"
        head = self._lines[:2]
        if len(head) == 2 and "|" in head[0] and not head[1].strip(" |:-\t"):
            return "\n".join([*head, rest])
        # Code within a list, say: where in it the text begins is not known.
        return None if any("```" in line or "~~~" in line for line in self._lines) else rest or None

    @property
    def has_rest(self) -> bool:
        """Whether something is not finished."""
        return bool(self._unended or self._lines)

    def _add_in_parts(self, line: str) -> Iterator[str]:
        """Take a line, as several if it is very long."""
        for start in range(0, len(line) or 1, PART_SIZE_MAX):
            part = line[start : start + PART_SIZE_MAX]
            if start and self._rest_indent is not None:
                self._append(part)
            else:
                yield from self._add(part)
            if not self._fence and self._is_long:
                if self._rest_indent is None:
                    self._rest_indent = self._item_indent
                is_blank = not self._lines[-1].strip(" \t")
                yield from self._cut(len(self._lines))
                self._goes_on = True
                self._is_after_blank = is_blank and self._rest_indent is not None

    @property
    def _is_long(self) -> bool:
        return self._size > PART_SIZE_MAX or len(self._lines) > PART_LINES_MAX

    def _add(self, line: str) -> Iterator[str]:
        """Take a whole line."""
        if self._fence:
            yield from self._add_to_fence(line)
            return
        is_blank = not line.strip(" \t")
        if self._rest_indent is not None:
            if is_blank or _depth_of(line) >= self._rest_indent:
                self._append(line)  # what it is depends on what was given away
                self._is_after_blank = is_blank
                return
            yield from self._end_list_rest()
        if not self._lines:
            if is_blank:
                self._goes_on = False
            else:
                yield from self._begin_block(line)
            return
        if not is_blank and self._may_begin(line) and (place := self._find_last_start(line)):
            yield from self._cut(place)
            yield from self._add(line)
            return
        self._append(line)
        if not is_blank:
            self._note_item_indent(line)
        elif self._item_indent is None and not self._is_code and self._is_closed():
            yield from self._cut(len(self._lines))
        self._is_after_blank = is_blank

    def _end_list_rest(self) -> Iterator[str]:
        """A line that is not in the list's item comes; below a blank one it begins anew."""
        self._rest_indent = None
        is_below, goes_on = self._is_after_blank, self._goes_on
        if any(map(str.strip, self._lines)):
            yield from self._cut(len(self._lines))
        self._lines.clear()
        self._begin_piece()
        self._goes_on = goes_on and not is_below

    def _begin_block(self, line: str) -> Iterator[str]:
        """The first line of a piece: surely the first of a block."""
        self._append(line)
        if "|" not in line:  # else it may be the head of a table
            if (fence := _FENCE.fullmatch(line)) and not ("`" in fence[1] and "`" in fence[2]):
                self._fence, self._opening = fence[1], line
                return
            if _HEADING.match(line) or _RULE.match(line):
                yield from self._cut(1)
                return
        self._is_code = line.startswith("\t") or _indent_of(line) >= _CODE_INDENT
        self._note_item_indent(line)

    def _append(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line) + 1

    def _add_to_fence(self, line: str) -> Iterator[str]:
        self._append(line)
        end = _FENCE.fullmatch(line)
        if end and end[1].startswith(self._fence) and not end[2].strip(" \t"):
            yield from self._cut(len(self._lines))
        elif (self._size > CODE_SIZE_MAX or len(self._lines) > PART_LINES_MAX) and (
            # Blank lines at the end of code are not shown.
            line.strip(" \t") or self._size > PART_SIZE_MAX
        ):
            yield self._cut_code()

    def _cut_code(self) -> MarkdownPiece:
        """What there is of an open block of code, closed; what follows is opened again."""
        closed = "".join(f"{line}\n" for line in [*self._lines, self._fence])
        part = MarkdownPiece(closed, goes_on=self._goes_on)
        self._code_size += self._size
        opening = self._opening
        if self._code_size > COLORED_SIZE_MAX:
            opening = opening[: opening.index(self._fence)] + self._fence
        self._lines[:] = [opening]
        self._size = len(opening) + 1
        self._goes_on = True
        return part

    def _note_item_indent(self, line: str) -> None:
        """Remember how far the text of the latest outer item is indented."""
        item = _ITEM.match(line)
        if item is None or (self._item_indent is None and len(self._lines) > 1):
            return
        if self._item_indent is None or _indent_of(line) < self._item_indent:
            gap = len(item[3].expandtabs())
            self._item_indent = (
                len(item[1]) + len(item[2]) + (gap if 1 <= gap <= _CODE_INDENT else 1)
            )

    def _may_begin(self, line: str) -> bool:
        """Whether the line is likely to begin an outer block."""
        indent = _depth_of(line)
        if self._item_indent is not None:
            if indent >= self._item_indent:
                return False
            if _RULE.match(line) or _FENCE.match(line) or _HEADING.match(line):
                return True
            return self._is_after_blank and _ITEM.match(line) is None
        if self._is_code:
            return indent < _CODE_INDENT
        if self._is_after_blank:
            return True
        return any(begin.match(line) for begin in (_FENCE, _HEADING, _ITEM))

    def _find_last_start(self, line: str) -> int | None:
        """The line of the piece, this one behind it, where its last outer block begins."""
        found = self._parse_last_block([*self._lines, line])
        place = None if found is None or found.map is None else found.map[0]
        if place != len(self._lines):
            self._count_denial()
        return place

    def _is_closed(self) -> bool:
        """Whether nothing that follows the blank line at the end can belong to the piece."""
        found = self._parse_last_block(self._lines)
        if found is None or found.type.removesuffix("_open") not in _CLOSED_BY_BLANK:
            self._count_denial()
            return False
        return True

    def _parse_last_block(self, lines: list[str]) -> Token | None:
        """The last outer block; `None` if there is none, or if it is too early to ask again."""
        if self._denied_count >= DENIED_COUNT_MAX and self._size < self._ask_from:
            return None
        outer = [
            t
            for t in _make_block_parser().parse("\n".join(lines))
            if t.level == 0 and t.nesting >= 0
        ]
        return outer[-1] if outer else None

    def _count_denial(self) -> None:
        if self._denied_count < DENIED_COUNT_MAX or self._size >= self._ask_from:
            self._denied_count += 1
            self._ask_from = 2 * self._size

    def _cut(self, count: int) -> Iterator[str]:
        """Give the first `count` lines away, if that is any. What is left begins a block."""
        if not count:
            return
        piece, rest = self._lines[:count], self._lines[count:]
        self._lines.clear()
        self._begin_piece()
        goes_on, self._goes_on = self._goes_on, False
        yield MarkdownPiece("".join(f"{line}\n" for line in piece), goes_on=goes_on)
        for line in rest:
            yield from self._add(line)


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _depth_of(line: str) -> int:
    """The same, of a line that may begin with a tab."""
    return _CODE_INDENT if line.startswith("\t") else _indent_of(line)


@cache
def make_parser() -> MarkdownIt:
    """The parser of all that is shown: tags stay text, so that nothing of an answer is lost."""
    return _new_parser()


def _new_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


@cache
def _make_block_parser() -> MarkdownIt:
    """A parser that stops at the blocks."""
    parser = _new_parser()
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser
