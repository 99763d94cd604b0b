"""A disk on which one call fails, once or from then on."""

from __future__ import annotations

import errno
import os
from collections.abc import Generator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from lab.model_disk import ModelDisk
from treadle.store.disk import FileStat

_OPENS: Final = frozenset({"create", "open_append", "read", "list", "lock", "sync_folder", "mkdir"})
_CHANGES: Final = frozenset(
    {"create", "open_append", "write", "sync", "truncate", "rename", "unlink", "mkdir", "lock"}
)
_GROWS: Final = frozenset({"create", "write", "sync", "rename", "mkdir", "sync_folder", "lock"})

CAN_FAIL: Final[Mapping[int, frozenset[str]]] = MappingProxyType(
    {
        errno.EIO: _OPENS | _CHANGES | {"size"},
        errno.ENOSPC: _GROWS,
        errno.EMFILE: _OPENS,
        errno.EROFS: _CHANGES,
    }
)
"""Which operations can fail with which error. `mkdir` opens the folder above, to sync it."""

PARTS: Final = (0.0, 0.5, 1.0)
"""How much of a write that fails is there nevertheless."""


class Fault(Struct, frozen=True):
    """The operation number `at` fails with `number`; with `lasting`, so do all after it that can.

    `part` is how much of a failing write reaches the file all the same.
    """

    at: int
    number: int
    lasting: bool = False
    part: float = 0.0

    def __str__(self) -> str:
        """For the message of a violation."""
        name = errno.errorcode[self.number]
        return f"{name} {'from' if self.lasting else 'at'} operation {self.at}, part {self.part}"


class FaultyDisk:
    """Implements `Disk` on a model disk.

    Args:
        disk: the disk underneath.
        fault: what fails; none counts only.
    """

    def __init__(self, disk: ModelDisk, fault: Fault | None = None) -> None:
        self.disk = disk
        self.fault = fault
        self.operations: list[str] = []
        self.first_failure = 0
        """How often the disk had changed when the first operation failed."""
        self.failure_count = 0

    def lift(self) -> None:
        """The cause ends: nothing fails any more."""
        self.fault = None

    def _fails(self, operation: str) -> bool:
        self.operations.append(operation)
        fault, number = self.fault, len(self.operations)
        if fault is None or operation not in CAN_FAIL[fault.number]:
            return False
        if number != fault.at and not (fault.lasting and number > fault.at):
            return False
        if not self.failure_count:
            self.first_failure = self.disk.change_count
        self.failure_count += 1
        return True

    def _pass(self, operation: str, path: str) -> None:
        if self._fails(operation):
            raise self._error(path)

    def _error(self, path: str) -> OSError:
        assert self.fault is not None
        number = self.fault.number
        return OSError(number, os.strerror(number), path)

    # ---- Disk ----------------------------------------------------------------------------------

    def make_folder(self, path: str) -> None:
        self._pass("mkdir", path)
        self.disk.make_folder(path)

    def create(self, path: str) -> int:
        self._pass("create", path)
        return self.disk.create(path)

    def open_append(self, path: str) -> int:
        self._pass("open_append", path)
        return self.disk.open_append(path)

    def write(self, handle: int, data: bytes) -> None:
        if self._fails("write"):
            assert self.fault is not None
            self.disk.write(handle, data[: int(len(data) * self.fault.part)])
            raise self._error(self.disk.path_of(handle))
        self.disk.write(handle, data)

    def sync(self, handle: int) -> None:
        if self._fails("sync"):
            self.disk.fail_sync(handle)
            raise self._error(self.disk.path_of(handle))
        self.disk.sync(handle)

    def sync_folder(self, path: str) -> None:
        self._pass("sync_folder", path)
        self.disk.sync_folder(path)

    def size(self, handle: int) -> int:
        self._pass("size", "")
        return self.disk.size(handle)

    def truncate(self, handle: int, size: int) -> None:
        self._pass("truncate", "")
        self.disk.truncate(handle, size)

    def close(self, handle: int) -> None:
        self.disk.close(handle)

    def read(self, path: str, offset: int = 0) -> bytes:
        self._pass("read", path)
        return self.disk.read(path, offset)

    def read_range(self, path: str, offset: int, size: int) -> bytes:
        self._pass("read", path)
        return self.disk.read_range(path, offset, size)

    def pieces(self, path: str, offset: int = 0) -> Generator[bytes, None, None]:
        self._pass("read", path)
        yield from self.disk.pieces(path, offset)

    def touch(self, path: str) -> None:
        self._pass("open_append", path)
        self.disk.touch(path)

    def link(self, source: str, target: str) -> None:
        self._pass("rename", target)
        self.disk.link(source, target)

    def rename(self, source: str, target: str) -> None:
        self._pass("rename", target)
        self.disk.rename(source, target)

    def unlink(self, path: str) -> None:
        self._pass("unlink", path)
        self.disk.unlink(path)

    def list(self, folder: str, ending: str = "") -> list[str]:
        self._pass("list", folder)
        return self.disk.list(folder, ending)

    def stats(self, folder: str, ending: str = "") -> dict[str, FileStat]:
        self._pass("list", folder)
        return self.disk.stats(folder, ending)

    def stat(self, path: str) -> FileStat | None:
        self._pass("list", path)
        return self.disk.stat(path)

    def lock(self, path: str, note: bytes = b"", *, is_shared: bool = False) -> int | None:
        self._pass("lock", path)
        return self.disk.lock(path, note, is_shared=is_shared)

    def is_locked(self, path: str) -> bool:
        self._pass("read", path)
        return self.disk.is_locked(path)
