r"""What a person names in a prompt with `@`: files, lines of files, listings of folders.

`@src/app.py`, `@src/app.py:10-40`, `@src/`, `@shot.png`, `@"two words.md"`, `@two\ words.md`. What
is named is read as the agent's own tools read it, under their rules for paths and sizes, and stands
behind the person's words as it was when they were said. A picture or a PDF document goes along as
it is. What cannot be read stays the text that it is.

A terminal into which a file is dropped types its path, quoted or with backslashes. Where that is
said to happen, such a path of a picture or a document is read too, from wherever the person can
read: they chose it with their hands.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple
from urllib.parse import unquote

from msgspec import Struct

from treadle.core.media import (
    PDF_SIZE_MAX,
    MediaError,
    identify_media,
    is_media,
    make_attachment,
)
from treadle.core.messages import Attachment, SeenFile, describe_attachment
from treadle.core.tools import ToolErrorKind
from treadle.thread.typed_words import MENTIONS_HEAD
from treadle.tool_failure import ToolFailure
from treadle.tools.context import ToolContext
from treadle.tools.files import digest_of
from treadle.tools.line_digests import digest_lines
from treadle.tools.list_files import list_files
from treadle.tools.paths import Root, as_failure
from treadle.tools.read_file import read_file
from treadle.tools.tool_return import clean_names

MENTION_COUNT_MAX: Final = 20
"""Files and folders of one prompt; the agent reads more than that by itself."""
MISS_COUNT_MAX: Final = 20
"""Names that are no files; behind so many, as in pasted code, no more are looked for."""
TEXT_LENGTH_MAX: Final = 100_000
"""Characters of all of them together, about 25,000 tokens."""

_MENTION: Final = re.compile(r'(?:(?<=[\s(\[{])|\A)@(?:"([^"\n]+)"|((?:\\[^\n]|[^\s"\\])+))')
_DROP: Final = re.compile(
    r"""(?:(?<=\s)|\A)(?:'(/[^'\n]+)'|"(/[^"\n]+)"|((?:file://)?/(?:\\[^\n]|[^\s"'\\])+))"""
)
"""A path as terminals type it for a file that is dropped into them."""
_LINES: Final = re.compile(r"(.+):(\d{1,9})(?:(-)(\d{1,9})?)?\Z", re.DOTALL)
SNIFF_SIZE: Final = 32
"""Bytes by which a picture or a document is known."""
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_SENTENCE_END: Final = ".,;:!?)]}'"
_ABSENT: Final = (ToolErrorKind.FILE_NOT_FOUND, ToolErrorKind.INVALID_ARGUMENTS)


class Mentions(Struct, frozen=True):
    """What was read for a prompt.

    `text` stands behind it; empty if nothing is named. `shown` are pictures and documents, without
    their bytes, which `contents` has. `remarks` say what was not read, and why. `seen` are the
    files of the workspace of which this tells.
    """

    text: str = ""
    shown: tuple[Attachment, ...] = ()
    contents: tuple[bytes, ...] = ()
    remarks: tuple[str, ...] = ()
    seen: tuple[SeenFile, ...] = ()


class _Text(NamedTuple):
    """Lines that stand behind the prompt, and the files of which they tell."""

    line: str
    seen: tuple[SeenFile, ...] = ()


class _Picture(NamedTuple):
    """A picture or a document, and its bytes; `seen` if it is a file of the workspace."""

    attachment: Attachment
    data: bytes
    seen: tuple[SeenFile, ...] = ()

    @property
    def line(self) -> str:
        """As a model is told of it."""
        name = json.dumps(self.attachment.name, ensure_ascii=False)
        told = describe_attachment(self.attachment).removeprefix(f"{self.attachment.name}, ")
        return f"[{name}, {told}: shown with this message]"


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


class _Reading:
    """What a prompt names, read one after the other within the bounds of all of it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.shown: list[Attachment] = []
        self.contents: list[bytes] = []
        self.remarks: list[str] = []
        self.seen: list[SeenFile] = []
        self._room = TEXT_LENGTH_MAX

    @property
    def count(self) -> int:
        """How many were read."""
        return len(self.texts)

    def add(self, mark: str, read: Callable[[], _Text | _Picture]) -> None:
        """Read one; what keeps it from being read is a remark."""
        try:
            found = read()
        except ToolFailure as failure:
            self.remarks.append(f"{mark} stays text: {_explain(failure)}")
            return
        except MediaError as error:
            self.remarks.append(f"{mark} is not shown: {error}")
            return
        text = found.line
        if len(text) > self._room:
            self.remarks.append(
                f"{mark} is not read: with it, a prompt would have over {TEXT_LENGTH_MAX} "
                "characters of files; the agent can read it by itself"
            )
            return
        self._room -= len(text)
        self.texts.append(text)
        self.seen += found.seen
        if isinstance(found, _Picture):
            self.shown.append(found.attachment)
            self.contents.append(found.data)


