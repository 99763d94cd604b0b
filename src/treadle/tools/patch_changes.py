"""What a patch makes of the files that it names. Pure, but for the reader of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from treadle.core.tools import ToolErrorKind
from treadle.tool_failure import ToolFailure
from treadle.tools.file_batch import FileReader
from treadle.tools.patch_format import Operation, PatchSection
from treadle.tools.patch_lines import patch_content


class PatchedFile(NamedTuple):
    """One file: what it held and holds, `None` where there is none.

    `is_overwritten` says that what it held goes without having been named in the patch: it is added
    again, removed, or another one is moved over it. `origin` is the file that was moved there.
    """

    path: str
    old: bytes | None
    new: bytes | None
    is_overwritten: bool = False
    origin: str = ""


class PatchedFiles(NamedTuple):
    """All files of a patch, each once, and what is told of it besides."""

    files: tuple[PatchedFile, ...]
    remarks: tuple[str, ...] = ()


def patch_files(
    sections: Sequence[PatchSection],
    read: FileReader,
    name_of: Callable[[str], str] = str,
) -> PatchedFiles:
    """The files after all sections, each of which sees what those before it have made.

    Args:
        sections: in order.
        read: called once for each file.
        name_of: the name of a path without links, by which two paths are known to be one file.

    Raises:
        ToolFailure: a section does not fit.
    """
    files: dict[str, PatchedFile] = {}
    remarks: list[str] = []

    def find_file(path: str) -> PatchedFile:
        if (name := name_of(path)) not in files:
            content = read(path)
            files[name] = PatchedFile(path, content, content)
        return files[name]

    def put(path: str, new: bytes | None, *, overwrites: bool, origin: str = "") -> None:
        found = find_file(path)
        is_lost = overwrites and found.new is not None
        files[name_of(path)] = found._replace(
            new=new, is_overwritten=found.is_overwritten or is_lost, origin=origin
        )

    for section in sections:
        if section.operation is Operation.ADD:
            put(section.path, section.content.encode(), overwrites=True)
            continue
        content = find_file(section.path).new
        if content is None:
            raise ToolFailure(ToolErrorKind.FILE_NOT_FOUND, section.path)
        if section.operation is Operation.DELETE:
            put(section.path, None, overwrites=True)
            continue
        patched = patch_content(content, section.chunks, section.path)
        remarks += patched.remarks
        if section.move_to and name_of(section.move_to) != name_of(section.path):
            put(section.path, None, overwrites=False)
            put(section.move_to, patched.content, overwrites=True, origin=section.path)
        else:
            put(section.path, patched.content, overwrites=False)
    return PatchedFiles(tuple(files.values()), tuple(remarks))
