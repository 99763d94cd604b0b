"""The one place that speaks to the operating system about the store's files.

Everything the store does to files goes through a `Disk`, as time goes through a clock: that is the
seam for fault injection. Methods raise the operating system's `OSError`; who calls them says what
it means for a thread.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Final, Protocol

from msgspec import Struct

from treadle.platform.file_locks import lock_question
from treadle.platform.file_sync import forget_pages
from treadle.platform.shared_sync import SharedSync

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700

LOCK_TRIES_MAX: Final = 100
"""A lock file that is replaced this often while it is being locked is given up."""
PIECE_SIZE: Final = 1024 * 1024
"""How much of a long file is read at a time."""

_SAFE_OPEN_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class FileStat(Struct, frozen=True, gc=False):
    """What tells two states of a file apart without reading it; sizes in bytes."""

    size: int
    mtime_ns: int
    inode: int


class Disk(Protocol):
    """Files, as far as a store needs them. A handle is a small integer.

    What was written is durable after `sync`; a new, renamed or removed name is durable after
    `sync_folder`. Nothing else is promised by any file system.
    """

    def make_folder(self, path: str) -> None:
        """Make the folder and its parents where missing, private to the user, names durable."""
        ...

    def create(self, path: str) -> int:
        """A new file, open for appending. `FileExistsError` if the name is taken."""
        ...

    def open_append(self, path: str) -> int:
        """An existing file, open for appending. `FileNotFoundError` if there is none.

        What is read after it and a `sync` is what the disk holds, not what memory remembers of a
        write whose sync failed.
        """
        ...

    def write(self, handle: int, data: bytes) -> None:
        """Append all of `data`; on an error a part of it may be there."""
        ...

    def sync(self, handle: int) -> None:
        """Make the file's contents durable. After an error nothing is known: do not try again."""
        ...

    def find_shared_sync(self, handles: Sequence[int]) -> Callable[[], None] | None:
        """What does the `sync` of all these at once; `None` where each is to be synced by itself.

        It may be called in another thread, and when handles are closed by then. After an error
        nothing is known of any of them. What was written before the first time that a handle of
        this disk came here is not among what it vouches for: then it is `None`.
        """
        ...

    def sync_folder(self, path: str) -> None:
        """Make the names in the folder durable."""
        ...

    def size(self, handle: int) -> int:
        """Bytes in the file. `FileNotFoundError` if it has lost its name meanwhile."""
        ...

    def truncate(self, handle: int, size: int) -> None:
        """Cut the file to `size` bytes."""
        ...

    def close(self, handle: int) -> None:
        """Give the handle back; frees a lock taken with it."""
        ...

    def read(self, path: str, offset: int = 0) -> bytes:
        """The file's bytes from `offset` to its end."""
        ...

    def read_range(self, path: str, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`; fewer where the file ends."""
        ...

    def pieces(self, path: str, offset: int = 0) -> Generator[bytes, None, None]:
        """The file's bytes from `offset` to its end, a piece at a time, none of them empty.

        All are of the file that had the name at the first piece, whoever has it meanwhile.
        """
        ...

    def touch(self, path: str) -> None:
        """Let the file count as written to now. Not durable; `FileNotFoundError` if it is gone."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, replacing what had it."""
        ...

    def link(self, source: str, target: str) -> None:
        """Give a file a second name. `FileExistsError` if it is taken; some disks cannot do it."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a name."""
        ...

    def list(self, folder: str, ending: str = "") -> list[str]:
        """The names in a folder that end so, sorted; none if there is no such folder."""
        ...

    def stats(self, folder: str, ending: str = "") -> dict[str, FileStat]:
        """The plain files in a folder whose names end so; none if there is no such folder."""
        ...

    def stat(self, path: str) -> FileStat | None:
        """The same of one file; `None` if there is no plain file of that name."""
        ...

    def lock(self, path: str, note: bytes = b"", *, is_shared: bool = False) -> int | None:
        """Hold the lock file exclusively, or `None` at once if another process does.

        The kernel frees it when the process dies. The file is made if missing, never removed. It
        is still the one of that name when it is held: who removes it meanwhile gains nothing.

        Args:
            path: the file.
            note: what it holds from now on, for whoever finds it held; its contents stay if empty.
                A convenience: no lock fails for its sake, and it is not durable.
            is_shared: whether others may hold it at the same time, if they share it too; then
                nothing is noted, and `is_locked` knows nothing of it.
        """
        ...

    def is_locked(self, path: str) -> bool:
        """Whether somebody holds the lock file, as far as this system can tell.

        Asks only and takes nothing, so that who asks is in no writer's way. The answer may be old
        when it is read.
        """
        ...


class PosixDisk:
    """The real one."""

    def make_folder(self, path: str) -> None:
        """See `Disk`.

        The name of the innermost folder that is there already may not be durable yet, because who
        made it may have died before: it is synced too, once as long as it is the same folder.
        """
        found = _find_folder(path)
        if found is not None and self._durable_folders.get(path) == found:
            return
        whole, missing = path, list[str]()
        while path and not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        with suppress(PermissionError):  # a folder above that is not ours to read
            self.sync_folder(os.path.dirname(path) or ".")
        for folder in reversed(missing):
            try:
                os.mkdir(folder, FOLDER_MODE)
            except FileExistsError:
                if not os.path.isdir(folder):
                    raise
            self.sync_folder(os.path.dirname(folder) or ".")
        self._durable_folders[whole] = _find_folder(whole)

    @cached_property
    def _durable_folders(self) -> dict[str, tuple[int, int] | None]:
        """Folders whose names were synced: each with its device and inode."""
        return {}

    def create(self, path: str) -> int:
        """See `Disk`."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return os.open(path, flags, FILE_MODE)

    def open_append(self, path: str) -> int:
        """See `Disk`. Pages that a failed sync left in memory as if they were saved are dropped."""
        handle = _require_plain_file(
            os.open(path, os.O_WRONLY | os.O_APPEND | _SAFE_OPEN_FLAGS), path
        )
        forget_pages(handle)
        return handle

    def write(self, handle: int, data: bytes) -> None:
        """See `Disk`."""
        done = os.write(handle, data)
        while done < len(data):
            done += os.write(handle, data[done:])

    def sync(self, handle: int) -> None:
        """See `Disk`."""
        self._shared_sync.sync_one(handle)

    def find_shared_sync(self, handles: Sequence[int]) -> Callable[[], None] | None:
        """See `Disk`."""
        return self._shared_sync.find(handles)

    @cached_property
    def _shared_sync(self) -> SharedSync:
        return SharedSync()

    def sync_folder(self, path: str) -> None:
        """See `Disk`."""
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def size(self, handle: int) -> int:
        """See `Disk`."""
        status = os.fstat(handle)
        if status.st_nlink == 0:
            raise FileNotFoundError("the file was removed while it was open")
        return status.st_size

    def truncate(self, handle: int, size: int) -> None:
        """See `Disk`."""
        os.ftruncate(handle, size)

    def close(self, handle: int) -> None:
        """See `Disk`."""
        os.close(handle)

    def read(self, path: str, offset: int = 0) -> bytes:
        """See `Disk`."""
        return self.read_range(path, offset, -1)

    def read_range(self, path: str, offset: int, size: int) -> bytes:
        """See `Disk`."""
        handle = _require_plain_file(os.open(path, os.O_RDONLY | _SAFE_OPEN_FLAGS), path)
        with open(handle, "rb", buffering=0) as file:
            file.seek(max(0, offset))
            return file.read(size)

    def pieces(self, path: str, offset: int = 0) -> Generator[bytes, None, None]:
        """See `Disk`."""
        handle = _require_plain_file(os.open(path, os.O_RDONLY | _SAFE_OPEN_FLAGS), path)
        with open(handle, "rb", buffering=0) as file:
            file.seek(max(0, offset))
            while data := file.read(PIECE_SIZE):
                yield data

    def touch(self, path: str) -> None:
        """See `Disk`."""
        os.utime(path, follow_symlinks=False)

    def rename(self, source: str, target: str) -> None:
        """See `Disk`."""
        os.rename(source, target)

    def link(self, source: str, target: str) -> None:
        """See `Disk`."""
        os.link(source, target, follow_symlinks=False)

    def unlink(self, path: str) -> None:
        """See `Disk`."""
        os.unlink(path)

    def list(self, folder: str, ending: str = "") -> list[str]:
        """See `Disk`."""
        try:
            return sorted(name for name in os.listdir(folder) if name.endswith(ending))
        except FileNotFoundError:
            return []

    def stats(self, folder: str, ending: str = "") -> dict[str, FileStat]:
        """See `Disk`."""
        found: dict[str, FileStat] = {}
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if not entry.name.endswith(ending) or not entry.is_file(follow_symlinks=False):
                        continue
                    with suppress(FileNotFoundError):  # it went meanwhile
                        found[entry.name] = _make_file_stat(entry.stat(follow_symlinks=False))
        except FileNotFoundError:
            return {}
        return found

    def stat(self, path: str) -> FileStat | None:
        """See `Disk`."""
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return None
        return _make_file_stat(status) if stat.S_ISREG(status.st_mode) else None

    def lock(self, path: str, note: bytes = b"", *, is_shared: bool = False) -> int | None:
        """See `Disk`.

        `flock`, never `lockf`: a `lockf` lock is lost when any descriptor of the file is closed.
        """
        for _ in range(LOCK_TRIES_MAX):
            handle = _require_plain_file(
                os.open(path, os.O_RDWR | os.O_CREAT | _SAFE_OPEN_FLAGS, FILE_MODE), path
            )
            try:
                kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
                fcntl.flock(handle, kind | fcntl.LOCK_NB)
                if _has_name(handle, path):
                    if not is_shared:
                        _announce_holder(handle, note)
                    return handle
            except BlockingIOError:
                os.close(handle)
                return None
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)
        raise OSError(errno.ESTALE, "it is removed or replaced again and again", path)

    def is_locked(self, path: str) -> bool:
        """See `Disk`. Where the system has no such question, nobody is said to hold it."""
        try:
            handle = _require_plain_file(os.open(path, os.O_RDONLY | _SAFE_OPEN_FLAGS), path)
        except FileNotFoundError:
            return False
        try:
            return lock_question.ask(handle)
        finally:
            os.close(handle)


def _has_name(handle: int, path: str) -> bool:
    """Whether the file is the one of this name: two may lock two files that had it in turn."""
    try:
        named = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(handle), named)


def _announce_holder(handle: int, note: bytes) -> None:
    """Say who holds the lock, to `is_locked` and in the file."""
    lock_question.announce(handle)
    if note:
        with suppress(OSError):  # a full disk, for one
            os.ftruncate(handle, 0)
            os.pwrite(handle, note, 0)


def _make_file_stat(status: os.stat_result) -> FileStat:
    return FileStat(status.st_size, status.st_mtime_ns, status.st_ino)


def _find_folder(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None


def _require_plain_file(handle: int, path: str) -> int:
    """The handle, if it is one of a plain file: a FIFO or a device may wait, or never end."""
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no plain file", path)
    return handle
