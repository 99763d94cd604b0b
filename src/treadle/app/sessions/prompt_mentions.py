r"""What a person names in a prompt with `@`: files, lines of files, listings of folders.

`@src/app.py`, `@src/app.py:10-40`, `@src/`, `@"two words.md"`, `@two\ words.md`. What is named is
read as the agent's own tools read it, under their rules for paths and sizes, and stands behind the
person's words as it was when they were said. What cannot be read stays the text that it is.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from treadle.core.tools import ToolErrorKind
from treadle.thread.typed_words import MENTIONS_HEAD
from treadle.tool_failure import ToolFailure
from treadle.tools.list_files import list_files
from treadle.tools.paths import Root
from treadle.tools.read_file import read_file
from treadle.tools.registry import ToolContext

MENTION_COUNT_MAX: Final = 20
"""Files and folders of one prompt; the agent reads more than that by itself."""
TEXT_LENGTH_MAX: Final = 100_000
"""Characters of all of them together, about 25,000 tokens."""

_MENTION: Final = re.compile(r'(?:(?<=[\s(\[{])|\A)@(?:"([^"\n]+)"|((?:\\[^\n]|[^\s"\\])+))')
_LINES: Final = re.compile(r"(.+):(\d{1,9})(?:(-)(\d{1,9})?)?\Z", re.DOTALL)
_SENTENCE_END: Final = ".,;:!?)]}'"
_ABSENT: Final = (ToolErrorKind.FILE_NOT_FOUND, ToolErrorKind.INVALID_ARGUMENTS)


class Mentions(Struct, frozen=True):
    """What was read for a prompt.

    `text` stands behind it; empty if nothing is named. `remarks` say what was not read, and why.
    """

    text: str = ""
    remarks: tuple[str, ...] = ()


class _Part(NamedTuple):
    """A name, and lines of it: from `first` to `last`, `None` for all that follow."""

    name: str
    first: int = 1
    last: int | None = None

    @property
    def label(self) -> str:
        """As a model is told of it."""
        name = json.dumps(self.name, ensure_ascii=False)
        if (self.first, self.last) == (1, None):
            return f"[{name}]"
        end = "the end" if self.last is None else self.last
        return f"[{name}, lines {self.first} to {end}]"


def read_mentions(typed: str, root: Root) -> Mentions:
    """Read what a person has named. It may take seconds: a folder can be large.

    Args:
        typed: the person's own words.
        root: the folder that names are relative to, and that nothing leads out of.
    """
    texts: list[str] = []
    remarks: list[str] = []
    room, done = TEXT_LENGTH_MAX, set[str]()
    for name in _list_names(typed):
        if name in done:
            continue
        if len(done) == MENTION_COUNT_MAX:
            remarks.append(f"only the first {MENTION_COUNT_MAX} files that a prompt names are read")
            break
        done.add(name)
        try:
            text = _read(name, root)
        except ToolFailure as failure:
            remarks.append(f"@{name} stays text: {_explain(failure)}")
            continue
        if len(text) > room:
            remarks.append(
                f"@{name} is not read: with it, a prompt would have over {TEXT_LENGTH_MAX} "
                "characters of files; the agent can read it by itself"
            )
            continue
        room -= len(text)
        texts.append(text)
    told = "\n".join((MENTIONS_HEAD, *texts)) if texts else ""
    return Mentions(told, tuple(remarks))


def _list_names(typed: str) -> Iterator[str]:
    """What stands behind each `@`, unquoted; what no path can be is left out."""
    for found in _MENTION.finditer(typed):
        name = found[1] or re.sub(r"\\(.)", r"\1", found[2])
        if any(map(str.isalnum, name)):
            yield name


def _explain(failure: ToolFailure) -> str:
    """Why it was not read, in a line for a person."""
    line = failure.message.splitlines()[0] if failure.message else ""
    return f"{failure.kind.value.lower()}: {line}" if line else failure.kind.value.lower()


def _read(name: str, root: Root) -> str:
    """The text of what is named, under a line that says what it is.

    A sentence may end right behind the name. The first reading that is there counts; if none is,
    the failure is that of the name as it stands, or of lines that a file has not.

    Raises:
        ToolFailure: it is not there, or not to be read.
    """
    missing: ToolFailure | None = None
    for part in _list_readings(name):
        try:
            return f"{part.label}\n{_read_part(part, root)}"
        except ToolFailure as failure:
            if failure.kind not in _ABSENT:
                raise
            is_there = failure.kind is ToolErrorKind.INVALID_ARGUMENTS
            missing = failure if missing is None or is_there else missing
    assert missing is not None
    raise missing


def _list_readings(name: str) -> Iterator[_Part]:
    bare = name.rstrip(_SENTENCE_END)
    for one in dict.fromkeys((name, bare)):
        if one:
            yield _Part(one)
        if lines := _LINES.fullmatch(one):
            first = int(lines[2])
            last = int(lines[4]) if lines[4] else None if lines[3] else first
            yield _Part(lines[1], first, last)


def _read_part(part: _Part, root: Root) -> str:
    context = ToolContext("", lambda _: None, root)
    if part.name.endswith("/"):
        return list_files(context, part.name)
    try:
        if part.first < 1 or (part.last is not None and part.last < part.first):
            raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, "there are no such lines")
        return read_file(context, part.name, part.first, part.last).output
    except ToolFailure:
        if not _is_folder(root, part.name):
            raise
    return list_files(context, part.name)


def _is_folder(root: Root, name: str) -> bool:
    try:
        os.close(root.open_folder(name))
    except ToolFailure:
        return False
    return True
