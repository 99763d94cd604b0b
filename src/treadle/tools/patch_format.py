"""The patches that OpenAI's models write, read into what they say of each file. Pure.

    *** Begin Patch
    *** Update File: src/app.py
    *** Move to: src/main.py
    @@ def greet():
     name = "you"
    -print("Hi")
    +print(f"Hello, {name}")
    *** Add File: hello.txt
    +Hello
    *** Delete File: obsolete.txt
    *** End Patch

It is read as tolerantly as by the program that these models know: blanks around markers, a
here-document around the whole, a first piece without `@@`, blank lines between pieces. On top of
that, several `@@` lines in a row lead from a class to its method, and one with the line numbers
of a unified diff says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from treadle.core.tools import ToolErrorKind
from treadle.tool_failure import ToolFailure

FILE_COUNT_MAX: Final = 100
"""Sections of one patch; each holds a folder open while it is written."""

_BEGIN: Final = "*** Begin Patch"
_END: Final = "*** End Patch"
_MOVE: Final = "*** Move to:"
_END_OF_FILE: Final = "*** End of File"
_HEREDOC: Final = re.compile(r"(?:apply_?patch\s+)?<<-?\s*(['\"]?)(\w+)\1\s*\Z")
_NUMBERS: Final = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)?(?: @@.*)?\Z")
"""What stands behind `@@` in a unified diff; of the lines nothing is said by it."""
_QUOTED_SIZE_MAX: Final = 120


class Operation(Enum):
    """What a section of a patch does with its file."""

    ADD = "Add"
    DELETE = "Delete"
    UPDATE = "Update"


class PatchChunk(Struct, frozen=True):
    """A piece of an update: lines of the file, which go, stay, or come.

    `contexts` are lines behind each of which the next is looked for, and then the piece. Each of
    `lines` is a sign, of ` `, `-` and `+`, and a text. One `at_end` stands at the file's end.
    """

    contexts: tuple[str, ...]
    lines: tuple[tuple[str, str], ...]
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        """The lines that are looked for."""
        return [text for sign, text in self.lines if sign != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that are there afterwards, as the patch has them."""
        return [text for sign, text in self.lines if sign != "-"]


