"""One thread's journal on disk: created, opened, appended to. Records come from `thread.record`.

The order of writes is the promise: a whole batch is written with one write and synced once, and
only then acknowledged. A sync that fails is never tried again, because the kernel may have dropped
the data and would report success: the writer is finished, and the thread is opened again from disk.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from hashlib import sha256
from typing import Final, Protocol

from treadle.errors import DiskError, StaleWriterError
from treadle.store.disk import Disk
from treadle.thread.record import (
    WRITE_SIZE_MAX,
    Head,
    JournalCondition,
    JournalScan,
    JournalScanner,
    Record,
    encode_batch,
    scan_journal,
)

FIRST_READ_SIZE: Final = 64 * 1024
"""So many bytes of most journals hold a whole write; of others all that one may have is read."""

_FIRST_RECORD_START: Final = b'{"seq":1,"at":"'
_FIRST_RECORD_WITH_TIME: Final = re.compile(rb'\{"seq":1,"at":"[0-9TZ:.+-]{0,40}(?:"|\Z)')
_NEVER_WRITTEN: Final = re.compile(rb'[\x01-\x09\x0b-\x1f]|,"hash":"[0-9a-f]{32}"\}[^\n\0,}\]]')
"""Control characters, and anything but the end of the line behind the end of a record."""


class convert_os_errors:  # noqa: N801  read as a verb: `with convert_os_errors(...)`
    """Tell an `OSError` as what it means to the store.

    Not made by `contextlib`: each turn passes here a dozen times, and that costs three times as
    much.

    Args:
        operation: what is tried.
        path: the file.
        needed: how many bytes it would take.
    """

    __slots__ = ("_needed", "_operation", "_path")

    def __init__(self, operation: str, path: str, needed: int = 0) -> None:
        self._operation = operation
        self._path = path
        self._needed = needed

    def __enter__(self) -> None:
        """Nothing has failed yet."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError):
            raise DiskError(self._operation, self._path, error, self._needed) from error


class Journal:
    """The writer's end. Only one may exist per file; the thread's lock sees to that.

    Args:
        disk: where the file is.
        path: the file.
        handle: open for appending.
        head: where the file ends.
    """

    __slots__ = ("_disk", "_handle", "_is_finished", "_path", "head", "is_synced")

    def __init__(self, disk: Disk, path: str, handle: int, head: Head) -> None:
        self._disk = disk
        self._path = path
        self._handle = handle
        self._is_finished = False
        self.head = head
        self.is_synced = True

    @classmethod
    def create(cls, disk: Disk, path: str, at: str, events: Sequence[bytes]) -> Journal:
        """A new journal whose first records and whose name are durable.

        Raises:
            DiskError: no journal was acknowledged. If it could not be written (a full disk), none
                is there; after a sync that failed nobody knows, and it stays.
        """
        return cls._create(disk, path, lambda journal: journal.write(at, events))

    @classmethod
    def create_from(cls, disk: Disk, path: str, data: bytes) -> Journal:
        """A new journal with these bytes. Raises as `create`."""
        return cls._create(disk, path, lambda journal: journal.append(data, Head(size=len(data))))

    @classmethod
    def _create(cls, disk: Disk, path: str, fill: Callable[[Journal], None]) -> Journal:
        with convert_os_errors("create", path):
            handle = disk.create(path)
        journal = cls(disk, path, handle, Head())
        try:
            try:
                fill(journal)
            except DiskError:
                with suppress(OSError):
                    disk.unlink(path)
                raise
            journal.sync()
            with convert_os_errors("sync the folder of", path):
                disk.sync_folder(os.path.dirname(path))
        except BaseException:
            journal.close()
            raise
        return journal

    @classmethod
    def open(cls, disk: Disk, path: str, head: Head) -> Journal:
        """The journal whose intact end is `head` and after which nothing stands."""
        with convert_os_errors("open", path):
            return cls(disk, path, disk.open_append(path), head)

    def write(self, at: str, events: Sequence[bytes]) -> None:
        """Append the events as one batch, with one write. Not durable before `sync`.

        Raises:
            UsageError: more than a journal takes; nothing was written.
            StaleWriterError: somebody else changed the file; nothing was written.
            DiskError: this writer is finished; what was acknowledged before is intact.
        """
        self._check_usable()
        self.append(*encode_batch(self.head, at, events))

    def append(self, data: bytes, head: Head) -> None:
        """Append a batch that ends at `head`. Raises as `write`."""
        self._check_usable()
        self.is_synced = False
        try:
            with convert_os_errors("write", self._path, len(data)):
                size = self._disk.size(self._handle)
                if size != self.head.size:
                    raise StaleWriterError(
                        f"{self._path} has {size} bytes, this writer left {self.head.size}: "
                        "somebody else wrote to it",
                        hint="open the thread again",
                    )
                self._disk.write(self._handle, data)
        except BaseException:
            self._is_finished = True
            raise
        self.head = head

    def sync(self) -> None:
        """Make what was written durable.

        Raises:
            DiskError: this writer is finished; whether the last batch is on disk is unknown.
        """
        self._check_usable()
        try:
            self._disk.sync(self._handle)
        except OSError as error:
            self.end_sync(error)
        except BaseException:
            self._is_finished = True
            raise
        self.is_synced = True

    def end_sync(self, error: OSError | None) -> None:
        """Hear how a sync ended in which this journal was one of many.

        Raises:
            DiskError: as `sync`.
        """
        if error is not None:
            self._is_finished = True
            raise DiskError("sync", self._path, error) from error
        self.is_synced = True

    @property
    def handle(self) -> int:
        """The open file; -1 once it is closed."""
        return self._handle

    @property
    def is_usable(self) -> bool:
        """Whether no write or sync of this writer has failed, and it is not closed."""
        return not self._is_finished

    def _check_usable(self) -> None:
        if self._is_finished:
            raise StaleWriterError(
                f"this writer of {self._path} failed before", hint="open the thread again"
            )

    def close(self) -> None:
        """Give the file back. What was not synced is not acknowledged."""
        self._is_finished = True
        if self._handle >= 0:
            self._disk.close(self._handle)
            self._handle = -1


