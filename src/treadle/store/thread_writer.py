"""A thread open for its one writer: stage entries, make them durable, keep the snapshot fresh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from treadle.core.actions import AgentAction
from treadle.core.messages import BlobRef
from treadle.errors import DiskError, StoreError
from treadle.store.disk import Disk
from treadle.store.file_replacement import replace_file
from treadle.store.folder_journals import check_lock
from treadle.store.thread_outputs import ThreadOutputs
from treadle.store.writer_group import GroupMember
from treadle.thread.codec import Entry, encode_entry
from treadle.thread.fold import ThreadFold
from treadle.thread.record import Head
from treadle.thread.snapshot import encode_snapshot

SNAPSHOT_TAIL_SIZE_MIN: Final = 256 * 1024
"""A snapshot is rewritten when the journal has doubled, has grown by more than the snapshot's size
and by more than 256 KiB: all of them together then cost less than twice the last one. Closing
writes one too, so a long tail is folded after a crash only."""


class JournalWriter(Protocol):
    """Who appends batches to a journal: `Journal` to a file."""

    head: Head

    @property
    def is_usable(self) -> bool:
        """Whether nothing has failed, and it is not closed."""
        ...

    @property
    def is_synced(self) -> bool:
        """Whether everything that was written is durable."""
        ...

    def write(self, at: str, events: Sequence[bytes]) -> None:
        """Write a batch; not durable before `sync`."""
        ...

    def sync(self) -> None:
        """Make what was written durable."""
        ...

    def close(self) -> None:
        """Give the journal back."""
        ...


class ThreadWriter:
    """Stages entries into the fold and the next batch; `write` and `sync` make the batch durable.

    Nothing that follows from a staged entry may be performed, shown as done or sent before
    `sync` has returned. After any error of `write` or `sync` the writer is finished and its fold
    is ahead of the disk: drop it and open the thread again.

    Args:
        disk: where lock and snapshot are; `None` for a thread that has neither beside it.
        now: the clock.
        fold: the thread as it stands.
        journal: who appends.
        lock: the open lock file; -1 for none.
        snapshot_path: where the snapshot is.
        outputs: what is kept beside the thread.
    """

    __slots__ = (
        "_at",
        "_disk",
        "_journal",
        "_lock",
        "_now",
        "_outputs",
        "_snapshot_path",
        "_staged",
        "fold",
        "member",
        "note",
        "snapshot_head",
        "snapshot_size",
        "stopped",
    )

    def __init__(
        self,
        disk: Disk | None,
        now: Callable[[], str],
        fold: ThreadFold,
        journal: JournalWriter,
        lock: int,
        snapshot_path: str,
        outputs: ThreadOutputs,
    ) -> None:
        self._disk = disk
        self._outputs = outputs
        self._now = now
        self._journal = journal
        self._lock = lock
        self._snapshot_path = snapshot_path
        self._staged: list[bytes] = []
        self._at = ""
        self.fold = fold
        self.note = ""
        """What opening the thread had to mend; empty if nothing."""
        self.stopped = ""
        """Why the last process that worked here left it unfinished, if that process did not die."""
        self.snapshot_head = Head()
        self.snapshot_size = 0
        self.member: GroupMember | None = None
        """It as one of the store's writers, whose syncs may be one; `None` if it is by itself."""

    @property
    def thread_id(self) -> str:
        """The thread's id."""
        return self.fold.header.thread

    @property
    def head(self) -> Head:
        """The last record written."""
        return self._journal.head

    @property
    def is_usable(self) -> bool:
        """Whether no write or sync has failed and the thread is not closed."""
        return self._journal.is_usable

    @property
    def has_slow_sync(self) -> bool:
        """Whether the journal is in a store that a program has brought, over a network maybe."""
        return self._disk is None

    def now(self) -> str:
        """The clock, in the form of records."""
        return self._now()

    @property
    def has_staged(self) -> bool:
        """Whether there is something to write."""
        return bool(self._staged)

    def stage(self, entry: Entry, redact: Callable[[str], str] | None = None) -> AgentAction | None:
        """Fold an entry and put it into the next batch.

        Returns:
            The machine's action for an event; `None` for a fact.
        """
        entry, data = encode_entry(entry, redact)
        if not self._staged:
            self._at = max(self._now(), self._journal.head.at)
        # Folded first: what cannot be folded is not to be written either.
        action = self.fold.apply(self._journal.head.seq + len(self._staged) + 1, self._at, entry)
        self._staged.append(data)
        return action

    def write(self) -> None:
        """Write the batch, with one write. Raises as `Journal.write`."""
        staged, self._staged = self._staged, []
        self._check_lock()
        self._journal.write(self._at, staged)

    def _check_lock(self) -> None:
        if self._disk is None or not self.is_usable:
            return  # the store judges it, or writing will say
        try:
            check_lock(self._disk, self._lock, self.thread_id)
        except StoreError:
            self._journal.close()
            raise

    def sync(self) -> None:
        """Make it durable, with one sync. Raises as `Journal.sync`."""
        self._journal.sync()

    def commit(self) -> None:
        """`write` and `sync`, if there is something staged."""
        if self._staged:
            self.write()
            self.sync()

    def refresh_snapshot(self) -> None:
        """Write the snapshot if enough has happened since the last one."""
        if self._disk is None:
            return
        grown = self._journal.head.size - self.snapshot_head.size
        # The snapshot of a fork holds its base too: it may be much larger than the journal.
        if grown > max(SNAPSHOT_TAIL_SIZE_MIN, self.snapshot_head.size, self.snapshot_size):
            self.write_snapshot()

    def keep(self, data: bytes) -> BlobRef:
        """Keep bytes beside the thread, durably; what is recorded next may name them.

        Raises:
            DiskError: nothing names them yet, so nothing is lost; this writer can be used on.
        """
        return self._outputs.keep(data)

    def read_kept(self, ref: BlobRef) -> bytes:
        """Bytes that are kept beside the thread.

        Raises:
            MissingBlobError: they are gone, or not what they were.
            DiskError: the disk refused.
        """
        return self._outputs.read(ref)

    def read_output(self, call_id: str) -> bytes | None:
        """What was kept of a call's output, also of one in what the thread was forked from.

        What is staged is not looked at. Costs time in proportion to the journal.

        Raises:
            StoreError: the disk refused, or what is named is gone.
        """
        return self._outputs.read_for_call(self.thread_id, call_id)

    def write_snapshot(self) -> None:
        """Write the snapshot of the head: temporary file, sync, rename, sync of the folder.

        The journal comes first: a snapshot that knows more than the journal says that records
        were lost.

        Raises:
            DiskError: the old snapshot stands; nothing is lost, the journal is the truth.
        """
        assert not self._staged
        assert self._disk is not None
        if not self._journal.is_synced:
            self._journal.sync()
        head = self._journal.head
        data = encode_snapshot(self.fold, head)
        replace_file(self._disk, self._snapshot_path, data)
        self.snapshot_head = head
        self.snapshot_size = len(data)

    def close(self, *, wants_snapshot: bool = True) -> DiskError | None:
        """Write a snapshot if anything changed, give files and lock back.

        Args:
            wants_snapshot: whether to write one; not where the thread is about to be elsewhere.

        Returns:
            Why the snapshot could not be written, if so: nothing is lost by that.
        """
        problem: DiskError | None = None
        try:
            is_new = self._disk is not None and self.head != self.snapshot_head
            if wants_snapshot and not self._staged and self._journal.is_usable and is_new:
                self.write_snapshot()
        except DiskError as error:
            problem = error
        finally:
            self._journal.close()
            if self.member is not None:
                self.member.leave()
            if self._disk is not None and self._lock >= 0:
                self._disk.close(self._lock)
                self._lock = -1
        return problem
