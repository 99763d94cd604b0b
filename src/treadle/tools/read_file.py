"""The tool that reads files."""

from __future__ import annotations

import codecs
import os
from io import BufferedReader, BytesIO
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from treadle.core.conversation import OUTPUT_PREFIX
from treadle.core.media import MediaError, identify_media, is_media
from treadle.core.messages import SeenFile
from treadle.core.sightings import Sighting
from treadle.core.tools import EffectClass, RiskLevel, ToolErrorKind
from treadle.tool_failure import ToolFailure
from treadle.tools.context import ToolContext
from treadle.tools.files import read_unless_large
from treadle.tools.function_tool import Arguments, tool
from treadle.tools.known_files import find_repetition
from treadle.tools.line_digests import digest_lines
from treadle.tools.near_names import with_near_names
from treadle.tools.paths import as_failure
from treadle.tools.tool_return import ShownFile, ToolReturn

OUTPUT_SIZE_MAX: Final = 30_000
"""Bytes of a file in one answer; below the 32 KiB above which a thread stores output apart."""
SNIFF_SIZE: Final = 8 * 1024
"""Bytes looked at to tell text from binary: a NUL among them means binary, as for git."""
PIECE_SIZE: Final = 64 * 1024
"""Bytes read at once of a line, which may be the whole file."""


class _Page(NamedTuple):
    """Lines as they are shown; their numbers are 0 where they are not shown whole."""

    text: str
    first_line: int = 0
    last_line: int = 0


def check_reading(arguments: Arguments, context: ToolContext) -> None:
    """Raise what `read_file` would of a file that it cannot open."""
    _check_lines(arguments["start_line"], arguments["end_line"])
    if not arguments["path"].startswith(OUTPUT_PREFIX):
        os.close(context.workspace.open_file(arguments["path"]))


@tool(effect=EffectClass.READ, risk=RiskLevel.LOW, check=check_reading)
def read_file(
    context: ToolContext,
    path: str,
    start_line: Annotated[int, Meta(ge=1)] = 1,
    end_line: Annotated[int, Meta(ge=1)] | None = None,
) -> ToolReturn:
    """Read a text file, or some lines of it, or the whole of a result that was cut.

    A picture or a PDF document is shown as it is, to models that see.

    A long answer is cut and says at which line to read on. Remarks stand in square brackets on a
    line of their own at the end.

    Args:
        context: The workspace.
        path: The file, relative to the workspace; `output:ID` for a result that says so.
        start_line: The first line to read; lines count from 1.
        end_line: The last line to read; by default the file's last.
    """
    _check_lines(start_line, end_line)
    root = context.workspace
    with (
        with_near_names(root, path),
        as_failure(path),
        os.fdopen(root.open_file(path), "rb") as file,
    ):
        digest, data = read_unless_large(file.fileno())
        if is_media(first := file.read(SNIFF_SIZE) if data is None else data):
            name = root.name_of(path)
            lines = "" if data is None else digest_lines(data)
            size = os.fstat(file.fileno()).st_size
            shown = _show_media(name, first, size, SeenFile(name, digest, lines=lines))
            if shown is not None:
                return shown
        # What is shown and what is then known of the file are the same bytes.
        page = _show(file if data is None else BufferedReader(BytesIO(data)), start_line, end_line)
        if page is None:
            page = _Page(f"[binary file, {os.fstat(file.fileno()).st_size} bytes; not shown]")
    name, lines = root.name_of(path), "" if data is None else digest_lines(data)
    seen = SeenFile(name, digest, page.first_line, page.last_line, lines)
    again = find_repetition(context.sightings, seen, len(page.text))
    if again is None:
        return ToolReturn(page.text, seen=(seen,))
    text = (
        f"[{name} has not changed since {_name_source(again)} shows the same lines "
        f"({page.first_line}-{page.last_line}); ask once more to have them again]"
    )
    return ToolReturn(text, seen=(SeenFile(name, digest, lines=lines),))


def _name_source(sighting: Sighting) -> str:
    if sighting.message is not None:
        return "the person's message above, which"
    return f"{sighting.call_id}, whose result above"


