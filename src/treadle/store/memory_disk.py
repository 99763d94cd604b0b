"""A disk in memory: a store whose threads end with the process, for tests and throw-away work.

It keeps what a `Disk` promises, as far as one process sees it: names, contents, locks. Nothing on
it is durable.
"""

from __future__ import annotations

import errno
import os
import posixpath
import threading
from collections.abc import Generator, Sequence
from itertools import count

from treadle.store.disk import FileStat


class _File:
    """Contents, how many names they have, who holds them, and when they last changed."""

    __slots__ = ("content", "inode", "names", "owners", "shared", "ticks")

    def __init__(self, inode: int) -> None:
        self.inode = inode
        self.content = bytearray()
        self.names = 1
        self.owners: set[int] = set()
        self.shared = False
        self.ticks = 0


class MemoryDisk:
    """The `Disk` of a store that lives as long as its process, for any threads of it."""

    def __init__(self) -> None:
        self._guard = threading.RLock()  # around what looks first and acts then
        self._folders = {"/"}
        self._files: dict[str, _File] = {}
        self._handles: dict[int, _File] = {}
        self._next = count(1)
        self._clock = count(1)

    def make_folder(self, path: str) -> None:
        """See `Disk`."""
        with self._guard:
            missing = []
            while path not in self._folders:
                if path in self._files:
                    raise _make_error(errno.ENOTDIR, path)
                missing.append(path)
                path = posixpath.dirname(path)
            self._folders.update(missing)

    def create(self, path: str) -> int:
        """See `Disk`."""
        with self._guard:
            self._check_free(path)
            file = self._files[path] = _File(next(self._next))
            return self._open(file)

    def open_append(self, path: str) -> int:
        """See `Disk`."""
        return self._open(self._find(path))

    def write(self, handle: int, data: bytes) -> None:
        """See `Disk`."""
        file = self._get(handle)
        file.content += data
        file.ticks = next(self._clock)

    def sync(self, handle: int) -> None:
        """See `Disk`; there is nothing to do."""
        self._get(handle)

    def find_shared_sync(self, handles: Sequence[int]) -> None:
        """See `Disk`; there is nothing to do."""

    def sync_folder(self, path: str) -> None:
        """See `Disk`; there is nothing to do."""
        if path not in self._folders:
            raise _make_error(errno.ENOTDIR if path in self._files else errno.ENOENT, path)

    def size(self, handle: int) -> int:
        """See `Disk`."""
        file = self._get(handle)
        if not file.names:
            raise FileNotFoundError("the file was removed while it was open")
        return len(file.content)

    def truncate(self, handle: int, size: int) -> None:
        """See `Disk`."""
        del self._get(handle).content[size:]

    def close(self, handle: int) -> None:
        """See `Disk`."""
        self._get(handle).owners.discard(handle)
        del self._handles[handle]

    def read(self, path: str, offset: int = 0) -> bytes:
        """See `Disk`."""
        return bytes(self._find(path).content[max(0, offset) :])

    def read_range(self, path: str, offset: int, size: int) -> bytes:
        """See `Disk`."""
        content = self.read(path, offset)
        return content if size < 0 else content[:size]

    def pieces(self, path: str, offset: int = 0) -> Generator[bytes, None, None]:
        """See `Disk`."""
        if content := self.read(path, offset):
            yield content

    def touch(self, path: str) -> None:
        """See `Disk`."""
        self._find(path).ticks = next(self._clock)

    def rename(self, source: str, target: str) -> None:
        """See `Disk`."""
        with self._guard:
            file = self._find(source)
            self._check_folder(target)
            if target in self._folders:
                raise _make_error(errno.EISDIR, target)
            replaced = self._files.get(target)
            if replaced is file:
                return
            if replaced is not None:
                replaced.names -= 1
            self._files[target] = self._files.pop(source)

    def link(self, source: str, target: str) -> None:
        """See `Disk`."""
        with self._guard:
            file = self._find(source)
            self._check_free(target)
            self._files[target] = file
            file.names += 1

    def unlink(self, path: str) -> None:
        """See `Disk`."""
        with self._guard:
            self._find(path).names -= 1
            del self._files[path]

    def list(self, folder: str, ending: str = "") -> list[str]:
        """See `Disk`."""
        if folder in self._files:
            raise _make_error(errno.ENOTDIR, folder)
        found = (posixpath.split(path) for path in (*self._files, *self._folders) if path != "/")
        return sorted(name for above, name in found if above == folder and name.endswith(ending))

    def stats(self, folder: str, ending: str = "") -> dict[str, FileStat]:
        """See `Disk`."""
        found = {
            name: self.stat(posixpath.join(folder, name)) for name in self.list(folder, ending)
        }
        return {name: status for name, status in found.items() if status is not None}

    def stat(self, path: str) -> FileStat | None:
        """See `Disk`."""
        file = self._files.get(path)
        return None if file is None else FileStat(len(file.content), file.ticks, file.inode)

    def lock(self, path: str, note: bytes = b"", *, is_shared: bool = False) -> int | None:
        """See `Disk`."""
        with self._guard:
            if path not in self._files:
                self.close(self.create(path))
            file = self._find(path)
            if file.owners and not (file.shared and is_shared):
                return None
            handle, file.shared = self._open(file), is_shared
            file.owners.add(handle)
            if note and not is_shared:
                file.content[:] = note
            return handle

    def is_locked(self, path: str) -> bool:
        """See `Disk`."""
        file = self._files.get(path)
        return file is not None and bool(file.owners) and not file.shared

    def _open(self, file: _File) -> int:
        handle = next(self._next)
        self._handles[handle] = file
        return handle

    def _get(self, handle: int) -> _File:
        if handle not in self._handles:
            raise _make_error(errno.EBADF, str(handle))
        return self._handles[handle]

    def _find(self, path: str) -> _File:
        if path in self._folders:
            raise _make_error(errno.EINVAL, path)
        if path not in self._files:
            raise _make_error(errno.ENOENT, path)
        return self._files[path]

    def _check_free(self, path: str) -> None:
        self._check_folder(path)
        if path in self._files or path in self._folders:
            raise _make_error(errno.EEXIST, path)

    def _check_folder(self, path: str) -> None:
        if posixpath.dirname(path) not in self._folders:
            raise _make_error(errno.ENOENT, path)


def _make_error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
