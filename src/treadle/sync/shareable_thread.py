"""The one way in which a thread can leave this machine, and the look at whether it may.

A `ShareableThread` is made by `open_shareable` and by nothing else. That holds the locks under
which a thread is sent, its own and those of all that it hangs on, and sees under them that none of
these is private. Whoever makes one of them private takes the same lock first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Final

from msgspec import Raw, Struct

from treadle.api.marks import Mark
from treadle.core.messages import BlobRef
from treadle.errors import (
    DamagedJournalError,
    InternalError,
    MissingBlobError,
    PrivateThreadError,
    ReadOnlyThreadError,
    StorageBusyError,
    UnknownThreadError,
)
from treadle.store.folders import LOCK_SUFFIX
from treadle.store.journal import convert_os_errors, journal_has_head, sync_journal
from treadle.store.local_store import LocalStore
from treadle.store.record_adoption import split_journal_lines, split_writes
from treadle.store.send_lock import hold_send_lock
from treadle.store.thread_reader import LoadedThread, decode_header
from treadle.thread.output_references import list_output_references
from treadle.thread.record import (
    Head,
    JournalCondition,
    JournalScan,
    JournalScanner,
    Record,
    scan_journal,
)

PIECE_SIZE: Final = 4 * 1024 * 1024
"""Bytes of lines that are handed out at a time; a write that is longer goes by itself."""

_CONSTRUCTION_KEY: Final = object()


class _JournalLines(Struct, frozen=True):
    """Lines of a journal, and the records that they are."""

    lines: list[bytes]
    records: list[Record]


class ShareableThread:
    """A thread that may leave this machine: its records up to where they were durable.

    Only `open_shareable` makes one, and it can be used only within that.

    Args:
        key: known to this module alone.
        store: where the thread is.
        thread_id: the thread.
        path: its journal.
        known_head: a record known to be in it, from which on it is read where that suffices.
        head: its last durable record, and how many bytes that makes.
    """

    __slots__ = (
        "_is_open",
        "_known_head",
        "_lines_by_offset",
        "_outputs",
        "_path",
        "_store",
        "_thread_id",
        "head",
        "through",
    )

    def __init__(
        self,
        key: object,
        store: LocalStore,
        thread_id: str,
        path: str,
        known_head: Head,
        head: Head,
    ) -> None:
        if key is not _CONSTRUCTION_KEY:
            raise InternalError("only `open_shareable` says that a thread may leave this machine")
        self._store = store
        self._thread_id = thread_id
        self._path = path
        self._is_open = True
        self._known_head = known_head
        self._lines_by_offset: dict[int, _JournalLines] = {}
        self._outputs: dict[str, BlobRef] = {}
        self.head = head
        """Where the thread ends, as far as it is sent."""
        self.through = head.seq
        """Up to which record lines are handed out for now."""

    @property
    def thread_id(self) -> str:
        """The thread."""
        self._check_open()
        return self._thread_id

    @property
    def mark(self) -> Mark:
        """Where it ends."""
        return Mark(self.head.seq, self.head.hash)

    def lines(self, after: Mark) -> Iterator[bytes]:
        """Its records after a mark, as they stand in the journal, in pieces of whole writes.

        A piece ends where the thread is not private: one that was, and may be sent since, is
        longer. A server takes no other.

        Raises:
            UnknownThreadError: the mark is not in this chain.
            DiskError: the disk refused.
        """
        parts: list[bytes] = []
        size, is_private = 0, False
        found, first, last = self._select_lines(after)
        for write in split_writes(b"".join(found.lines[first:last])):
            self._check_open()
            if parts and not is_private and size + len(write) > PIECE_SIZE:
                yield b"".join(parts)
                parts, size = [], 0
            parts.append(write)
            size += len(write)
            is_private = is_private_after(write, is_private)
        if parts:
            yield b"".join(parts)

    def find_public_seq(self, seq: int) -> int:
        """The first record from `seq` on after which the thread is not private."""
        is_private = False
        for record in self.records(Mark()):
            is_private = is_private_after(record.event, is_private)
            if record.seq >= seq and not is_private:
                return record.seq
        return self.head.seq

    def records(self, after: Mark) -> list[Record]:
        """The same as records. Raises as `lines`."""
        lines, first, last = self._select_lines(after)
        return lines.records[first:last]

    def outputs(self, after: Mark) -> list[tuple[int, BlobRef]]:
        """The large outputs that these records name, each once, with the record's number."""
        found: dict[str, tuple[int, BlobRef]] = {}
        for seq, ref in list_output_references(self.records(after)):
            found.setdefault(ref.sha256, (seq, ref))
            self._outputs[ref.sha256] = ref
        return list(found.values())

    def has_mark(self, mark: Mark) -> bool:
        """Whether a mark is in this chain."""
        try:
            self._select_lines(mark)
        except UnknownThreadError:
            return False
        return True

    def blob(self, sha256: str) -> bytes:
        """A large output that one of its records names.

        Raises:
            MissingBlobError: it is gone, damaged, or none of this thread's.
            DiskError: the disk refused.
        """
        self._check_open()
        if sha256 not in self._outputs:
            self.outputs(Mark())
        if sha256 not in self._outputs:
            raise MissingBlobError(f"thread {self._thread_id} names no output {sha256!r}")
        return self._store.read_blob(self._outputs[sha256])

    def _select_lines(self, after: Mark) -> tuple[_JournalLines, int, int]:
        """What was read, and which part of that is after a mark and up to `through`."""
        self._check_open()
        known = self._known_head if after.seq >= self._known_head.seq else Head()
        found = self._lines_by_offset.get(known.size)
        if found is None:
            found = self._lines_by_offset[known.size] = self._read_lines(known)
        records, place = found.records, after.seq - known.seq
        end = known.hash if place == 0 else records[place - 1].hash if place <= len(records) else ""
        if end != after.hash:
            raise UnknownThreadError(
                f"version {after.seq} of thread {self._thread_id} is another one here"
            )
        return found, place, min(self.through - known.seq, len(records))

    def _read_lines(self, known_head: Head) -> _JournalLines:
        """All after a record: what is durable stays as it is, and is read and verified once."""
        with convert_os_errors("read", self._path):
            data = self._store.folders.disk.read_range(
                self._path, known_head.size, self.head.size - known_head.size
            )
        records = scan_journal(
            data, Head(known_head.seq, known_head.hash, known_head.at, 0)
        ).records
        return _JournalLines(split_journal_lines(data), records)

    def close(self) -> None:
        """From here on nothing of it is handed out."""
        self._is_open = False

    def _check_open(self) -> None:
        if not self._is_open:
            raise InternalError(f"thread {self._thread_id} is sent after its lock was given back")