def _show_media(name: str, data: bytes, size: int, seen: SeenFile) -> ToolReturn | None:
    """A picture or a document; why it is not shown, if no model takes it as it is.

    `None` for a text that only begins like one.
    """
    try:
        media = identify_media(data, max(len(data), size))
    except MediaError as error:
        return ToolReturn(f"[not shown: {error}]", seen=(seen,))
    if media is None:
        return None
    pixels = f", {media.width}x{media.height} pixels" if media.width else ""
    text = f"[{media.media_type}{pixels}, {len(data)} bytes: shown with this result]"
    return ToolReturn(text, seen=(seen,), shown=(ShownFile(name, data),))


def _show(file: BufferedReader, start_line: int, end_line: int | None) -> _Page | None:
    """The lines asked for; `None` if the file is no text."""
    file.seek(0)
    if b"\0" in file.read(SNIFF_SIZE):
        return None
    file.seek(0)
    return _page(file, start_line, end_line)


def read_output(data: bytes, start_line: int, end_line: int | None) -> str:
    """Some lines of a kept output, as `read_file` gives those of a file. Raises as it does."""
    _check_lines(start_line, end_line)
    return _page(BufferedReader(BytesIO(data)), start_line, end_line).text


def _check_lines(start_line: int, end_line: int | None) -> None:
    if end_line is not None and end_line < start_line:
        raise ToolFailure(
            ToolErrorKind.INVALID_ARGUMENTS,
            f"end_line {end_line} is before start_line {start_line}",
        )


def _page(file: BufferedReader, start_line: int, end_line: int | None) -> _Page:
    _skip(file, start_line - 1)
    data = _take(file, None if end_line is None else end_line - start_line + 1)
    return _render(data, start_line, goes_on=bool(file.read(1)))


def _skip(file: BufferedReader, line_count: int) -> None:
    passed, last = 0, b""
    while passed < line_count and (piece := file.readline(PIECE_SIZE)):
        passed += piece.endswith(b"\n")
        last = piece
    if line_count and not file.peek(1):
        total = passed + (last[-1:] not in (b"", b"\n"))
        raise ToolFailure(
            ToolErrorKind.INVALID_ARGUMENTS,
            f"start_line {line_count + 1} is beyond the end: the file has {total} lines",
        )


def _take(file: BufferedReader, line_count: int | None) -> bytes:
    """So many lines, but no more than one byte too much, which tells that there is more."""
    pieces: list[bytes] = []
    room = OUTPUT_SIZE_MAX + 1
    while room and line_count != 0 and (piece := file.readline(room)):
        pieces.append(piece)
        room -= len(piece)
        if line_count is not None:
            line_count -= piece.endswith(b"\n")
    return b"".join(pieces)


def _render(data: bytes, start_line: int, *, goes_on: bool) -> _Page:
    is_cut = len(data) > OUTPUT_SIZE_MAX
    is_long_line = False
    if is_cut:
        data = data[:OUTPUT_SIZE_MAX]
        whole = data.rfind(b"\n") + 1
        is_long_line = not whole
        data = data[:whole] if whole else data
    remarks: list[str] = []
    try:
        # Half a character at the end of a line cut in two is nobody's fault.
        text, _ = codecs.utf_8_decode(data, "strict", not is_long_line)
    except UnicodeDecodeError:
        text = data.decode(errors="replace")
        remarks.append("not valid UTF-8: some bytes are shown as \ufffd")
    last_line = start_line + text.count("\n") - text.endswith("\n")
    if is_long_line:
        remarks.append(
            f"line {last_line} is longer than {OUTPUT_SIZE_MAX} bytes: its rest is not shown; "
            f"read on with start_line={last_line + 1}"
        )
    elif is_cut:
        remarks.append(
            f"cut after line {last_line}: {OUTPUT_SIZE_MAX} bytes is the most at once; "
            f"read on with start_line={last_line + 1}"
        )
    elif goes_on:
        remarks.append(f"the file goes on after line {last_line}")
    elif not data:
        remarks.append("empty file")
    text = text.removeprefix("\ufeff")
    if remarks:
        gap = "" if not text or text.endswith("\n") else "\n"
        text = f"{text}{gap}[{'; '.join(remarks)}]"
    return _Page(text) if is_cut else _Page(text, start_line, last_line)
