"""What git's index says of a workspace: which files it has, and which the disk has as it does.

Git is asked when it is another index than before, so that a second look asks nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from treadle.workspace.files.entries import (
    LINK,
    NOT_KEPT,
    FileEntry,
    Indexed,
    parse_index,
    parse_plain_index,
)
from treadle.workspace.files.objects import Objects
from treadle.workspace.git import Layout
from treadle.workspace.status import Status

_LIST: Final = ("ls-files", "--stage", "--full-name", "-z")
_CONVERTED: Final = ":(top,exclude,attr:!ident !filter !working-tree-encoding)"
"""Of these attributes none is set in what this leaves out: so it names what may be converted
without a change of size."""


class DiskFile(NamedTuple):
    """What `lstat` says of a file: git's mode, and what changes when it is written.

    `seen` holds modification and change time in nanoseconds, inode and size.
    """

    mode: str
    size: int
    seen: tuple[int, int, int, int]


class GitIndex:
    """The index of the repository around a workspace.

    Args:
        objects: the repository's.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._version: tuple[int, ...] | None = None
        self._files: dict[bytes, Indexed] = {}
        self._has_stats = False
        self._sizes: dict[str, int] = {}

    def forget(self) -> bool:
        """Ask anew next time; says whether anything was remembered."""
        has_any = bool(self._files or self._sizes)
        self._version, self._files, self._sizes = None, {}, {}
        return has_any

    async def list_files(self, layout: Layout) -> Mapping[bytes, Indexed]:
        """The files of the workspace that the index has."""
        version = index_version(layout.git_dir / "index")
        if version is None or version != self._version:
            # The first time it is asked, too, what it knows of the files on disk.
            await (self._list_again() if self._files else self._list_with_stats())
            self._version = version
        return self._files

    async def _list_again(self) -> None:
        self._has_stats = False
        self._files = parse_plain_index(await self._objects.out(*_LIST))

    async def _list_with_stats(self) -> None:
        found = parse_index(await self._objects.out(*_LIST, "--debug"))
        if found is None:
            await self._list_again()
        else:
            self._has_stats, self._files = True, found

    async def find_same(self, files: Mapping[bytes, DiskFile]) -> dict[bytes, FileEntry]:
        """Those of these files that have the bytes of their blob in the index, for sure.

        It may be another index than the one that was listed: somebody adds files meanwhile.
        """
        # Of the index that was listed: a later one may have been written after more changes.
        written_ns = 0 if self._version is None else self._version[2]
        if not self._has_stats:
            await self._list_with_stats()
        converted = await self._objects.out(
            "ls-files", "--full-name", "-z", "--", ":(top)", _CONVERTED
        )
        clean = _find_clean(self._files, files, written_ns) - {*converted.split(b"\0")}
        unknown = sorted({self._files[path].entry.oid for path in clean} - self._sizes.keys())
        for oid, one in zip(unknown, await self._objects.types(unknown), strict=True):
            self._sizes[oid] = -1 if one is None else one[2]
        found = {path: self._files[path].entry for path in clean}
        return {
            path: FileEntry(files[path].mode, entry.oid)
            for path, entry in found.items()
            if self._sizes[entry.oid] == files[path].size
        }


async def list_untracked(objects: Objects, status: Status | None) -> list[bytes]:
    """The files of the workspace that the index does not have and git is not to ignore.

    Args:
        objects: the repository's.
        status: what git has just said; it is asked if that does not say.
    """
    if status is None or status.is_cut:
        out = await objects.out("ls-files", "--others", "--exclude-standard", "--full-name", "-z")
        return [path for path in out.split(b"\0") if path]
    prefix = (await objects.layout()).prefix
    return [
        os.fsencode(one.path)
        for one in status.changes
        if one.is_untracked and one.path.startswith(prefix)
    ]


def _find_clean(
    indexed: Mapping[bytes, Indexed], files: Mapping[bytes, DiskFile], written_ns: int
) -> set[bytes]:
    """The files that are as the index knows them.

    Git's rule: what was written in the same moment as the index, or later, may have changed since
    without its time stamp saying so.
    """
    clean = set()
    for path, one in indexed.items():
        found = files.get(path)
        if found is None or one.seen is None or one.entry.mode == NOT_KEPT:
            continue
        modified, changed, inode, size = found.seen
        now = modified, changed, inode & 0xFFFFFFFF, size & 0xFFFFFFFF
        is_link = one.entry.mode == LINK
        if now == one.seen and modified < written_ns and is_link == (found.mode == LINK):
            clean.add(path)
    return clean


def index_version(path: Path) -> tuple[int, ...] | None:
    """What is another when an index is written or replaced; `None` if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