def sync_journal(disk: Disk, path: str) -> None:
    """Make durable what a process that died may have left in memory only.

    Before this, what is read may be gone after a power cut, and what is acknowledged on top of it
    would be damaged then.
    """
    with convert_os_errors("sync", path):
        try:
            handle = disk.open_append(path)
        except FileNotFoundError:
            return
        try:
            disk.sync(handle)
        finally:
            disk.close(handle)
        disk.sync_folder(os.path.dirname(path))


class JournalBytes(Protocol):
    """Where journals are read; a `Disk` is one."""

    def pieces(self, path: str, offset: int = 0) -> Generator[bytes, None, None]:
        """The bytes of a journal from `offset` on; `FileNotFoundError` if there is none."""
        ...


class JournalReader:
    """The records of a journal, one after the other, as they are read.

    Args:
        disk: where the journal is.
        path: what it is called there.
        after: the last record known good; by default the beginning.
    """

    __slots__ = ("_after", "_disk", "found", "is_missing", "path")

    def __init__(self, disk: JournalBytes, path: str, after: Head = Head()) -> None:  # noqa: B008
        self._disk = disk
        self.path = path
        """What it is called."""
        self._after = after
        self.found = JournalScan([], after)
        """What was found, without the records; to be believed after the last one only."""
        self.is_missing = False
        """Whether there is no such file."""

    def __iter__(self) -> Iterator[Record]:
        """Read it, once.

        Raises:
            DiskError: the disk refused.
        """
        scanner = JournalScanner(self._after)
        pieces = self._disk.pieces(self.path, self._after.size)
        with convert_os_errors("read", self.path), closing(pieces):
            try:
                for piece in pieces:
                    yield from scanner.feed(piece)
                    if scanner.is_decided:
                        break
            except FileNotFoundError:
                self.is_missing = True
        self.found = scanner.end()

    def scan(self) -> JournalScan | None:
        """Read it for what it is worth alone; `None` if there is no such file."""
        for _ in self:
            pass
        return None if self.is_missing else self.found


def read_journal(disk: JournalBytes, path: str, after: Head) -> JournalScan | None:
    """What stands after `after`, all of it at once; `None` if there is no such file."""
    reading = JournalReader(disk, path, after)
    records = list(reading)
    found = reading.found
    return (
        None
        if reading.is_missing
        else JournalScan(records, found.head, found.condition, found.reason)
    )


def journal_has_head(disk: Disk, path: str, head: Head) -> bool:
    """Whether the journal holds the record `head` names, where it says it ends.

    Reads the last bytes of that record only; that the records before it are intact is what a full
    scan tells (`treadle verify`).
    """
    seal = b',"hash":"%b"}\n' % head.hash.encode()
    with convert_os_errors("read", path):
        try:
            return disk.read_range(path, head.size - len(seal), len(seal)) == seal
        except FileNotFoundError:
            return False


def is_unfinished_creation(disk: Disk, path: str) -> bool:
    """Whether a journal holds no record, and can be what a first write left that was stopped.

    That is the beginning of a write, in which pages may be missing: those read as NULs. A whole
    line without any is damage, or not ours at all; nobody may take that for nothing.

    Raises:
        DiskError: it cannot be read.
    """
    with convert_os_errors("read", path):
        try:
            data = disk.read_range(path, 0, FIRST_READ_SIZE)
            if len(data) == FIRST_READ_SIZE and not scan_journal(data).records:
                data = disk.read_range(path, 0, WRITE_SIZE_MAX + 1)
        except FileNotFoundError:
            return False
    found = scan_journal(data)
    if (
        len(data) > WRITE_SIZE_MAX
        or found.records
        or found.condition is JournalCondition.CORRUPT
        or _NEVER_WRITTEN.search(data)
    ):
        return False
    line, end, _ = data.partition(b"\n")
    begun, hole, _ = line.partition(b"\0")
    is_first = bool(_FIRST_RECORD_WITH_TIME.match(begun)) or _FIRST_RECORD_START.startswith(begun)
    return is_first and (not end or bool(hole))


def cut_torn_tail(disk: Disk, path: str, found: JournalScan, quarantine: str) -> str:
    """Move the bytes of an unfinished write to the quarantine folder and cut them off.

    Safe to be stopped anywhere and done again: the quarantined file's name is made of its contents.

    Returns:
        The path of the quarantined bytes.
    """
    assert found.condition is JournalCondition.TORN
    digest = sha256()
    with convert_os_errors("read", path):
        for piece in disk.pieces(path, found.head.size):
            digest.update(piece)
    name = f"{os.path.basename(path)}.{found.head.size}.{digest.hexdigest()[:12]}"
    kept = os.path.join(quarantine, name)
    with convert_os_errors("write", kept):
        disk.make_folder(quarantine)
        if name in disk.list(quarantine):
            disk.unlink(kept)
        handle = disk.create(kept)
        try:
            for piece in disk.pieces(path, found.head.size):
                disk.write(handle, piece)
            disk.sync(handle)
        finally:
            disk.close(handle)
        disk.sync_folder(quarantine)
    with convert_os_errors("cut the torn end of", path):
        handle = disk.open_append(path)
        try:
            disk.truncate(handle, found.head.size)
            disk.sync(handle)
        finally:
            disk.close(handle)
    return kept
