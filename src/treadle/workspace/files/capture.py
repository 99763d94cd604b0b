"""How the files of a workspace stand, byte for byte, as entries of a tree.

Git's own ways to take files in convert them (line ends, keywords, filters that a repository names).
Here content is what the disk holds. A file that is unchanged since git last read it needs no
reading if its blob has its size: whatever git converts, it makes longer or shorter, except by
filters, keywords and encodings; files with those are always read.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from treadle.errors import FileStateError
from treadle.workspace.files.entries import LINK, NOT_KEPT, FileEntry, Indexed
from treadle.workspace.files.git_index import DiskFile, GitIndex, index_version, list_untracked
from treadle.workspace.files.large_folders import crowds_of
from treadle.workspace.files.objects import Objects
from treadle.workspace.files.private_refs import clock_ns
from treadle.workspace.git import Layout
from treadle.workspace.status import Status

FILE_SIZE_MAX: Final = 20 * 1024 * 1024
"""Bytes of a file whose content is kept; agents write text."""

ALL_SIZE_MAX: Final = 512 * 1024 * 1024
"""Bytes that one look may add: a folder of data that nobody has told git to ignore stays out."""

UNTRACKED_COUNT_MAX: Final = 20_000
"""Untracked files that are kept; of what holds more, like modules of others that nobody has told
git to ignore, whole folders stay out."""

GROUP_COUNT: Final = 4096
"""Files that are read at a time: what was read is remembered, even if time runs out behind it."""

ATTEMPT_COUNT_MAX: Final = 3
"""Files come and go while one looks; so often it is tried again."""

READ_COUNT_MAX: Final = 64
READ_SIZE_MAX: Final = 4 * 1024 * 1024
"""Files of the index, and their bytes, that are read rather than asked about."""

CLOCK_NS: Final = 50_000_000
"""Two writes within this time may leave the same time stamp: file systems' clocks tick slowly."""

_SEEN: TypeAlias = tuple[int, int, int, int]


class Capture(NamedTuple):
    """The files by path, relative to the root of the repository; and those not kept, with them.

    `changed_ns` says when the files on disk last changed (`ctime`), `at_ns` when the look began, by
    the same clock (0: not known); `nested` names folders that are repositories, ended by a slash.
    """

    entries: dict[bytes, FileEntry]
    skipped: tuple[bytes, ...]
    changed_ns: Mapping[bytes, int] = MappingProxyType({})
    at_ns: int = 0
    nested: frozenset[bytes] = frozenset()


