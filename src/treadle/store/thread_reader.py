"""Reading threads: changes nothing, needs no lock."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Protocol

from msgspec import Struct

from treadle.errors import DamagedJournalError, TreadleError, UnknownThreadError
from treadle.store.journal import JournalReader, read_journal
from treadle.thread.codec import Event, UnknownEntryError, decode_entry
from treadle.thread.facts import Base, Recovered, ThreadCreated
from treadle.thread.fold import ThreadFold
from treadle.thread.history import Rest, list_rests
from treadle.thread.record import Head, JournalCondition, JournalScan, Record
from treadle.thread.snapshot import Snapshot, decode_snapshot, restore_fold


class JournalSource(Protocol):
    """Where journals are found and read; what `locate` gives names one for the others."""

    def locate(self, thread_id: str) -> str:
        """Where the journal of a thread is; it may be missing. Raises `UnknownThreadError`."""
        ...

    def locate_base(self, base: Base) -> str:
        """Where what a fork goes on from is. Raises `UnknownThreadError`."""
        ...

    def find_merged_base(self, base: Base) -> list[Record] | None:
        """What a fork goes on from, if only a merge in the base has it."""
        ...

    def pieces(self, path: str, offset: int = 0) -> Generator[bytes, None, None]:
        """The bytes of a journal from `offset` on; `FileNotFoundError` if it is missing."""
        ...

    def has_head(self, path: str, head: Head) -> bool:
        """Whether a journal holds the record `head` names, where it says it ends."""
        ...

    def read_snapshot(self, path: str) -> bytes:
        """What is kept as the snapshot beside a journal; empty if nothing is."""
        ...


class LoadedThread(Struct, frozen=True):
    """A thread as read from disk.

    `problem` is empty, or says why the thread can be shown but not continued.
    `snapshot_head` is what the snapshot in use stands on; zero if none was used.
    """

    fold: ThreadFold
    head: Head
    condition: JournalCondition
    problem: str = ""
    snapshot_head: Head = Head()
    snapshot_size: int = 0


class ThreadReader:
    """Reads the threads of a store.

    Args:
        source: where they are.
    """

    def __init__(self, source: JournalSource) -> None:
        self._source = source

    def load(
        self,
        thread_id: str,
        version: int | None = None,
        *,
        is_whole: bool = False,
        kept: list[Record] | None = None,
    ) -> LoadedThread:
        """The thread as it stands, or as it stood at `version`.

        Args:
            thread_id: the thread.
            version: which one; by default the newest.
            is_whole: whether to judge the records that a snapshot stands for, too.
            kept: gets all records, where there is no snapshot.

        Raises:
            UnknownThreadError: there is no such thread, or it has not got this far.
            UnknownEntryError: a newer Treadle, or another machine, made it.
            DamagedJournalError: not even its first record is intact, or what it was forked from is
                not what it was.
            DiskError: the disk refused.
        """
        path = self._source.locate(thread_id)
        snapshot = self._read_snapshot(path) if version is None else None
        if snapshot is not None and snapshot[0].header.thread == thread_id:
            loaded = self._load_from_snapshot(path, *snapshot, is_whole=is_whole)
            if loaded is not None:
                return loaded
        reading = JournalReader(self._source, path)
        fold, records = self._read_from_start(thread_id, reading)
        if kept is not None:
            records = _keep_records(records, kept)
        problem = apply_records(fold, records, through=version)
        found = reading.found
        if version is not None and not 1 <= version <= found.head.seq:
            raise UnknownThreadError(
                f"thread {thread_id} has versions 1 to {found.head.seq}, not {version}"
            )
        if fold.header.thread != thread_id:
            problem = f"{path} holds the thread {fold.header.thread!r}; shown, not continued"
        return LoadedThread(fold, found.head, found.condition, problem or _describe_damage(found))

    def read_from_start(self, thread_id: str) -> tuple[ThreadFold, Iterator[Record]]:
        """The fold before any of the thread's own records, and these, read one after the other.

        Raises: as `load`.
        """
        path = self._source.locate(thread_id)
        return self._read_from_start(thread_id, JournalReader(self._source, path))

    def _read_from_start(
        self, thread_id: str, reading: JournalReader
    ) -> tuple[ThreadFold, Iterator[Record]]:
        records = iter(reading)
        first = next(records, None)
        if first is None:
            raise _make_empty_error(reading.path, thread_id, reading.found)
        return self.make_initial_fold(first), chain((first,), records)

    def fold_records(self, records: list[Record]) -> tuple[ThreadFold, str]:
        """The fold of a journal's records from the first, and why it stopped early, if it did.

        Raises:
            UnknownEntryError: not even the header can be read by this version.
            DamagedJournalError: what it was forked from is not what it was.
        """
        fold = self.make_initial_fold(records[0])
        return fold, apply_records(fold, records)

    def make_initial_fold(self, first: Record) -> ThreadFold:
        """The fold before any record of a thread: empty, or the base's for a fork.

        Raises: as `fold_of`.
        """
        try:
            return self._build_initial_fold(first, looks_in_merges=False)
        except DamagedJournalError:
            # Seldom: a base that another branch has taken the place of. It is not looked for
            # before it is missed, so that no other fork reads its base twice.
            return self._build_initial_fold(first, looks_in_merges=True)

    def _build_initial_fold(self, first: Record, *, looks_in_merges: bool) -> ThreadFold:
        headers = [decode_header(first)]
        parts: list[Iterator[Record]] = []
        while (base := headers[-1].base) is not None:
            seen = {header.thread for header in headers}
            branch = self._source.find_merged_base(base) if looks_in_merges else None
            records = (
                self._read_base_records(base, seen, headers[0].thread)
                if branch is None or base.thread in seen
                else iter(branch)
            )
            of_base = next(records)
            parts.append(chain((of_base,), records))
            headers.append(decode_header(of_base))
        fold = ThreadFold(headers.pop())
        while parts:
            problem = apply_records(fold, parts.pop())
            if problem:
                raise UnknownEntryError(f"thread {fold.header.thread}: {problem}")
            fold = fold.make_fork(headers.pop())
        return fold

    def _read_base_records(self, base: Base, seen: set[str], fork: str) -> Iterator[Record]:
        """The base's records up to where the fork begins, read one after the other; at least one.

        Args:
            base: where that is.
            seen: the threads that lead here.
            fork: the thread that is wanted.

        Raises:
            DamagedJournalError: they are not there, or not those that the fork knew.
        """
        try:
            path = self._source.locate_base(base)
            reading = JournalReader(self._source, path)
            last: Record | None = None
            if base.thread not in seen and base.version >= 1:
                for last in islice(reading, min(base.version, sys.maxsize)):
                    yield last
        except UnknownThreadError as error:
            why = f"what it was forked from is gone: {base.thread} at version {base.version}"
            raise _make_base_error(fork, base.thread, 0, why) from error
        if last is None or last.seq < base.version:
            why = f"a fork goes on from its version {base.version}, which is not there"
            raise _make_base_error(fork, path, reading.found.head.size, why)
        if not last.is_at(base.version, base.hash):
            why = f"a fork knew its version {base.version} with other contents"
            raise _make_base_error(fork, path, 0, why)

    def _load_from_snapshot(
        self, path: str, snapshot: Snapshot, size: int, *, is_whole: bool
    ) -> LoadedThread | None:
        """From the snapshot and the journal's tail; `None` if the snapshot cannot be used."""
        fold = restore_fold(snapshot)
        if fold is None:
            return None
        if not self._source.has_head(path, snapshot.head):
            return self._load_from_orphaned_snapshot(path, fold, snapshot)
        if snapshot.turn_usage is None and not fold.is_idle:
            return None  # an older program's: what this turn used is in the journal alone
        reading = JournalReader(self._source, path, Head() if is_whole else snapshot.head)
        problem = apply_records(fold, reading, after=snapshot.head.seq)
        found = reading.found
        if found.head.seq < snapshot.head.seq:
            if reading.is_missing:
                return None
            why = found.reason or f"record {found.head.seq + 1}, which the snapshot holds, is gone"
            found = JournalScan([], found.head, JournalCondition.CORRUPT, why)
        problem = problem or _describe_damage(found)
        return LoadedThread(fold, found.head, found.condition, problem, snapshot.head, size)

    def _load_from_orphaned_snapshot(
        self, path: str, fold: ThreadFold, snapshot: Snapshot
    ) -> LoadedThread | None:
        """A snapshot whose record is not in the journal.

        A snapshot is written only after its records are durable, so one that knows *more* than the
        journal proves that acknowledged records are gone: it is shown, and nothing may be written.
        One that stands beside the chain is of no use: the journal decides.
        """
        found = JournalReader(self._source, path).scan()
        known = found.head.seq if found is not None else 0
        if known >= snapshot.head.seq:
            return None
        problem = (
            f"the snapshot holds version {snapshot.head.seq}, but the journal "
            + (f"ends at {known}" if found is not None else "is missing")
            + ": records were lost; shown as the snapshot has it"
        )
        head = found.head if found is not None else Head()
        return LoadedThread(fold, head, JournalCondition.CORRUPT, problem)

    def _read_snapshot(self, path: str) -> tuple[Snapshot, int] | None:
        """The snapshot and its size; `None` if it is missing or spoilt: the journal suffices."""
        data = self._source.read_snapshot(path)
        snapshot = decode_snapshot(data) if data else None
        return None if snapshot is None else (snapshot, len(data))

    def list_rests(self, thread_id: str) -> list[Rest]:
        """The places in a thread's own records where nothing was open. Raises as `load`."""
        fold, records = self.read_from_start(thread_id)
        entries = ((one.seq, one.at, decode_entry(one.event)) for one in records)
        return list(list_rests(fold, entries))

    def scan(self, thread_id: str) -> JournalScan:
        """All intact records of a thread's journal, from the first, and what follows them."""
        found = read_journal(self._source, self._source.locate(thread_id), Head())
        if found is None:
            raise UnknownThreadError(f"the journal of thread {thread_id} is missing")
        return found

    def read_snapshot(self, thread_id: str) -> Snapshot | None:
        """The snapshot of a thread, if there is an intact one."""
        found = self._read_snapshot(self._source.locate(thread_id))
        return None if found is None else found[0]