@contextmanager
def open_shareable(
    store: LocalStore,
    thread_id: str,
    known_head: Head = Head(),  # noqa: B008  frozen
) -> Iterator[ShareableThread]:
    """A thread that may leave this machine, as long as this is not left.

    Args:
        store: where it is.
        thread_id: the thread.
        known_head: a record that was in its journal once: if it is still, what is before it is not
            read.

    Raises:
        PrivateThreadError: it, what it goes on from, or whom it works for, is private.
        UnknownThreadError: there is no such thread.
        ReadOnlyThreadError: it is damaged, or this version cannot read it.
        StorageBusyError: it is being sent, made private, moved or removed at this moment.
        DiskError: the disk refused.
    """
    folders = store.folders
    with ExitStack() as held:
        family = _hold_locks(store, thread_id, held)
        locks = (folders.trash + LOCK_SUFFIX, folders.path(thread_id, LOCK_SUFFIX))
        with convert_os_errors("read", locks[0]):
            if all(folders.disk.is_locked(path) for path in locks):
                raise StorageBusyError(
                    f"another process moves, removes or scrubs thread {thread_id}",
                    hint="it is sent when that has ended",
                )
        for one in family:
            _refuse_private(store, thread_id, one)
        path, _ = folders.find(thread_id)
        if known_head.seq and not journal_has_head(folders.disk, path, known_head):
            known_head = Head()
        found = _scan_durable(store, path, known_head)
        if found.condition is JournalCondition.CORRUPT:
            raise _make_unreadable_error(thread_id, found.reason)
        head = found.head
        if not head.seq:
            raise UnknownThreadError(f"thread {thread_id} holds no intact record")
        thread = ShareableThread(_CONSTRUCTION_KEY, store, thread_id, path, known_head, head)
        held.callback(thread.close)
        yield thread


@contextmanager
def hold_for_request(store: LocalStore, thread_id: str) -> Iterator[None]:
    """A server may be asked about a thread, as long as this is not left: its id is named there.

    A thread that has lost its end may be asked for: what is left of it does not say that it is
    private.

    Raises:
        PrivateThreadError: it, what it goes on from, or whom it works for, is private.
        UnknownThreadError: there is no such thread.
        StorageBusyError: it is being sent, or made private, at this moment.
        DiskError: the disk refused.
    """
    with ExitStack() as held:
        for one in _hold_locks(store, thread_id, held):
            try:
                _refuse_private(store, thread_id, one)
            except (DamagedJournalError, ReadOnlyThreadError):
                continue
        yield