class Camera:
    """Looks at the files of a workspace; remembers what it read, so that a second look is cheap.

    Args:
        objects: where contents go.
        file_size_max: bytes of a file whose content is kept.
        redact: replaces known secrets; a file that holds one is not kept, unless git has it.
        hides: whether a path is hidden from tools; what is is not kept either.
    """

    def __init__(
        self,
        objects: Objects,
        *,
        file_size_max: int = FILE_SIZE_MAX,
        redact: Callable[[str], str] | None = None,
        hides: Callable[[str], bool] | None = None,
    ) -> None:
        self._objects = objects
        self._size_max = file_size_max
        self._redact = redact
        self._hides = hides
        self._telling: dict[bytes, _SEEN] = {}
        """Files that held a known secret when they were read, until they are written again."""
        self._read: dict[bytes, tuple[str, _SEEN, str]] = {}
        """Of files that were read: mode, what changes when they are written, blob."""
        self._index = GitIndex(objects)

    def forget(self) -> bool:
        """Read everything anew next time; says whether anything was remembered."""
        has_read, self._read = bool(self._read), {}
        return self._index.forget() or has_read

    async def capture(
        self, objects: Objects | None = None, status: Status | None = None
    ) -> Capture:
        """The files as they are now; their contents are in the repository afterwards.

        Args:
            objects: where contents go this time, if elsewhere.
            status: what git has just said; git is asked for what it does not say.

        Raises:
            FileStateError: git failed, or files kept changing.
        """
        for _ in range(ATTEMPT_COUNT_MAX):
            found = await self._look(objects, status)
            if found is not None:
                return found
            status = None
        raise FileStateError("the files changed while they were looked at, again and again")

    async def _look(self, aside: Objects | None, status: Status | None) -> Capture | None:
        """One attempt; `None` if files went away meanwhile, or the index is another one."""
        layout = await self._objects.layout()
        at_ns = _now_ns(layout.git_dir)
        index = layout.git_dir / "index"
        version = index_version(index)
        indexed, found = await asyncio.gather(
            self._index.list_files(layout), list_untracked(self._objects, status)
        )
        if index_version(index) != version:
            return None  # what somebody adds or resets in between may stand in neither list
        # A folder among the untracked is a repository of its own.
        others = [path for path in found if not path.endswith(b"/")]
        nested = frozenset(path for path in found if path.endswith(b"/"))
        files = await asyncio.to_thread(_find, layout.root, [*indexed, *others])
        entries = {
            path: one.entry
            for path, one in indexed.items()
            if one.entry.mode == NOT_KEPT and path not in files
        }
        rest = {path: one for path, one in files.items() if not self._is_read(path, one)}
        tracked = rest.keys() & indexed.keys()
        same = dict[bytes, FileEntry]()
        if tracked and not (self._read and self._are_few(layout, tracked, rest)):
            same = await self._index.find_same(rest)
        entries.update(
            (path, FileEntry(files[path].mode, self._read[path][2]))
            for path in files.keys() - rest.keys()
        )
        for path, entry in same.items():
            self._remember(path, rest.pop(path), entry, at_ns)
            entries[path] = entry
        crowds = crowds_of(others, UNTRACKED_COUNT_MAX)
        for path in crowds.paths:
            if path in files:
                entries[path] = await self._unkept(files[path])
                rest.pop(path, None)
        try:
            skipped = list(crowds.folders)
            skipped += await self._keep(layout, rest, entries, indexed, aside)
        except (FileStateError, OSError):
            if await asyncio.to_thread(_find, layout.root, files) == files:
                raise
            return None
        changed_ns = {path: one.seen[1] for path, one in files.items()}
        return Capture(entries, tuple(sorted(skipped)), changed_ns, at_ns, nested)

    def _are_few(
        self, layout: Layout, paths: Collection[bytes], files: Mapping[bytes, DiskFile]
    ) -> bool:
        """Whether these files of the index are read sooner than git says which have changed.

        What git has of a hidden file is kept, and it is not read here.
        """
        return (
            len(paths) < READ_COUNT_MAX
            and sum(files[path].size for path in paths) < READ_SIZE_MAX
            and not (self._hides and any(self._hides(_at(layout.root, path)) for path in paths))
        )

    def _is_read(self, path: bytes, found: DiskFile) -> bool:
        known = self._read.get(path)
        return known is not None and known[:2] == (found.mode, found.seen)

    def _remember(self, path: bytes, found: DiskFile, entry: FileEntry, now_ns: int) -> None:
        """Keep in mind what a file has; not where it may be written once more in the same tick."""
        if max(found.seen[:2]) < now_ns - CLOCK_NS:
            self._read[path] = found.mode, found.seen, entry.oid

    async def _keep(
        self,
        layout: Layout,
        files: dict[bytes, DiskFile],
        entries: dict[bytes, FileEntry],
        indexed: Mapping[bytes, Indexed],
        aside: Objects | None,
    ) -> list[bytes]:
        """Read these files, add them to the entries; returns those that are not kept.

        They are too large, closed, hidden, or hold a secret.
        """
        unread: list[bytes] = []
        skipped: list[bytes] = []
        root, left = layout.root, ALL_SIZE_MAX
        for path, found in files.items():
            is_open = found.mode == LINK or os.access(_at(root, path), os.R_OK)
            if self._hides is not None and self._hides(_at(root, path)):
                is_open = False
            left -= found.size
            if found.size > self._size_max or left < 0 or not is_open:
                skipped.append(path)
            else:
                unread.append(path)
        known_oids = {path: indexed[path].entry.oid for path in unread if path in indexed}
        telling = await asyncio.to_thread(self._find_telling, root, files, unread, known_oids)
        skipped += telling
        for path in skipped:
            entries[path] = await self._unkept(files[path])
        unread = [path for path in unread if path not in telling]
        for at in range(0, len(unread), GROUP_COUNT):
            some = unread[at : at + GROUP_COUNT]
            now_ns = clock_ns(layout.git_dir)
            oids = await _write(aside or self._objects, root, files, some)
            for path, oid in zip(some, oids, strict=True):
                entries[path] = FileEntry(files[path].mode, oid)
                if aside is None:
                    self._remember(path, files[path], entries[path], now_ns)
        return skipped

    async def _unkept(self, found: DiskFile) -> FileEntry:
        """The entry of a file whose content is not kept: another one when it changes."""
        digest = (await self._objects.layout()).digest
        mark = hashlib.new(digest, repr(found.seen).encode(), usedforsecurity=False).hexdigest()
        return FileEntry(NOT_KEPT, mark)

    def _find_telling(
        self,
        root: Path,
        files: Mapping[bytes, DiskFile],
        paths: Iterable[bytes],
        known: Mapping[bytes, str],
    ) -> set[bytes]:
        """Those of these files that hold a known secret.

        The rule is that of commits: the whole file as text. What git has in its index anyway (its
        blob is `known` by path) is nothing new.
        """
        found = set[bytes]()
        if self._redact is None:
            return found
        for path in paths:
            if self._telling.get(path) == files[path].seen:
                found.add(path)
                continue
            place = _at(root, path)
            is_link = files[path].mode == LINK
            data = os.fsencode(os.readlink(place)) if is_link else Path(place).read_bytes()  # noqa: PTH115
            text = data.decode("utf-8", "replace")
            if self._redact(text) != text and known.get(path) != _blob_id(data, known.get(path)):
                self._telling[path] = files[path].seen
                found.add(path)
        return found


