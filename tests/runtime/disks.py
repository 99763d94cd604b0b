"""A real disk that is watched: what is durable on it, how often it was asked, when it fails."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from treadle.store.disk import PosixDisk


class WatchedDisk(PosixDisk):
    """Knows of every file how much of it was synced; nothing else counts as durable.

    Syncs are noted, not passed on to the kernel: the power stays on while tests run.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.written_size = 0
        """Bytes written to journals."""
        self.before: Callable[[str, str, int], None] = lambda operation, path, handle: None
        """Called before each operation on a journal; may raise an `OSError`."""
        self.left_by_failed_write: Callable[[bytes], bytes] = lambda data: b""
        """What is in the file after a write that failed."""
        self.while_shared: Callable[[], None] | None = None
        """Many journals are synced at once if this is set; called in the thread of such a sync."""
        self.shared_counts: list[int] = []
        """How many journals each of these syncs was for."""
        self._paths: dict[int, str] = {}
        self._durable: dict[str, int] = {}
        self._is_dead = False

    def durable(self, path: Path) -> bytes:
        """What would be left of the file if the power went now."""
        return path.read_bytes()[: self._durable.get(str(path), 0)]

    @property
    def open_count(self) -> int:
        """Handles that were not given back."""
        return len(self._paths)

    def kill(self) -> None:
        """What the kernel does when a process dies: its files are closed, its locks are free.

        The disk then is of no use to the dead process any more; others see what it wrote.
        """
        for handle in list(self._paths):
            self.close(handle)
        self._is_dead = True

    def _begin(self, operation: str, path: str, handle: int = -1) -> None:
        if self._is_dead:
            raise OSError(errno.EIO, "this process is dead")
        if path.endswith(".jsonl"):
            self.before(operation, path, handle)
            self.counts[operation] += 1

    def create(self, path: str) -> int:
        self._begin("create", path)
        handle = super().create(path)
        self._paths[handle] = path
        self._durable[path] = 0
        return handle

    def open_append(self, path: str) -> int:
        self._begin("open", path)
        handle = super().open_append(path)
        self._paths[handle] = path
        self._durable[path] = os.fstat(handle).st_size
        return handle

    def write(self, handle: int, data: bytes) -> None:
        path = self._paths.get(handle, "")
        try:
            self._begin("write", path, handle)
        except OSError:
            if path in self._paths.values():
                super().write(handle, self.left_by_failed_write(data))
            raise
        super().write(handle, data)
        if path.endswith(".jsonl"):
            self.written_size += len(data)

    def sync(self, handle: int) -> None:
        self._begin("sync", self._paths.get(handle, ""), handle)
        self._durable[self._paths[handle]] = os.fstat(handle).st_size

    def find_shared_sync(self, handles: Sequence[int]) -> Callable[[], None] | None:
        if self.while_shared is None or len(handles) < 2:
            return None
        # What is written from now on is not what this sync is for.
        sizes = {self._paths[handle]: os.fstat(handle).st_size for handle in handles}
        while_shared = self.while_shared

        def sync_all() -> None:
            while_shared()
            self.shared_counts.append(len(sizes))
            for path, size in sizes.items():
                self._durable[path] = max(size, self._durable[path])

        return sync_all

    def sync_folder(self, path: str) -> None:
        self._begin("sync_folder", path)

    def size(self, handle: int) -> int:
        self._begin("size", self._paths.get(handle, ""), handle)
        return super().size(handle)

    def rename(self, source: str, target: str) -> None:
        self._begin("rename", target)
        super().rename(source, target)

    def lock(self, path: str, note: bytes = b"", *, is_shared: bool = False) -> int | None:
        self._begin("lock", path)
        handle = super().lock(path, note, is_shared=is_shared)
        if handle is not None:
            self._paths[handle] = path
        return handle

    def close(self, handle: int) -> None:
        if self._paths.pop(handle, None) is not None:
            super().close(handle)


def full(operation: str = "write") -> OSError:
    """What a disk says that is full, or broken."""
    number = errno.ENOSPC if operation == "write" else errno.EIO
    return OSError(number, os.strerror(number))