def _hold_locks(store: LocalStore, thread_id: str, stack: ExitStack) -> list[str]:
    """Hold the locks of a thread and of all that it hangs on, which are here; their ids.

    What it hangs on, others hold too who send what hangs on the same.
    """
    found: dict[str, None] = {}
    todo = [thread_id]
    while todo:
        one = todo.pop()
        if one in found:
            continue
        found[one] = None
        stack.enter_context(hold_send_lock(store.folders, one, is_shared=one != thread_id))
        todo += read_dependencies(store, one).ids
    return list(found)


class ThreadDependencies(Struct, frozen=True):
    """What a thread hangs on: what it goes on from, and whom it works for; empty if nothing."""

    base: str = ""
    parent: str = ""

    @property
    def ids(self) -> tuple[str, ...]:
        """Both, as far as there are any."""
        return tuple(filter(None, (self.base, self.parent)))


def read_dependencies(store: LocalStore, thread_id: str) -> ThreadDependencies:
    """What a thread hangs on, as far as that is here.

    Raises:
        ReadOnlyThreadError: its first record cannot be read.
        UnknownThreadError: there is no such thread.
        DiskError: the disk refused.
    """
    path, _ = store.folders.find(thread_id)
    first = read_first_record(store, path)
    if first is None:
        raise ReadOnlyThreadError(f"the first record of thread {thread_id} cannot be read")
    header = decode_header(first)
    base = "" if header.base is None else header.base.thread
    named = (base, header.parent or "")
    return ThreadDependencies(*(one if one and _is_local(store, one) else "" for one in named))


def read_first_record(store: LocalStore, path: str) -> Record | None:
    """Record 1 of a journal; `None` if there is none that is intact."""
    scanner = JournalScanner()
    with convert_os_errors("read", path):
        try:
            with closing(store.folders.disk.pieces(path)) as pieces:
                for piece in pieces:
                    # A journal is mostly far longer than its first line.
                    line, end, _ = piece.partition(b"\n")
                    found = scanner.feed(line + end)
                    if found or scanner.is_decided:
                        return found[0] if found else None
        except FileNotFoundError:
            return None
    return None


def _is_local(store: LocalStore, thread_id: str) -> bool:
    try:
        store.folders.find(thread_id)
    except UnknownThreadError:
        return False
    return True


def _refuse_private(store: LocalStore, thread_id: str, checked_id: str) -> None:
    loaded: LoadedThread = store.load(checked_id)
    if loaded.fold.is_private:
        of = "" if checked_id == thread_id else f": {checked_id}, which it hangs on, is"
        raise PrivateThreadError(
            f"thread {thread_id} is private{of}",
            hint=f"nothing of it was sent; `treadle private {checked_id} --off` lets it be sent",
        )
    # What cannot be read may be where it says that it is private.
    if loaded.problem or loaded.condition is JournalCondition.CORRUPT:
        raise _make_unreadable_error(checked_id, loaded.problem)


_PRIVACY_RECORD: Final = re.compile(
    rb'^(?:\{"seq":[^{]*"event":)?\{"type":"(?:thread_created|privacy_set)"'
    rb'(?:[^\n]*?"is_private":(true|false))?',
    re.MULTILINE,
)
"""A record, or its event alone. What a merged branch has said about itself does not count."""


def is_private_after(data: bytes | Raw, is_private: bool) -> bool:
    """Whether a thread is private after records, by what they say of it, if they say anything."""
    for found in _PRIVACY_RECORD.finditer(bytes(data)):
        is_private = found[1] == b"true"
    return is_private


def _make_unreadable_error(thread_id: str, why: str) -> ReadOnlyThreadError:
    return ReadOnlyThreadError(
        f"thread {thread_id} cannot be read whole: {why}",
        hint=f"nothing of it was sent; `treadle verify {thread_id}` says more",
    )


def _scan_durable(store: LocalStore, path: str, known_head: Head) -> JournalScan:
    """What is durable for sure, without the records: what was there before a sync is after it."""
    disk = store.folders.disk
    with convert_os_errors("read", path):
        status = disk.stat(path)
    sync_journal(disk, path)
    if status is None or status.size < known_head.size:
        return JournalScan([], Head())
    with convert_os_errors("read", path):
        data = disk.read_range(path, known_head.size, status.size - known_head.size)
    found = scan_journal(data, known_head)
    return JournalScan([], found.head, found.condition, found.reason)
