"""A disk in memory that forgets as much as POSIX allows.

What it promises is what every file system promises and nothing else:

- Contents that were synced stay. Contents that were not may be absent, torn at any byte, zero in
  part or whole, with the file's size extended or not. Writes reach the disk in any order.
- A name is durable after its folder was synced. Names made, replaced or removed since then may be
  there or not, in any subset; a renamed file may be under both names or under none, and its name
  may be durable before its contents are.
- A failed sync makes nothing durable, and a later one that succeeds says nothing about what was
  written before the failed one. What is read meanwhile comes from memory. Opening a file for
  appending reads it anew from the disk, which holds of such contents what `survival` says.

`crash_states` enumerates the disks that a power cut may leave. `after_kill` is the disk as the next
process sees it when only the process dies: nothing is lost, locks are free.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator, Iterator
from itertools import count, product
from posixpath import basename, dirname, join
from random import Random
from typing import Final, cast
from zlib import crc32

from lab.model_nodes import (
    Change,
    Copier,
    File,
    Folder,
    Node,
    Survival,
    Survivor,
    choices_of,
    files_below,
    folders_below,
    nothing_survives,
)
from treadle.store.disk import FileStat

STATE_COUNT_MAX: Final = 4_000
"""More crash states than this per cut are sampled, with the given seed: all that differ from the
oldest or the newest state in one choice, then random ones."""


class ModelDisk:
    """Implements `Disk`.

    Args:
        on_change: called after every operation that changes the disk, with its name and path;
            `pending_count_max` is kept up to date only then.
        survival: what a disk holds of contents whose sync failed.
    """

    def __init__(
        self,
        on_change: Callable[[str, str], None] | None = None,
        survival: Survival = nothing_survives,
    ) -> None:
        self.on_change = on_change
        self.survival = survival
        self.clock_ns = 0
        """Comes into the time of files that are written or touched."""
        self.change_count = 0
        self.pending_count_max = 0
        self._root = Folder()
        self._handles: dict[int, tuple[str, File]] = {}
        self._next_handle = count(3)

    # ---- Disk ----------------------------------------------------------------------------------

    def make_folder(self, path: str) -> None:
        folder, above, parts = self._root, "/", _parts(path)
        while parts and isinstance(folder.names.get(parts[0]), Folder):
            outer, name = folder, parts.pop(0)
            folder, above = cast(Folder, outer.names[name]), join(above, name)
            if not parts or parts[0] not in folder.names:
                outer.sync()
                self._changed("sync_folder", dirname(above))
        for name in parts:
            if name in folder.names:
                raise _error(errno.ENOTDIR, path)
            inner, above = Folder(), join(above, name)
            folder.bind(name, inner)
            self._changed("mkdir", above)
            folder.sync()
            self._changed("sync_folder", dirname(above))
            folder = inner

    def create(self, path: str) -> int:
        folder, name = self._place(path)
        if name in folder.names:
            raise _error(errno.EEXIST, path)
        file = File()
        folder.bind(name, file)
        self._changed("create", path)
        return self._handle(path, file)

    def open_append(self, path: str) -> int:
        file = self._file(path)
        file.reread(self.survival)
        return self._handle(path, file)

    def write(self, handle: int, data: bytes, at: int | None = None) -> None:
        """At the end, unless `at` names another place."""
        path, file = self._opened(handle)
        if data:
            file.change(Change(len(file.content) if at is None else at, data))
            file.touched_ns = self.clock_ns
        self._changed("write", path)

    def sync(self, handle: int) -> None:
        path, file = self._opened(handle)
        file.sync()
        self._changed("sync", path)

    def sync_folder(self, path: str) -> None:
        folder = self._node(path)
        if not isinstance(folder, Folder):
            raise _error(errno.ENOTDIR, path)
        folder.sync()
        self._changed("sync_folder", path)

    def size(self, handle: int) -> int:
        path, file = self._opened(handle)
        if file.link_count == 0:
            raise _error(errno.ENOENT, path)
        return len(file.content)

    def truncate(self, handle: int, size: int) -> None:
        path, file = self._opened(handle)
        file.change(Change(size, None))
        self._changed("truncate", path)

    def close(self, handle: int) -> None:
        _, file = self._opened(handle)
        if file.holder == handle:
            file.holder = None
        file.sharers.discard(handle)
        del self._handles[handle]

    def read(self, path: str, offset: int = 0) -> bytes:
        return self._file(path).content[max(0, offset) :]

    def read_range(self, path: str, offset: int, size: int) -> bytes:
        content = self.read(path, offset)
        return content if size < 0 else content[:size]

    def pieces(self, path: str, offset: int = 0) -> Generator[bytes, None, None]:
        content = self.read(path, offset)
        if content:
            yield content

    def touch(self, path: str) -> None:
        self._file(path).touched_ns = self.clock_ns
        self._changed("touch", path)

    def link(self, source: str, target: str) -> None:
        folder, name = self._place(target)
        if name in folder.names:
            raise _error(errno.EEXIST, target)
        folder.bind(name, self._file(source))
        self._changed("link", target)

    def rename(self, source: str, target: str) -> None:
        file = self._file(source)
        folder, name = self._place(target)
        if isinstance(folder.names.get(name), Folder):
            raise _error(errno.EISDIR, target)
        if folder.names.get(name) is file:
            return
        folder.bind(name, file)
        above, old = self._place(source)
        above.bind(old, None)
        self._changed("rename", target)

    def unlink(self, path: str) -> None:
        self._file(path)
        folder, name = self._place(path)
        folder.bind(name, None)
        self._changed("unlink", path)

    def list(self, folder: str, ending: str = "") -> list[str]:
        try:
            found = self._node(folder)
        except FileNotFoundError:
            return []
        if isinstance(found, File):
            raise _error(errno.ENOTDIR, folder)
        return sorted(name for name in found.names if name.endswith(ending))

    def stats(self, folder: str, ending: str = "") -> dict[str, FileStat]:
        found = {name: self.stat(join(folder, name)) for name in self.list(folder, ending)}
        return {name: status for name, status in found.items() if status is not None}

    def stat(self, path: str) -> FileStat | None:
        try:
            file = self._file(path)
        except OSError:
            return None
        return FileStat(len(file.content), file.touched_ns + crc32(file.content), id(file))

    def lock(self, path: str, note: bytes = b"", *, is_shared: bool = False) -> int | None:
        folder, name = self._place(path)
        if name not in folder.names:
            folder.bind(name, File())
            self._changed("create", path)
        file = self._file(path)
        if file.holder is not None or (file.sharers and not is_shared):
            return None
        if is_shared:
            handle = self._handle(path, file)
            file.sharers.add(handle)
            return handle
        file.holder = self._handle(path, file)
        if note:  # nothing hangs on it: no cut need be tried for what is left of it
            file.base = file.content = note
        return file.holder

    def is_locked(self, path: str) -> bool:
        try:
            return self._file(path).holder is not None
        except FileNotFoundError:
            return False

    # ---- what only a model can do --------------------------------------------------------------

    def fail_sync(self, handle: int) -> None:
        """Let a sync of this handle fail: what was written since the last one may be lost."""
        self._opened(handle)[1].fail_sync()

    def mkdir(self, path: str) -> None:
        """Make one folder, as the system call does: its name is not durable yet."""
        folder, name = self._place(path)
        if name in folder.names:
            raise _error(errno.EEXIST, path)
        folder.bind(name, Folder())
        self._changed("mkdir", path)

    def files(self) -> dict[str, bytes]:
        """Every file by its path, as it is seen now."""
        return {path: file.content for path, file in files_below(self._root, "/")}

    def with_names_kept(self) -> dict[str, bytes]:
        """What a journaling file system leaves: every name as it is seen, contents as synced."""
        return {
            path: file.torn(dict.fromkeys(file.open_changes()))
            for path, file in files_below(self._root, "/")
        }

    @property
    def handle_count(self) -> int:
        """Handles not given back."""
        return len(self._handles)

    def pending_count(self) -> int:
        """Operations a power cut could undo now.

        A name that is gone again as if it had never been is not counted: nothing hangs on it.
        """
        files: set[File] = set()
        pending = 0
        for folder in folders_below(self._root):
            files.update(node for node in folder.names.values() if isinstance(node, File))
            for name, bindings in folder.pending.items():
                if not folder.is_fleeting(name):
                    pending += len(bindings)
        return pending + sum(len(file.open_changes()) for file in files)

    def after_kill(self) -> ModelDisk:
        """A disk of the same history, as the next process finds it; this one stays as it is."""
        return self._grown(Copier().folder(self._root))

    def crash_states(self, limit: int = STATE_COUNT_MAX, seed: int = 0) -> Iterator[ModelDisk]:
        """Every disk that a power cut may leave now, each on its own; sampled above `limit`."""
        choices = list(choices_of(self._root))
        for picked in _picks([len(variants) for _, variants in choices], limit, seed):
            chosen = {
                key: variants[index] for (key, variants), index in zip(choices, picked, strict=True)
            }
            yield self._grown(Survivor(chosen).folder(self._root))

    def state_count(self) -> int:
        """How many picks `crash_states` chooses from."""
        total = 1
        for _, variants in choices_of(self._root):
            total *= len(variants)
        return total

    def _grown(self, root: Folder) -> ModelDisk:
        other = ModelDisk(survival=self.survival)
        other.clock_ns = self.clock_ns
        other._root = root
        return other

    # ---- inside --------------------------------------------------------------------------------

    def _changed(self, operation: str, path: str) -> None:
        self.change_count += 1
        if self.on_change is not None:
            self.pending_count_max = max(self.pending_count_max, self.pending_count())
            self.on_change(operation, path)

    def _handle(self, path: str, file: File) -> int:
        handle = next(self._next_handle)
        self._handles[handle] = (path, file)
        return handle

    def _opened(self, handle: int) -> tuple[str, File]:
        try:
            return self._handles[handle]
        except KeyError:
            raise _error(errno.EBADF, str(handle)) from None

    def path_of(self, handle: int) -> str:
        """The path a handle was opened by."""
        return self._opened(handle)[0]

    def _node(self, path: str) -> Node:
        node: Node = self._root
        for name in _parts(path):
            if not isinstance(node, Folder):
                raise _error(errno.ENOTDIR, path)
            if name not in node.names:
                raise _error(errno.ENOENT, path)
            node = node.names[name]
        return node

    def _place(self, path: str) -> tuple[Folder, str]:
        folder = self._node(dirname(path))
        if not isinstance(folder, Folder):
            raise _error(errno.ENOTDIR, path)
        return folder, basename(path)

    def _file(self, path: str) -> File:
        node = self._node(path)
        if not isinstance(node, File):
            raise _error(errno.EISDIR, path)
        return node


def _picks(sizes: list[int], limit: int, seed: int) -> Iterator[tuple[int, ...]]:
    total = 1
    for size in sizes:
        total *= size
    if total <= limit:
        yield from product(*(range(size) for size in sizes))
        return
    random = Random(seed)
    oldest, newest = tuple(0 for _ in sizes), tuple(size - 1 for size in sizes)
    near = [
        (*extreme[:place], index, *extreme[place + 1 :])
        for extreme in (oldest, newest)
        for place, size in enumerate(sizes)
        for index in range(size)
    ]
    random.shuffle(near)
    seen = dict.fromkeys([oldest, newest, *near])
    while len(seen) < limit:
        seen[tuple(random.randrange(size) for size in sizes)] = None
    yield from list(seen)[:limit]


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