async def _write(
    objects: Objects, root: Path, files: dict[bytes, DiskFile], paths: list[bytes]
) -> list[str]:
    """Write the contents as blobs: of links where they lead, of files their bytes."""
    links = [path for path in paths if files[path].mode == LINK]
    # Git would follow a link: where it leads is written by itself.
    targets = [os.fsencode(os.readlink(_at(root, path))) for path in links]  # noqa: PTH115  any byte
    plain = [path for path in paths if files[path].mode != LINK]
    found = dict(zip(links, await objects.hash_bytes(targets), strict=True))
    oids = await objects.hash_files([_at(root, path) for path in plain])
    found.update(zip(plain, oids, strict=True))
    return [found[path] for path in paths]


def _blob_id(data: bytes, like: str | None) -> str:
    """The object id of a blob, in the format of this other one."""
    of = hashlib.sha256 if like is not None and len(like) == 64 else hashlib.sha1
    return of(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _at(root: Path, path: bytes) -> str:
    return f"{root}/{os.fsdecode(path)}"


def _find(root: Path, paths: Iterable[bytes]) -> dict[bytes, DiskFile]:
    """Those of the paths that are files or links, reached through no link."""
    top = os.fsencode(root) + b"/"
    folders = {b"": True}
    found: dict[bytes, DiskFile] = {}
    for path in paths:
        if path in found or not _is_folder(top, path.rpartition(b"/")[0], folders):
            continue
        try:
            info = os.lstat(top + path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise FileStateError(f"a file cannot be looked at: {error}") from error
        if stat.S_ISREG(info.st_mode):
            mode = "100755" if info.st_mode & stat.S_IXUSR else "100644"
        elif stat.S_ISLNK(info.st_mode):
            mode = LINK
        else:
            continue
        seen = info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_size
        found[path] = DiskFile(mode, info.st_size, seen)
    return found


def _is_folder(top: bytes, path: bytes, known: dict[bytes, bool]) -> bool:
    """Whether this is a folder, reached through no link."""
    if path not in known:
        is_above = _is_folder(top, path.rpartition(b"/")[0], known)
        try:
            known[path] = is_above and stat.S_ISDIR(os.lstat(top + path).st_mode)
        except OSError:
            known[path] = False
    return known[path]


def _now_ns(folder: Path) -> int:
    """Now, by the clock that stamps files; 0 where nothing can be written."""
    try:
        return clock_ns(folder)
    except OSError:
        return 0
