"""The threads of this machine: found, created, opened for writing, read, checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from treadle.errors import (
    AmbiguousThreadError,
    DamagedJournalError,
    ReadOnlyThreadError,
    ThreadBusyError,
    TreadleError,
    UnknownThreadError,
)
from treadle.store.disk import Disk, PosixDisk
from treadle.store.journal import Journal, cut_torn_tail, read_journal, settle, stands_on, told_as
from treadle.store.places import Places
from treadle.store.writer import ThreadWriter
from treadle.thread.codec import Entry, UnknownEntryError, decode_entry, encode_entry
from treadle.thread.facts import FORMAT_VERSION, ThreadCreated
from treadle.thread.fold import CHAT, ThreadFold
from treadle.thread.ids import PREFIX, is_thread_id
from treadle.thread.model import ThreadSummary
from treadle.thread.record import Condition, Head, Record, Scan
from treadle.thread.snapshot import Snapshot, decode_snapshot, restore_fold

_JOURNAL: Final = ".jsonl"


def utc_now() -> str:
    """The time in the form records hold: UTC, six digits, `Z`."""
    return datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


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


class LocalStore:
    """The threads under one data folder.

    Args:
        places: where the folders are.
        disk: how files are reached.
        now: the clock; gives UTC strings as `utc_now` does.
        new_id: makes thread ids.
    """

    def __init__(
        self,
        places: Places,
        *,
        disk: Disk | None = None,
        now: Callable[[], str] = utc_now,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self.places = places
        self._disk = disk or PosixDisk()
        self._now = now
        self._new_id = new_id or _new_thread_id
        self._threads = os.path.join(places.data, "threads")
        self._quarantine = os.path.join(places.data, "quarantine")

    # ---- writing -----------------------------------------------------------------------------

    def now(self) -> str:
        """The clock, in the form of records."""
        return self._now()

    def create(
        self,
        creator: str,
        *,
        workspace: str | None = None,
        cwd: str | None = None,
        is_private: bool = False,
        machine: str = CHAT,
        parent: tuple[str, str, int] | None = None,
        first: Sequence[Entry] = (),
        redact: Callable[[str], str] | None = None,
    ) -> ThreadWriter:
        """A new thread, durable when this returns.

        Args:
            creator: the program and its version.
            workspace: the folder the agent works in.
            cwd: the folder it was started in.
            is_private: whether the thread may never leave this machine.
            machine: which one folds it.
            parent: of a sub-agent's thread: the thread and the call it works for, and how deep.
            first: what is recorded in the same write, so that no thread is without it.
            redact: replaces known secrets in it.

        Raises:
            DiskError: nothing was acknowledged.
        """
        thread_id = self._new_id()
        of, call, depth = parent or (None, None, 0)
        header = ThreadCreated(
            FORMAT_VERSION,
            thread_id,
            machine,
            creator,
            workspace,
            cwd,
            is_private,
            of,
            call,
            depth,
        )
        with told_as("make", self._threads):
            self._disk.make_folder(self._threads)
        lock = self._lock(thread_id)
        entries = [encode_entry(header), *(encode_entry(entry, redact) for entry in first)]
        at = self._now()
        try:
            path = self._path(thread_id, _JOURNAL)
            journal = Journal.create(self._disk, path, at, [data for _, data in entries])
        except BaseException:
            self._disk.close(lock)
            raise
        fold = ThreadFold(header)
        for seq, (entry, _) in enumerate(entries, 1):
            fold.apply(seq, journal.head.at, entry)
        return self._writer(fold, journal, lock)

    def open(self, thread_id: str) -> ThreadWriter:
        """An existing thread, for its one writer. A torn end is quarantined and cut.

        Raises:
            UnknownThreadError: there is none; nothing was made.
            ThreadBusyError: another process writes it.
            ReadOnlyThreadError: it can be shown, not continued.
            DamagedJournalError: acknowledged records are damaged; nothing was touched.
            DiskError: the disk refused.
        """
        path = self._existing(thread_id)
        lock = self._lock(thread_id)
        try:
            settle(self._disk, path)
            self._refuse_damage(path)
            loaded = self.load(thread_id)
            if loaded.condition is Condition.CORRUPT:
                raise DamagedJournalError(path, loaded.head.size, loaded.problem)
            if loaded.problem:
                raise ReadOnlyThreadError(loaded.problem)
            note = ""
            if loaded.condition is Condition.TORN:
                scan = Scan([], loaded.head, loaded.condition)
                kept = cut_torn_tail(self._disk, path, scan, self._quarantine)
                note = f"an unfinished write was cut off and kept in {kept}"
            self._remove_leftovers(thread_id)
            journal = Journal.open(self._disk, path, loaded.head)
        except BaseException:
            self._disk.close(lock)
            raise
        writer = self._writer(loaded.fold, journal, lock)
        writer.note = note
        writer.snapshot_head = loaded.snapshot_head
        writer.snapshot_size = loaded.snapshot_size
        return writer

    def _refuse_damage(self, path: str) -> None:
        """Nothing is written after damage, even where a snapshot covers it.

        Otherwise what comes after it would hang on the snapshot alone, which is only a cache.
        """
        found = read_journal(self._disk, path, Head())
        if found is not None and found.condition is Condition.CORRUPT:
            raise DamagedJournalError(path, found.head.size, found.reason)

    def _writer(self, fold: ThreadFold, journal: Journal, lock: int) -> ThreadWriter:
        path = self._path(fold.header.thread, ".json")
        return ThreadWriter(self._disk, self._now, fold, journal, lock, path)

    def _lock(self, thread_id: str) -> int:
        path = self._path(thread_id, ".lock")
        with told_as("lock", path):
            lock = self._disk.lock(path)
        if lock is None:
            raise ThreadBusyError(
                f"thread {thread_id} is open in another process",
                hint="wait until it ends, or start a new thread",
            )
        return lock

    def _remove_leftovers(self, thread_id: str) -> None:
        """Temporary files of snapshots that were being written when a process died."""
        folder = os.path.join(self._threads, "tmp")
        with told_as("clean", folder):
            for name in self._disk.list(folder):
                if name.startswith(thread_id):
                    self._disk.unlink(os.path.join(folder, name))

    # ---- reading -----------------------------------------------------------------------------

    def load(self, thread_id: str, version: int | None = None) -> LoadedThread:
        """The thread as it stands, or as it stood at `version`. Changes nothing, needs no lock.

        Raises:
            UnknownThreadError: there is no such thread, or it has not got this far.
            UnknownEntryError: a newer Treadle, or another machine, made it.
            DamagedJournalError: not even its first record is intact.
            DiskError: the disk refused.
        """
        path = self._existing(thread_id)
        snapshot = self._snapshot(thread_id) if version is None else None
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
        fold, problem = fold_records(records[:version])
        if fold.header.thread != thread_id:
            problem = f"{path} holds the thread {fold.header.thread!r}; shown, not continued"
        return LoadedThread(
            fold, found.head, found.condition, problem or self._problem(path, found)
        )

    def _load_after(self, path: str, snapshot: Snapshot, size: int) -> LoadedThread | None:
        """From the snapshot and the journal's tail; `None` if the snapshot cannot be used."""
        fold = restore_fold(snapshot)
        if fold is None or os.path.basename(path) != fold.header.thread + _JOURNAL:
            return None
        if not stands_on(self._disk, path, snapshot.head):
            return self._judge_orphan(path, fold, snapshot)
        if snapshot.turn_usage is None and not fold.is_idle:
            return None  # an older program's: what this turn used is in the journal alone
        found = read_journal(self._disk, path, snapshot.head)
        if found is None:
            return None
        problem = _apply(fold, found.records) or self._problem(path, found)
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

    def _problem(self, path: str, found: Scan) -> str:
        return found.reason if found.condition is Condition.CORRUPT else ""

    def _snapshot(self, thread_id: str) -> tuple[Snapshot, int] | None:
        """The snapshot and its size; `None` if it is missing or spoilt: the journal suffices."""
        try:
            data = self._disk.read(self._path(thread_id, ".json"))
        except OSError:
            return None
        snapshot = decode_snapshot(data)
        return None if snapshot is None else (snapshot, len(data))

    def scan(self, thread_id: str) -> Scan:
        """All intact records of a thread's journal, from the first, and what follows them."""
        found = read_journal(self._disk, self._existing(thread_id), Head())
        if found is None:
            raise UnknownThreadError(f"the journal of thread {thread_id} is missing")
        return found

    def snapshot_of(self, thread_id: str) -> tuple[bool, Snapshot | None]:
        """Whether there is a snapshot file, and the snapshot if it is intact."""
        present = f"{thread_id}.json" in self._disk.list(self._threads)
        found = self._snapshot(thread_id) if present else None
        return present, None if found is None else found[0]

    def ids(self) -> list[str]:
        """All threads, newest first (ids begin with their time)."""
        with told_as("list", self._threads):
            names = self._disk.list(self._threads)
        found = {name.partition(".")[0] for name in names if name.endswith((_JOURNAL, ".json"))}
        return sorted(filter(is_thread_id, found), reverse=True)

    def list(self) -> list[ThreadSummary]:
        """A line for each thread, last changed first; damaged ones say so and never stop it."""
        lines = [self._summary(thread_id) for thread_id in self.ids()]
        return sorted(
            filter(None, lines), key=lambda line: (line.updated_at, line.id), reverse=True
        )

    def _summary(self, thread_id: str) -> ThreadSummary | None:
        try:
            loaded = self.load(thread_id)
        except UnknownThreadError:
            return None
        except TreadleError as error:
            return ThreadSummary(thread_id, 0, "", "", None, "unreadable", 0, problem=error.message)
        fold = loaded.fold
        return ThreadSummary(
            id=thread_id,
            version=fold.version,
            created_at=fold.created_at,
            updated_at=fold.updated_at,
            title=fold.title(),
            state=fold.state_kind,
            message_count=len(fold.conversation),
            workspace_root=fold.header.workspace,
            git_branch=fold.git.git_branch,
            model=fold.machine.config.model_name or None,
            is_private=fold.header.is_private,
            problem=loaded.problem,
            machine=fold.header.machine,
            questions=len(fold.machine.questions),
            parent=fold.header.parent,
        )

    def resolve(self, text: str) -> str:
        """The one thread whose id is, or begins with, `text` (`T-` may be left out).

        Raises:
            UnknownThreadError: none does.
            AmbiguousThreadError: several do.
        """
        prefix = text if text.startswith(PREFIX) else PREFIX + text
        found = [thread_id for thread_id in self.ids() if thread_id.startswith(prefix)]
        if len(found) == 1:
            return found[0]
        if found:
            raise AmbiguousThreadError(text, found)
        raise UnknownThreadError(
            f"there is no thread {text!r}", hint="`treadle list` shows those there are"
        )

    def latest(self, workspace: str, machine: str | None = None) -> str | None:
        """The thread of this workspace that changed last, if there is one.

        Args:
            workspace: the folder.
            machine: which machine it must be of; `None` for any.
        """
        for line in self.list():
            if line.workspace_root == workspace and machine in (None, line.machine):
                return line.id
        return None

    def _path(self, thread_id: str, suffix: str) -> str:
        assert is_thread_id(thread_id), thread_id
        return os.path.join(self._threads, thread_id + suffix)

    def _existing(self, thread_id: str) -> str:
        if not is_thread_id(thread_id):
            raise UnknownThreadError(f"{thread_id!r} is no thread id")
        path = self._path(thread_id, _JOURNAL)
        for suffix in (_JOURNAL, ".json"):
            with told_as("read", path):
                try:
                    self._disk.read_range(self._path(thread_id, suffix), 0, 1)
                except FileNotFoundError:
                    continue
            return path
        raise UnknownThreadError(f"there is no thread {thread_id}")


def fold_records(records: list[Record]) -> tuple[ThreadFold, str]:
    """The fold of a journal's records from the first, and why it stopped early, if it did.

    Raises:
        UnknownEntryError: not even the header can be read by this version.
    """
    header = decode_entry(records[0].event)
    if not isinstance(header, ThreadCreated):
        raise UnknownEntryError("record 1 does not create a thread")
    fold = ThreadFold(header)
    return fold, _apply(fold, records)


def _apply(fold: ThreadFold, records: list[Record]) -> str:
    for record in records:
        try:
            fold.apply(record.seq, record.at, decode_entry(record.event))
        except UnknownEntryError as error:
            return (
                f"record {record.seq} was written by a newer Treadle ({error.message}); shown up "
                "to there, not continued"
            )
    return ""


def _new_thread_id() -> str:
    import uuid_utils

    return PREFIX + str(uuid_utils.uuid7())
