"""The tool that replaces text in files.

It works on bytes, so that whatever is not replaced stays as it is, valid or not. The rules follow
the original program, with two of its faults mended: a text must occur exactly once, and a file that
exists is never appended to by an empty `old_str`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Final

from msgspec import Meta, Struct

from treadle.core.tools import EffectClass, RiskLevel, ToolErrorKind
from treadle.tool_failure import ToolFailure
from treadle.tools.files import EDIT_SIZE_MAX, rewrite
from treadle.tools.registry import ToolContext, ToolReturn, tool
from treadle.tools.write_scope import make_write_result, risk_of_writing, scope_of_writing

HINT_LINE_COUNT_MAX: Final = 2000
"""Lines compared to find the one that was meant; comparing so many takes up to half a second."""
HINT_SIZE_MAX: Final = 80
"""Characters of a line that are compared and shown."""
PLACE_COUNT_MAX: Final = 5
"""Places named of a text that occurs more than once."""


class Edit(Struct, frozen=True, forbid_unknown_fields=True):
    """One replacement."""

    old_str: Annotated[str, Meta(description="The text to replace, exactly as in the file.")]
    new_str: Annotated[str, Meta(description="What comes in its place.")]
    replace_all: Annotated[
        bool, Meta(description="Replace every occurrence instead of exactly one.")
    ] = False


@tool(
    effect=EffectClass.MUTATE,
    risk=RiskLevel.MEDIUM,
    risk_of=risk_of_writing,
    scope_of=scope_of_writing,
)
def edit_file(
    context: ToolContext, path: str, edits: Annotated[list[Edit], Meta(min_length=1)]
) -> ToolReturn:
    """Replace text in a file: all edits or none.

    Each old_str must occur exactly once, so give enough lines around it, or set replace_all. Later
    edits see the result of earlier ones. The file keeps its line ends and its encoding. An empty
    old_str makes a new file out of new_str; missing folders are made.

    Args:
        context: The workspace.
        path: The file, relative to the workspace.
        edits: What to replace, in order.
    """
    count = 0

    def change(old: bytes | None) -> bytes:
        nonlocal count
        new, count = apply_edits(old, edits, path)
        return new

    written = rewrite(context.workspace, path, change)
    if written.size_before is None:
        return make_write_result(written, f"created {written.name}, {written.size} bytes")
    what = f"{count} replacement{'' if count == 1 else 's'}"
    sizes = f"{written.size_before} -> {written.size} bytes"
    return make_write_result(written, f"edited {written.name}: {what}, {sizes}")


def apply_edits(content: bytes | None, edits: Sequence[Edit], path: str) -> tuple[bytes, int]:
    """The content after all edits, and how many replacements they made. Pure.

    Args:
        content: of the file; `None` if there is none.
        edits: in order.
        path: for messages.

    Raises:
        ToolFailure: one of the edits cannot be made.
    """
    data, count = content or b"", 0
    for index, edit in enumerate(edits):
        place = f"edits[{index}].old_str"
        if edit.old_str == edit.new_str:
            raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, f"{place} and new_str are the same")
        if not edit.old_str and data:
            raise ToolFailure(
                ToolErrorKind.FAILED, f"{place} is empty, which makes new files; {path} has content"
            )
        if edit.old_str and content is None and not data:
            raise ToolFailure(ToolErrorKind.FILE_NOT_FOUND, path)
        text = _FileText(data, path)
        data, more = text.replace(edit, place) if edit.old_str else (edit.new_str.encode(), 1)
        count += more
    return data, count


class _FileText:
    """The bytes of a file, and how text is written in it."""

    def __init__(self, data: bytes, path: str) -> None:
        self._data = data
        self._path = path
        crlf_count = data.count(b"\r\n")
        is_crlf = crlf_count > data.count(b"\n") - crlf_count
        self._line_end = b"\r\n" if is_crlf else b"\n"
        try:
            data.decode()
            self._encoding = "utf-8"
        except UnicodeDecodeError:
            # Every byte is a character in it, so whatever the file is, nothing else changes.
            self._encoding = "latin-1"

    def replace(self, edit: Edit, place: str) -> tuple[bytes, int]:
        """The bytes with the text replaced once, or everywhere if that is meant; how often."""
        lines = self._encode(edit.old_str).split(b"\n")
        pattern = rb"(?:\r\n|(?<!\r)\n)".join(re.escape(line) for line in lines)
        if edit.replace_all:
            count = sum(1 for _ in re.finditer(pattern, self._data))
        else:
            # Looking ahead finds overlapping places too: `aa` stands twice in `aaa`.
            found = re.finditer(b"(?=%b)" % pattern, self._data)
            starts = [one.start() for one in islice(found, PLACE_COUNT_MAX + 1)]
            count = len(starts)
        if not count:
            message = f"{place} does not occur in {self._path}{self._hint(edit.old_str)}"
            raise ToolFailure(ToolErrorKind.TARGET_NOT_FOUND, message)
        if count > 1 and not edit.replace_all:
            raise self._ambiguous(starts, place)
        new = self._encode(edit.new_str).replace(b"\n", self._line_end)
        if len(self._data) + count * len(new) > EDIT_SIZE_MAX:
            message = f"{self._path} would become too large to edit"
            raise ToolFailure(ToolErrorKind.FAILED, message)
        return re.subn(pattern, lambda _: new, self._data)

    def _ambiguous(self, starts: Sequence[int], place: str) -> ToolFailure:
        numbers = [str(self._data.count(b"\n", 0, start) + 1) for start in starts]
        more = ", ..." if len(starts) > PLACE_COUNT_MAX else ""
        where = ", ".join(numbers[:PLACE_COUNT_MAX]) + more
        message = f"{place} occurs more than once in {self._path} (lines {where})"
        return ToolFailure(
            ToolErrorKind.FAILED, f"{message}: give more lines around it, or set replace_all"
        )

    def _encode(self, text: str) -> bytes:
        try:
            return text.replace("\r\n", "\n").encode(self._encoding)
        except UnicodeEncodeError as error:
            message = (
                f"{self._path} is not UTF-8 and is edited as Latin-1, "
                f"which has no {error.object[error.start : error.end]!r}"
            )
            raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, message) from error

    def _hint(self, text: str) -> str:
        """The line most like the first line that was looked for, if any is."""
        wanted = next((line.strip() for line in text.splitlines() if line.strip()), "")
        lines = self._data.decode(self._encoding).splitlines()[:HINT_LINE_COUNT_MAX]
        shown = [line.strip()[:HINT_SIZE_MAX] for line in lines]
        near = difflib.get_close_matches(wanted[:HINT_SIZE_MAX], shown, n=1)
        if not near:
            return ""
        number = shown.index(near[0])
        return f"; most like it is line {number + 1}: {lines[number][:HINT_SIZE_MAX]!r}"