def find_stop_reason(records: Sequence[Record]) -> str:
    """Why a program left the work that is unfinished now; empty if its process died."""
    for record in reversed(records):
        entry = decode_entry(record.event)
        if isinstance(entry, Recovered):
            return entry.stopped
        if isinstance(entry, Event):
            break
    return ""


def _keep_records(records: Iterable[Record], kept: list[Record]) -> Iterator[Record]:
    for record in records:
        kept.append(record)
        yield record


def decode_header(first: Record) -> ThreadCreated:
    """What record 1 says.

    Raises:
        UnknownEntryError: it creates no thread, or this version cannot read it.
    """
    header = decode_entry(first.event)
    if not isinstance(header, ThreadCreated):
        raise UnknownEntryError("record 1 does not create a thread")
    return header


def apply_records(
    fold: ThreadFold, records: Iterable[Record], *, after: int = 0, through: int | None = None
) -> str:
    """Take all of them and apply those that can be; returns why that stopped early, if it did.

    Args:
        fold: where they are applied.
        records: in order.
        after: up to this one they are passed over.
        through: the last one to apply; by default all.
    """
    problem = ""
    for record in records:
        if problem or record.seq <= after or (through is not None and record.seq > through):
            continue
        try:
            fold.apply(record.seq, record.at, decode_entry(record.event))
        except UnknownEntryError as error:
            problem = (
                f"record {record.seq} was written by a newer Treadle ({error.message}); shown up "
                "to there, not continued"
            )
    return problem


def _make_empty_error(path: str, thread_id: str, found: JournalScan) -> TreadleError:
    if found.condition is JournalCondition.CORRUPT:
        return DamagedJournalError(path, 0, found.reason)
    return UnknownThreadError(
        f"thread {thread_id} holds no intact record: it was being made when its process died, or "
        "its journal was destroyed",
        hint=f"the file is {path}",
    )


def _make_base_error(fork: str, path: str, offset: int, reason: str) -> DamagedJournalError:
    error = DamagedJournalError(path, offset, reason)
    error.hint = f"`treadle verify {fork} --salvage` writes the fork's own records to a file"
    return error


def _describe_damage(found: JournalScan) -> str:
    return found.reason if found.condition is JournalCondition.CORRUPT else ""
