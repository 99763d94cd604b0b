"""The files that a call of a file tool changes: as they are before it, and as it leaves them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from treadle.app.threads.call_arguments import list_written_paths
from treadle.core.messages import ToolCall
from treadle.core.tool_families import ToolKind, kind_of

FILE_SIZE_MAX: Final = 1024 * 1024
"""Bytes of a file that is compared."""

FileReader: TypeAlias = Callable[[str], bytes | None]
"""A file's content by its path in the workspace; `None` if there is none. Raises `OSError` if it
cannot be read, or is too large."""


class OriginalFiles(Struct, frozen=True):
    """The files of a call, by path, as they were when it began; `None` where there was none."""

    contents: Mapping[str, bytes | None]


def make_file_reader(folder: Path) -> FileReader:
    """Reads small files of a folder, and nothing outside it."""

    def read(path: str) -> bytes | None:
        from treadle.core.tools import ToolErrorKind
        from treadle.tool_failure import ToolFailure
        from treadle.tools.paths import Root

        root = Root(folder)
        try:
            fd = root.open_file(path)
        except ToolFailure as failure:
            if failure.kind is ToolErrorKind.FILE_NOT_FOUND:
                return None
            raise OSError(failure.message) from failure
        finally:
            root.close()
        with os.fdopen(fd, "rb") as file:
            content = file.read(FILE_SIZE_MAX + 1)
        if len(content) > FILE_SIZE_MAX:
            raise OSError("it is too large to compare")
        return content

    return read


def read_originals(call: ToolCall, read: FileReader | None) -> OriginalFiles | None:
    """The files that the call is about to change; `None` if it changes none, or who knows."""
    paths = list_written_paths(call)
    if not paths or read is None:
        return None
    try:
        return OriginalFiles({path: read(path) for path in paths})
    except (OSError, ValueError):
        return None


def apply_call(
    call: ToolCall, arguments: dict[str, Any], before: Mapping[str, bytes | None]
) -> Mapping[str, bytes | None] | None:
    """The contents that the call makes of its files; `None` if it would fail."""
    from treadle.tool_failure import ToolFailure
    from treadle.tools.edit_file import Edit, apply_edits
    from treadle.tools.patch_changes import patch_files
    from treadle.tools.patch_format import parse_patch

    kind = kind_of(call.tool_name)
    try:
        if kind is ToolKind.PATCH:
            patched = patch_files(parse_patch(str(arguments["input"])), before.__getitem__)
            return {one.path: one.new for one in patched.files}
        path = str(arguments["path"])
        if kind is ToolKind.WRITE:
            return {path: str(arguments["content"]).encode()}
        edits = msgspec.convert(arguments["edits"], list[Edit])
        return {path: apply_edits(before[path], edits, path)[0]}
    except (KeyError, ValueError, msgspec.ValidationError, ToolFailure):
        return None