class PatchSection(Struct, frozen=True):
    """What a patch does with one file.

    `content` is that of an added one; `move_to` the path under which an updated one stands then.
    """

    operation: Operation
    path: str
    move_to: str = ""
    content: str = ""
    chunks: tuple[PatchChunk, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that it writes."""
        return (self.path, self.move_to) if self.move_to else (self.path,)


def parse_patch(text: str) -> tuple[PatchSection, ...]:
    """The sections of a patch, in order.

    Raises:
        ToolFailure: INVALID_ARGUMENTS, with the line and what is wrong there.
    """
    lines = [line.removesuffix("\r") for line in text.strip().split("\n")]
    opened = _HEREDOC.match(lines[0].strip())
    if opened and len(lines) > 2 and lines[-1].strip() == opened[2]:
        lines = "\n".join(lines[1:-1]).strip().split("\n")
    if lines[0].strip() != _BEGIN:
        raise _fault(1, f"the first line of a patch is `{_BEGIN}`, not {_quote(lines[0])}")
    if lines[-1].strip() != _END:
        raise _fault(len(lines), f"the last line of a patch is `{_END}`, not {_quote(lines[-1])}")
    sections = tuple(_parse_sections(_Lines(lines)))
    if not sections:
        raise _fault(2, "the patch changes no file")
    if len(sections) > FILE_COUNT_MAX:
        raise _fault(1, f"a patch has at most {FILE_COUNT_MAX} sections: send several")
    return sections


def list_patch_paths(sections: Sequence[PatchSection]) -> list[str]:
    """All paths that a patch writes, each once: those to which a file moves too."""
    return [*dict.fromkeys(path for section in sections for path in section.paths)]


class _Lines:
    """The lines between the first and the last one, read one after the other."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 1

    @property
    def number(self) -> int:
        """That of the line that is read next, from 1."""
        return self._at + 1

    @property
    def here(self) -> str | None:
        """The line that is read next; `None` behind the last one."""
        return self._lines[self._at] if self._at < len(self._lines) - 1 else None

    def read_line(self) -> str:
        """Read it, and go on to the next."""
        line = self._lines[self._at]
        self._at += 1
        return line


def _parse_sections(lines: _Lines) -> Iterator[PatchSection]:
    while (line := lines.here) is not None:
        if not line.strip():
            lines.read_line()
            continue
        number, header = lines.number, lines.read_line().strip()
        named = (one for one in Operation if header.startswith(f"*** {one.value} File:"))
        found = next(named, None)
        if found is None:
            raise _fault(number, _explain_header(header))
        path = header.partition(":")[2].strip()
        if not path:
            raise _fault(number, f"{_quote(header)} names no file")
        if found is Operation.ADD:
            yield PatchSection(found, path, content=_parse_content(lines))
        elif found is Operation.DELETE:
            yield PatchSection(found, path)
        else:
            yield _parse_update(lines, path, number)


def _explain_header(line: str) -> str:
    if line.startswith(("+", "-", "@@")) or not line.startswith("*"):
        return (
            f"{_quote(line)} belongs to no file: all lines of a new file begin with `+`, those of "
            "an updated one with a space, `-`, `+` or `@@`"
        )
    kinds = ", ".join(f"`*** {one.value} File: PATH`" for one in Operation)
    return f"{_quote(line)} is no header; there are {kinds}"


def _parse_content(lines: _Lines) -> str:
    content: list[str] = []
    while (line := lines.here) is not None and line.startswith("+"):
        content.append(f"{lines.read_line()[1:]}\n")
    return "".join(content)


def _parse_update(lines: _Lines, path: str, number: int) -> PatchSection:
    move_to = ""
    if (line := lines.here) is not None and line.strip().startswith(_MOVE):
        move_to = lines.read_line().strip().removeprefix(_MOVE).strip()
        if not move_to:
            raise _fault(lines.number - 1, f"`{_MOVE}` names no file")
    chunks: list[PatchChunk] = []
    while (line := lines.here) is not None and not line.startswith("*"):
        if line.strip():
            chunks.append(_parse_chunk(lines, is_first=not chunks))
        else:
            lines.read_line()
    if not chunks and not move_to:
        raise _fault(number, f"the update of {path} has no lines")
    return PatchSection(Operation.UPDATE, path, move_to, chunks=tuple(chunks))


def _parse_chunk(lines: _Lines, *, is_first: bool) -> PatchChunk:
    contexts: list[str] = []
    has_mark = False
    while (line := lines.here) is not None and (line == "@@" or line.startswith("@@ ")):
        has_mark = True
        context = lines.read_line()[3:]
        if context.strip() and not _NUMBERS.match(context):
            contexts.append(context)
    number, found = lines.number, list[tuple[str, str]]()
    if not has_mark and not is_first:
        what = _quote(line or "")
        raise _fault(number, f"a piece of an update begins with `@@`, not with {what}")
    while (line := lines.here) is not None:
        if line.rstrip() == _END_OF_FILE and found:
            lines.read_line()
            return PatchChunk(tuple(contexts), tuple(found), at_end=True)
        if line[:1] not in ("", " ", "-", "+"):
            break  # of the next piece or file
        text = lines.read_line()
        found.append((text[:1] or " ", text[1:]))
    if not found and line is not None and not line.startswith("*"):
        raise _fault(number, f"{_quote(line)} begins with none of a space, `-` and `+`")
    if not found:
        raise _fault(number, "this piece of an update has no lines")
    return PatchChunk(tuple(contexts), tuple(found))


def _fault(number: int, why: str) -> ToolFailure:
    return ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, f"line {number} of the patch: {why}")


def _quote(line: str) -> str:
    more = "..." if len(line) > _QUOTED_SIZE_MAX else ""
    return f"`{line[:_QUOTED_SIZE_MAX]}{more}`"