def read_mentions(typed: str, root: Root, hides: Callable[[Path], bool] | None = None) -> Mentions:
    """Read what a person has named. It may take seconds: a folder can be large.

    Args:
        typed: the person's own words.
        root: the folder that names are relative to, and that nothing leads out of.
        hides: whether a path leads to what is hidden, for paths that were dropped into a terminal;
            without it none are looked for.
    """
    reading, done = _Reading(), set[str]()
    for mark, name in _list_names(typed, has_drops=hides is not None):
        if name in done:
            continue
        if reading.count == MENTION_COUNT_MAX:
            reading.remarks.append(
                f"only the first {MENTION_COUNT_MAX} files that a prompt names are read"
            )
            break
        if len(reading.remarks) == MISS_COUNT_MAX:
            reading.remarks.append("what else is named stays text: too much of it cannot be read")
            break
        done.add(name)
        if mark:
            reading.add(f"@{name}", partial(_read, name, root))
        elif hides is not None and (found := _find_dropped(name)) is not None:
            reading.add(name, partial(_read_dropped, found, hides, root))
    told = "\n".join((MENTIONS_HEAD, *reading.texts)) if reading.texts else ""
    shown, contents = tuple(reading.shown), tuple(reading.contents)
    return Mentions(told, shown, contents, tuple(reading.remarks), clean_names(reading.seen))


def _find_dropped(name: str) -> Path | None:
    """The file of a dropped path, if it is a picture or a document; nothing else is taken along."""
    path = Path(unquote(name.removeprefix("file://")) if name.startswith("file:///") else name)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None  # to open a device may already do something
        with os.fdopen(os.open(path, _READ), "rb") as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return path if is_file and is_media(file.read(SNIFF_SIZE)) else None
    except (OSError, ValueError):
        return None


def _read_dropped(path: Path, hides: Callable[[Path], bool], root: Root) -> _Picture:
    """The picture of a dropped path; seen, as one named with `@`, if it lies in the root."""
    if hides(path):
        raise ToolFailure(ToolErrorKind.REJECTED, f"{path} is hidden from tools")
    with as_failure(str(path)), os.fdopen(os.open(path, _READ), "rb") as file:
        picture = _make_picture(str(path), file)
    if picture is None:
        raise ToolFailure(ToolErrorKind.FAILED, f"{path} is a text, and no picture")
    place = Path(os.path.realpath(path))
    if not place.is_relative_to(root.path):
        return picture
    return _note_seen(picture, str(place.relative_to(root.path)))


def _note_seen(picture: _Picture, name: str) -> _Picture:
    """It is a file of the workspace: who has been shown it may replace it."""
    digest, lines = digest_of(picture.data), digest_lines(picture.data)
    return picture._replace(seen=(SeenFile(name, digest, lines=lines),))


def _make_picture(name: str, file: BinaryIO) -> _Picture | None:
    """The attachment that a file is; `None` if it is none after all, but a text.

    Raises:
        MediaError: no model takes it as it is.
    """
    data = file.read(PDF_SIZE_MAX + 1)
    media = identify_media(data, max(len(data), os.fstat(file.fileno()).st_size))
    if media is None:
        return None
    return _Picture(make_attachment(media, name, data), data)


def _list_names(typed: str, *, has_drops: bool) -> list[tuple[str, str]]:
    """The `@` and what stands behind it, unquoted, and dropped paths without an `@`, in order.

    What no path can be is left out.
    """
    found = [(one.start(), "@", one[1] or _unescape(one[2])) for one in _MENTION.finditer(typed)]
    drops = _DROP.finditer(typed) if has_drops else ()
    found += [(one.start(), "", one[1] or one[2] or _unescape(one[3])) for one in drops]
    return [(mark, name) for _, mark, name in sorted(found) if any(map(str.isalnum, name))]


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


def _explain(failure: ToolFailure) -> str:
    """Why it was not read, in a line for a person."""
    line = failure.message.splitlines()[0] if failure.message else ""
    return f"{failure.kind.value.lower()}: {line}" if line else failure.kind.value.lower()


def _read(name: str, root: Root) -> _Text | _Picture:
    """The text of what is named, under a line that says what it is; or the picture.

    A sentence may end right behind the name. The first reading that is there counts; if none is,
    the failure is that of the name as it stands, or of lines that a file has not.

    Raises:
        ToolFailure: it is not there, or not to be read.
        MediaError: it is a picture that no model takes as it is.
    """
    missing: ToolFailure | None = None
    for part in _list_readings(name):
        try:
            return _read_picture(part, root) or _read_part(part, root)
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


def _read_picture(part: _Part, root: Root) -> _Picture | None:
    """The picture or document of this name; `None` if it is something else."""
    if part.name.endswith("/") or (part.first, part.last) != (1, None):
        return None
    try:
        fd = root.open_file(part.name)
    except ToolFailure:
        return None  # who reads it as text says why not
    with as_failure(part.name), os.fdopen(fd, "rb") as file:
        if not is_media(file.read(SNIFF_SIZE)):
            return None
        file.seek(0)
        picture = _make_picture(part.name, file)
    if picture is None:
        return None
    return _note_seen(picture, root.name_of(part.name))


def _read_part(part: _Part, root: Root) -> _Text:
    context = ToolContext("", lambda _: None, root)
    if part.name.endswith("/"):
        return _Text(f"{part.label}\n{list_files(context, part.name)}")
    try:
        if part.first < 1 or (part.last is not None and part.last < part.first):
            raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, "there are no such lines")
        page = read_file(context, part.name, part.first, part.last)
        return _Text(f"{part.label}\n{page.output}", page.seen)
    except ToolFailure:
        if not _is_folder(root, part.name):
            raise
    return _Text(f"{part.label}\n{list_files(context, part.name)}")


def _is_folder(root: Root, name: str) -> bool:
    try:
        os.close(root.open_folder(name))
    except ToolFailure:
        return False
    return True
