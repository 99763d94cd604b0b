"""Reading threads: changes nothing, needs no lock."""

from __future__ import annotations

import os

from msgspec import Struct

from treadle.errors import DamagedJournalError, UnknownThreadError
from treadle.store.folders import JOURNAL, SNAPSHOT, Folders
from treadle.store.journal import read_journal, stands_on
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.facts import Base, ThreadCreated
from treadle.thread.fold import ThreadFold
from treadle.thread.record import Condition, Head, Record, Scan
from treadle.thread.snapshot import Snapshot, decode_snapshot, restore_fold


class LoadedThread(Struct, frozen=True):
    """A thread as read from disk.

    `problem` is empty, or says why the thread can be shown but not continued.
    `snapshot_head` is what the snapshot in use stands on; zero if none was used.
    """

    fold: ThreadFold
    head: Head
    condition: Condition
    problem: str = ""
    snapshot_head: Head = Head()
    snapshot_size: int = 0


class Reader:
    """Reads the threads of a store.

    Args:
        folders: where they are.
    """

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._disk = folders.disk

    def load(self, thread_id: str, version: int | None = None) -> LoadedThread:
        """The thread as it stands, or as it stood at `version`.

        Raises:
            UnknownThreadError: there is no such thread, or it has not got this far.
            UnknownEntryError: a newer Treadle, or another machine, made it.
            DamagedJournalError: not even its first record is intact, or what it was forked from is
                not what it was.
            DiskError: the disk refused.
        """
        path, in_trash = self._folders.find(thread_id)
        snapshot = None if version is not None else self._snapshot(thread_id, in_trash=in_trash)
        if snapshot is not None:
            loaded = self._load_after(path, *snapshot)
            if loaded is not None:
                return loaded
        found = read_journal(self._disk, path, Head())
        records = found.records if found is not None else []
        if found is not None and not records and found.condition is Condition.CORRUPT:
            raise DamagedJournalError(path, 0, found.reason)
        if found is None or not records:
            raise UnknownThreadError(
                f"thread {thread_id} holds no intact record: it was being made when its process "
                "died, or its journal was destroyed",
                hint=f"the file is {path}",
            )
        if version is not None and not 1 <= version <= records[-1].seq:
            raise UnknownThreadError(
                f"thread {thread_id} has versions 1 to {records[-1].seq}, not {version}"
            )
        fold, problem = self.fold_of(records[:version])
        if fold.header.thread != thread_id:
            problem = f"{path} holds the thread {fold.header.thread!r}; shown, not continued"
        return LoadedThread(fold, found.head, found.condition, problem or _problem(found))

    def fold_of(self, records: list[Record]) -> tuple[ThreadFold, str]:
        """The fold of a journal's records from the first, and why it stopped early, if it did.

        Raises:
            UnknownEntryError: not even the header can be read by this version.
            DamagedJournalError: what it was forked from is not what it was.
        """
        fold = self.beginning(records[0])
        return fold, apply_records(fold, records)

    def beginning(self, first: Record) -> ThreadFold:
        """The fold before any record of a thread: empty, or the base's for a fork.

        Raises: as `fold_of`.
        """
        headers = [header_of(first)]
        parts: list[list[Record]] = []
        while (base := headers[-1].base) is not None:
            records = self._records_of(base, {header.thread for header in headers})
            parts.append(records)
            headers.append(header_of(records[0]))
        fold = ThreadFold(headers.pop())
        while parts:
            problem = apply_records(fold, parts.pop())
            if problem:
                raise UnknownEntryError(f"thread {fold.header.thread}: {problem}")
            fold = fold.branch(headers.pop())
        return fold

    def _records_of(self, base: Base, seen: set[str]) -> list[Record]:
        """The base's records up to where the fork begins.

        Raises:
            DamagedJournalError: they are not there, or not those that the fork knew.
        """
        try:
            path, _ = self._folders.find(base.thread)
        except UnknownThreadError as error:
            why = f"what it was forked from is gone: {base.thread} at version {base.version}"
            raise DamagedJournalError(base.thread, 0, why) from error
        found = read_journal(self._disk, path, Head())
        records = [] if found is None else found.records[: base.version]
        if base.thread in seen or len(records) < base.version or base.version < 1:
            why = f"a fork goes on from its version {base.version}, which is not there"
            raise DamagedJournalError(path, 0 if found is None else found.head.size, why)
        if records[-1].hash != base.hash:
            why = f"a fork knew its version {base.version} with other contents"
            raise DamagedJournalError(path, 0, why)
        return records

    def _load_after(self, path: str, snapshot: Snapshot, size: int) -> LoadedThread | None:
        """From the snapshot and the journal's tail; `None` if the snapshot cannot be used."""
        fold = restore_fold(snapshot)
        if fold is None or os.path.basename(path) != fold.header.thread + JOURNAL:
            return None
        if not stands_on(self._disk, path, snapshot.head):
            return self._judge_orphan(path, fold, snapshot)
        if snapshot.turn_usage is None and not fold.is_idle:
            return None  # an older program's: what this turn used is in the journal alone
        found = read_journal(self._disk, path, snapshot.head)
        if found is None:
            return None
        problem = apply_records(fold, found.records) or _problem(found)
        return LoadedThread(fold, found.head, found.condition, problem, snapshot.head, size)

    def _judge_orphan(self, path: str, fold: ThreadFold, snapshot: Snapshot) -> LoadedThread | None:
        """A snapshot whose record is not in the journal.

        A snapshot is written only after its records are durable, so one that knows *more* than the
        journal proves that acknowledged records are gone: it is shown, and nothing may be written.
        One that stands beside the chain is of no use: the journal decides.
        """
        found = read_journal(self._disk, path, Head())
        known = found.head.seq if found is not None else 0
        if known >= snapshot.head.seq:
            return None
        problem = (
            f"the snapshot holds version {snapshot.head.seq}, but the journal "
            + (f"ends at {known}" if found is not None else "is missing")
            + ": records were lost; shown as the snapshot has it"
        )
        head = found.head if found is not None else Head()
        return LoadedThread(fold, head, Condition.CORRUPT, problem)

    def _snapshot(self, thread_id: str, *, in_trash: bool) -> tuple[Snapshot, int] | None:
        """The snapshot and its size; `None` if it is missing or spoilt: the journal suffices."""
        try:
            data = self._disk.read(self._folders.path(thread_id, SNAPSHOT, in_trash=in_trash))
        except OSError:
            return None
        snapshot = decode_snapshot(data)
        return None if snapshot is None else (snapshot, len(data))

    def scan(self, thread_id: str) -> Scan:
        """All intact records of a thread's journal, from the first, and what follows them."""
        path, _ = self._folders.find(thread_id)
        found = read_journal(self._disk, path, Head())
        if found is None:
            raise UnknownThreadError(f"the journal of thread {thread_id} is missing")
        return found

    def snapshot_of(self, thread_id: str) -> tuple[bool, Snapshot | None]:
        """Whether there is a snapshot file, and the snapshot if it is intact."""
        path, in_trash = self._folders.find(thread_id)
        present = thread_id + SNAPSHOT in self._disk.list(os.path.dirname(path))
        found = self._snapshot(thread_id, in_trash=in_trash) if present else None
        return present, None if found is None else found[0]


def header_of(first: Record) -> ThreadCreated:
    """What record 1 says.

    Raises:
        UnknownEntryError: it creates no thread, or this version cannot read it.
    """
    header = decode_entry(first.event)
    if not isinstance(header, ThreadCreated):
        raise UnknownEntryError("record 1 does not create a thread")
    return header


def apply_records(fold: ThreadFold, records: list[Record]) -> str:
    """Apply them; returns why that stopped early, if it did."""
    for record in records:
        try:
            fold.apply(record.seq, record.at, decode_entry(record.event))
        except UnknownEntryError as error:
            return (
                f"record {record.seq} was written by a newer Treadle ({error.message}); shown up "
                "to there, not continued"
            )
    return ""


def _problem(found: Scan) -> str:
    return found.reason if found.condition is Condition.CORRUPT else ""
