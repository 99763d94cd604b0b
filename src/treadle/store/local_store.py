"""The threads of this machine: found, created, forked, taken in, opened for writing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, Unpack

from msgspec.structs import replace

from treadle.core.messages import BlobRef
from treadle.errors import (
    DamagedJournalError,
    ReadOnlyThreadError,
    StorageBusyError,
    UnknownThreadError,
    UsageError,
)
from treadle.store.adoption_marks import AdoptionMarks, Loan
from treadle.store.blobs import Blobs
from treadle.store.disk import Disk, PosixDisk
from treadle.store.file_replacement import drafts_folder, remove_drafts, replace_file
from treadle.store.folder_journals import HeldFile, begin_journal, hold_journal, remove_journal
from treadle.store.folder_source import FolderSource
from treadle.store.folders import JOURNAL_SUFFIX, LOCK_SUFFIX, SNAPSHOT_SUFFIX, StoreFolders
from treadle.store.fork_bases import check_bases, is_base_unchanged
from treadle.store.id_beginnings import make_thread_id, resolve_id
from treadle.store.journal import Journal, convert_os_errors, cut_torn_tail, sync_journal
from treadle.store.paths import Places, find_places
from treadle.store.summaries import ListFilters, list_summaries, summarize
from treadle.store.thread_follower import ThreadFollower
from treadle.store.thread_keys import ThreadKeys
from treadle.store.thread_lock import Holder, acquire_lock, find_holder, make_own_holder
from treadle.store.thread_outputs import ThreadOutputs
from treadle.store.thread_reader import (
    LoadedThread,
    ThreadReader,
    decode_header,
    find_stop_reason,
)
from treadle.store.thread_writer import ThreadWriter
from treadle.store.writer_group import GroupMember, WriterGroup
from treadle.thread.codec import Entry, encode_entry
from treadle.thread.document import ThreadSummary
from treadle.thread.facts import FORMAT_VERSION, Base, ThreadCreated
from treadle.thread.fold import CHAT, ThreadFold
from treadle.thread.history import Rest
from treadle.thread.ids import is_thread_id
from treadle.thread.record import JournalCondition, JournalScan, scan_journal
from treadle.thread.snapshot import Snapshot

FORK_TRIES: Final = 5
"""So often a fork is begun anew because the other thread was scrubbed meanwhile."""


def utc_now() -> str:
    """The time in the form records hold: UTC, six digits, `Z`."""
    return datetime.now(UTC).isoformat(timespec="microseconds")[:-6] + "Z"


class LocalStore:
    """The threads under one data folder.

    Args:
        places: the folders; or one that has all of them, as `TREADLE_HOME` does. `UsageError` else.
        disk: how files are reached.
        now: the clock; gives UTC strings as `utc_now` does.
        new_id: makes thread ids.
        program: what people know this process by, told to who finds a thread open here.
    """

    def __init__(
        self,
        places: Places | str | os.PathLike[str],
        *,
        disk: Disk | None = None,
        now: Callable[[], str] = utc_now,
        new_id: Callable[[], str] | None = None,
        program: str = "",
    ) -> None:
        self.places = places = find_places(places)
        self._disk = disk or PosixDisk()
        self._now = now
        self._new_id = new_id or make_thread_id
        self._program = program
        self.folders = StoreFolders(self._disk, places)
        self.adopted = AdoptionMarks(self.folders)
        self.keys = ThreadKeys(self.folders)
        self._reader = ThreadReader(FolderSource(self.folders))
        self._blobs = Blobs(self.folders)
        self._group = WriterGroup(self._disk)

    @classmethod
    def in_memory(cls, *, now: Callable[[], str] = utc_now) -> LocalStore:
        """A store of its own whose threads end with the process, for tests and the like."""
        from treadle.store.memory_disk import MemoryDisk

        return cls(Places.below("/memory"), disk=MemoryDisk(), now=now)

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
        of, call, depth = parent or (None, None, 0)
        header = ThreadCreated(
            FORMAT_VERSION,
            self._new_id(),
            machine,
            creator,
            workspace,
            cwd,
            is_private,
            of,
            call,
            depth,
        )
        return self._create_thread(ThreadFold(header), first, redact)

    def open_by_key(
        self,
        key: str,
        creator: str,
        *,
        machine: str = CHAT,
        first: Sequence[Entry] = (),
        redact: Callable[[str], str] | None = None,
    ) -> ThreadWriter:
        """The thread of a program's own name, made if there is none.

        A name has 1 to `KEY_LENGTH_MAX` characters, and is recorded in the thread that is made of
        the rest, as `create` makes one.

        Raises: as `open` and `create`, and `UsageError` for what cannot be a name.
        """
        if (found := self.keys.find(key)) is not None:
            return self.open(found)
        header = ThreadCreated(FORMAT_VERSION, self._new_id(), machine, creator, key=key)
        writer = self._create_thread(ThreadFold(header), first, redact)
        found = ""
        try:
            found = self.keys.publish(key, writer.thread_id)
        finally:
            if found != writer.thread_id:  # somebody else began it at this moment
                remove_journal(self.folders, writer.thread_id)
                writer.close(wants_snapshot=False)
        return writer if found == writer.thread_id else self.open(found)

    def fork(
        self,
        thread_id: str,
        version: int | None = None,
        *,
        creator: str,
        first: Sequence[Entry] = (),
        redact: Callable[[str], str] | None = None,
    ) -> ThreadWriter:
        """A new thread that goes on from a version of another one, which stays as it is.

        The history is not copied: the new thread names it by the id of its last record. The other
        thread need not be free, nor intact after that version.

        Args:
            thread_id: the other thread.
            version: where to go on from; by default its newest intact one.
            creator: the program and its version.
            first: what is recorded in the same write.
            redact: replaces known secrets in it.

        Raises:
            UnknownThreadError: there is no such thread, or it has not got this far.
            ReadOnlyThreadError: this version of Treadle cannot fold it up to there.
            DamagedJournalError: it is damaged before that version.
            StorageBusyError: somebody removes or scrubs it meanwhile.
            DiskError: nothing was acknowledged.
        """
        for _ in range(FORK_TRIES):
            if (made := self._try_fork(thread_id, version, creator, first, redact)) is not None:
                return made
        raise StorageBusyError(
            f"thread {thread_id} was rewritten again and again while it was being forked",
            hint="no fork was made; try again",
        )

    def _try_fork(
        self,
        thread_id: str,
        version: int | None,
        creator: str,
        first: Sequence[Entry],
        redact: Callable[[str], str] | None,
    ) -> ThreadWriter | None:
        """`fork`; `None` if the other thread was rewritten meanwhile, and nothing is left of it."""
        path, in_trash = self.folders.find(thread_id)
        if in_trash:
            raise _make_trashed_error(thread_id)
        sync_journal(self._disk, path)
        records = self.scan(thread_id).records
        # What another process has just written may not be durable yet.
        sync_journal(self._disk, path)
        last = len(records) if version is None else version
        if not 1 <= last <= len(records):
            raise UnknownThreadError(
                f"thread {thread_id} has versions 1 to {len(records)}, not {last}"
            )
        fold, problem = self._reader.fold_records(records[:last])
        if problem:
            raise ReadOnlyThreadError(problem)
        base = Base(thread_id, last, records[last - 1].id)
        header = replace(
            fold.header,
            format=FORMAT_VERSION,
            thread=self._new_id(),
            creator=creator,
            parent=None,
            parent_call=None,
            depth=0,
            is_private=fold.is_private,
            base=base,
            key="",
        )
        if self.adopted.is_foreign(thread_id, last):
            self.adopted.mark(header.thread, is_mine=self.adopted.is_mine(thread_id))
        writer = self._create_thread(fold.make_fork(header), first, redact)
        is_good = False
        try:
            stands = is_base_unchanged(self.folders, base, records[last - 1].hash)
            if self.folders.find(thread_id)[1]:
                raise _make_trashed_error(thread_id)
            is_good = stands
        finally:
            if not is_good:
                try:
                    remove_journal(self.folders, header.thread)
                finally:
                    writer.close(wants_snapshot=False)
        return writer if is_good else None

    def _create_thread(
        self, fold: ThreadFold, first: Sequence[Entry], redact: Callable[[str], str] | None
    ) -> ThreadWriter:
        """Create the journal of a thread of which nothing is recorded yet."""
        thread_id = fold.header.thread
        with convert_os_errors("make", self.folders.threads):
            self._disk.make_folder(self.folders.threads)
        at = self._now()
        lock, path = self.lock(thread_id, at), self.folders.path(thread_id, JOURNAL_SUFFIX)
        entries = [encode_entry(fold.header), *(encode_entry(entry, redact) for entry in first)]
        try:
            journal = Journal.create(self._disk, path, at, [data for _, data in entries])
        except BaseException:
            self._disk.close(lock)
            raise
        for seq, (entry, _) in enumerate(entries, 1):
            fold.apply(seq, journal.head.at, entry)
        return self._make_writer(fold, journal, lock)

    def adopt(self, data: bytes, *, is_mine: bool = False, lender: str = "") -> ThreadFold:
        """Take in a whole journal that another store or an import has made; all of it or nothing.

        It is marked as made elsewhere: nothing that was allowed in it counts here.

        Args:
            data: its bytes, from record 1.
            is_mine: whether it is this user's own on their server.
            lender: the server on which it is another user's, and so is not sent to.

        Returns:
            Its fold, as far as this version of Treadle can fold it.

        Raises:
            UsageError: it is no intact journal, or there is a thread of this id already.
            DamagedJournalError: it is a fork, and its base is not here.
            StorageBusyError: it is a fork, and somebody removes or scrubs its base meanwhile.
            DiskError: nothing was acknowledged.
        """
        found = scan_journal(data)
        if not found.records or found.condition is not JournalCondition.CLEAN:
            raise UsageError(f"this is no intact journal: {found.reason or 'it holds no record'}")
        header = decode_header(found.records[0])
        thread_id = header.thread
        fold, _ = self._reader.fold_records(found.records)
        if not is_thread_id(thread_id):
            raise UsageError(f"{thread_id!r} is no thread id")
        with convert_os_errors("make", self.folders.threads):
            self._disk.make_folder(self.folders.threads)
        lock = self.lock(thread_id)
        try:
            if thread_id in self.ids() or thread_id in self.folders.ids(in_trash=True):
                raise UsageError(
                    f"there is a thread {thread_id} already", hint="it was not changed"
                )
            self.adopted.mark(thread_id, is_mine=is_mine, loan=Loan(lender, found.head.seq))
            replace_file(self._disk, self.folders.path(thread_id, JOURNAL_SUFFIX), data)
            try:
                if header.base is not None and not is_base_unchanged(self.folders, header.base):
                    # It was scrubbed or removed while this was taken in.
                    check_bases(self.folders, header)
            except BaseException:
                remove_journal(self.folders, thread_id)
                raise
        finally:
            self._disk.close(lock)
        return fold

    def open(self, thread_id: str) -> ThreadWriter:
        """An existing thread, for its one writer. A torn end is quarantined and cut.

        Raises:
            UnknownThreadError: there is none; nothing was made.
            ThreadBusyError: another process writes it.
            ReadOnlyThreadError: it can be shown, not continued; it may be in the trash.
            DamagedJournalError: acknowledged records are damaged, its own or those of the thread it
                goes on from; nothing was touched.
            DiskError: the disk refused.
        """
        if self.folders.find(thread_id)[1]:
            raise _make_trashed_error(thread_id)
        writer = self.open_including_trash(thread_id)
        if writer.fold.is_trashed:
            writer.close()
            raise _make_trashed_error(thread_id)
        return writer

    def open_including_trash(self, thread_id: str) -> ThreadWriter:
        """`open`, for whoever keeps the trash: a thread that is in it opens too."""
        path, in_trash = self.folders.find(thread_id)
        lock = self.lock(thread_id)
        try:
            sync_journal(self._disk, path)
            # All of it is judged: what is written after damage that a snapshot covers would hang
            # on the snapshot alone, which is only a cache.
            loaded = self._reader.load(thread_id, is_whole=True)
            if loaded.condition is JournalCondition.CORRUPT:
                raise DamagedJournalError(path, loaded.head.size, loaded.problem)
            if loaded.problem:
                raise ReadOnlyThreadError(loaded.problem)
            if loaded.snapshot_head.seq:
                check_bases(self.folders, loaded.fold.header)
            note = ""
            if loaded.condition is JournalCondition.TORN:
                found = JournalScan([], loaded.head, loaded.condition)
                kept = cut_torn_tail(self._disk, path, found, self.folders.quarantine)
                note = f"an unfinished write was cut off and kept in {kept}"
            remove_drafts(self._disk, drafts_folder(path), thread_id)
            stopped = "" if loaded.fold.is_idle else find_stop_reason(self.scan(thread_id).records)
            journal = Journal.open(self._disk, path, loaded.head)
        except BaseException:
            self._disk.close(lock)
            raise
        writer = self._make_writer(loaded.fold, journal, lock, in_trash=in_trash)
        writer.note, writer.stopped = note, stopped
        writer.snapshot_head = loaded.snapshot_head
        writer.snapshot_size = loaded.snapshot_size
        return writer

    def _make_writer(
        self, fold: ThreadFold, journal: Journal, lock: int, *, in_trash: bool = False
    ) -> ThreadWriter:
        path = self.folders.path(fold.header.thread, SNAPSHOT_SUFFIX, in_trash=in_trash)
        outputs = ThreadOutputs(self._reader, self._blobs)
        writer = ThreadWriter(self._disk, self._now, fold, journal, lock, path, outputs)
        writer.member = GroupMember(self._group, journal)
        return writer

    def lock(self, thread_id: str, at: str = "") -> int:
        """Hold a thread's lock, in this process's name. Raises as `acquire_lock`."""
        holder = make_own_holder(at or self._now(), self._program)
        return acquire_lock(
            self._disk, self.folders.path(thread_id, LOCK_SUFFIX), thread_id, holder
        )

    def find_holder(self, thread_id: str) -> Holder | str | None:
        """Who has a thread open for writing: empty if that is not known, `None` if nobody has.

        Takes nothing, so that it is in no writer's way; the answer may be old when it is read.
        Raises `DiskError`.
        """
        return find_holder(self._disk, self.folders.path(thread_id, LOCK_SUFFIX))

    # ---- as any store ------------------------------------------------------------------------

    def begin(self, thread_id: str, data: bytes, key: str = "") -> HeldFile | None:
        """See `Store`."""
        return begin_journal(self.folders, self.keys, self.lock, thread_id, data, key)

    def hold(self, thread_id: str) -> HeldFile:
        """See `Store`."""
        return hold_journal(self.folders, self.lock, thread_id)

    def read(self, thread_id: str, start: int = 0) -> Iterator[bytes]:
        """See `Store`."""
        return self._disk.pieces(self.folders.find(thread_id)[0], start)

    def find_key(self, key: str) -> str | None:
        """See `Store`."""
        return self.keys.find(key)

    def keep_blob(self, name: str, data: bytes) -> None:
        """See `Store`."""
        self._blobs.keep(data)

    def load_blob(self, name: str) -> bytes | None:
        """See `Store`."""
        return self._blobs.load(name)

    # ---- reading -----------------------------------------------------------------------------

    def follow(self, thread_id: str) -> ThreadFollower:
        """What reads a thread's records as they come. Raises as `ThreadFollower`."""
        return ThreadFollower(self.folders, thread_id)

    def load(self, thread_id: str, version: int | None = None) -> LoadedThread:
        """The thread as it stands, or as it stood at `version`. Raises as `ThreadReader.load`."""
        return self._reader.load(thread_id, version)

    def scan(self, thread_id: str) -> JournalScan:
        """All intact records of a thread's own journal, and what follows them."""
        return self._reader.scan(thread_id)

    def read_snapshot(self, thread_id: str) -> tuple[bool, Snapshot | None]:
        """Whether there is a snapshot file, and the snapshot if it is intact."""
        folder = os.path.dirname(self.folders.find(thread_id)[0])
        is_there = thread_id + SNAPSHOT_SUFFIX in self._disk.list(folder)
        return is_there, self._reader.read_snapshot(thread_id) if is_there else None

    def load_initial_fold(self, thread_id: str) -> ThreadFold:
        """The fold before any of the thread's own records: empty, or the base's for a fork.

        Raises: as `load`.
        """
        return self._reader.read_from_start(thread_id)[0]

    def list_rests(self, thread_id: str) -> list[Rest]:
        """The places in a thread's own records where nothing was open: where one can go back to.

        Raises: as `load`.
        """
        return self._reader.list_rests(thread_id)

    def read_blob(self, ref: BlobRef) -> bytes:
        """The whole of an output too large for its message. Raises as `Blobs.read`."""
        return self._blobs.read(ref)

    def ids(self) -> list[str]:
        """All threads outside the trash, newest first (ids begin with their time)."""
        return self.folders.ids()

    def list(self, **wanted: Unpack[ListFilters]) -> list[ThreadSummary]:
        """A line for each thread, last changed first; those that cannot be read say why.

        Reads all of them; `store.index` answers without.

        Args:
            **wanted: which ones, see `ListFilters`; all if not said.
        """
        return list_summaries(self._reader, self.ids(), wanted)

    def summary(self, thread_id: str) -> ThreadSummary | None:
        """The thread's line in a list; `None` if it holds no intact record. Never raises."""
        return summarize(self._reader, thread_id)

    def resolve(self, text: str, *, in_trash: bool = False) -> str:
        """The one thread whose id is, begins or ends with `text`. Raises as `resolve_id`."""
        return resolve_id(self.folders, text, in_trash=in_trash)


def _make_trashed_error(thread_id: str) -> ReadOnlyThreadError:
    return ReadOnlyThreadError(
        f"thread {thread_id} is in the trash", hint=f"treadle restore {thread_id}"
    )
