"""Bugs, each a small change of one function, that the suites of the lab must notice.

`PLANTED` names for each bug the layer that is there to find it (see `layers`), and as what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from hashlib import sha256
from posixpath import basename, dirname
from typing import Any, Final
from unittest.mock import patch
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from lab.model_disk import ModelDisk
from lab.model_nodes import File
from lab.planted_approvals import APPROVAL_BUGS
from treadle.core.actions import AgentAction, SendLlmRequest
from treadle.core.events import ToolUncertain
from treadle.core.messages import BlobRef
from treadle.core.tools import EffectClass
from treadle.runtime.call_scheduler import CallScheduler
from treadle.runtime.sub_agent_calls import SubAgentCalls
from treadle.runtime.thread_journal import ThreadJournal
from treadle.runtime.turn_progress import TurnProgress
from treadle.store import journal, local_store, thread_reader
from treadle.store.adoption_marks import AdoptionMarks
from treadle.store.blobs import Blobs
from treadle.store.disk import Disk, PosixDisk
from treadle.store.journal import Journal
from treadle.store.thread_writer import ThreadWriter
from treadle.store.upkeep import scrub
from treadle.store.upkeep.trash import Trash
from treadle.thread import record, recovery
from treadle.thread.facts import InputQueued
from treadle.thread.record import Head, JournalScan, Record
from treadle.thread.recovery import RECOVERY_CASES, CallProgress, RecoveryAction
from treadle.thread.snapshot import Snapshot, encode_snapshot

Patch = AbstractContextManager[Any]
_sync, _write, _stage = Journal.sync, Journal.write, ThreadWriter.stage


def _no_fsync() -> Patch:
    def sync(self: Journal) -> None:
        self.is_synced = True

    return patch.object(Journal, "sync", sync)


@contextmanager
def _no_folder_fsync() -> Iterator[None]:
    def forget(self: Disk, path: str) -> None:
        pass

    with (
        patch.object(PosixDisk, "sync_folder", forget),
        patch.object(ModelDisk, "sync_folder", forget),
    ):
        yield


def _hash_not_verified() -> Patch:
    def verify(line: bytes, seq: int, previous: str) -> Record | None:
        body = record._parse_body(line)
        if body is None or body.seq != seq:
            return None
        return Record(seq, body.at, body.event, line[-34:-2].decode())

    return patch.object(record, "_verify_record", verify)


def _snapshot_seal_not_verified() -> Patch:
    def decode(data: bytes) -> Snapshot | None:
        try:
            return msgspec.json.decode(data, type=Snapshot)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None

    return patch.object(thread_reader, "decode_snapshot", decode)


def _acknowledged_before_written() -> Patch:
    """Batches wait in memory until a few have come together."""
    write = ThreadWriter.write

    def later(self: ThreadWriter) -> None:
        if len(self._staged) > 3:
            write(self)

    return _both(
        patch.object(ThreadWriter, "write", later),
        patch.object(ThreadWriter, "refresh_snapshot", lambda self: None),
    )


def _acknowledged_before_synced() -> Patch:
    """Each sync is left to the next write."""

    def write(self: Journal, at: str, events: list[bytes]) -> None:
        if not self.is_synced:
            _sync(self)
        _write(self, at, events)

    def sync(self: Journal) -> None:
        if self.head.seq == 1:
            _sync(self)

    return _both(patch.object(Journal, "write", write), patch.object(Journal, "sync", sync))


def _write_error_swallowed() -> Patch:
    def write(self: Journal, at: str, events: list[bytes]) -> None:
        data, head = record.encode_batch(self.head, at, events)
        with suppress(OSError):
            self._disk.write(self._handle, data)
        self.head = head

    return patch.object(Journal, "write", write)


def _sync_error_swallowed() -> Patch:
    def sync(self: Journal) -> None:
        with suppress(OSError):
            self._disk.sync(self._handle)
        self.is_synced = True

    return patch.object(Journal, "sync", sync)


def _sync_tried_again() -> Patch:
    def sync(self: Journal) -> None:
        try:
            self._disk.sync(self._handle)
        except OSError:
            self._disk.sync(self._handle)
        self.is_synced = True

    return patch.object(Journal, "sync", sync)


def _snapshot_in_place() -> Patch:
    def write_snapshot(self: ThreadWriter) -> None:
        head, path = self._journal.head, self._snapshot_path
        with journal.convert_os_errors("write", path):
            if basename(path) in self._disk.list(dirname(path)):
                handle = self._disk.open_append(path)
                self._disk.truncate(handle, 0)
            else:
                handle = self._disk.create(path)
            self._disk.write(handle, encode_snapshot(self.fold, head))
            self._disk.sync(handle)
            self._disk.close(handle)
            self._disk.sync_folder(dirname(path))
        self.snapshot_head = head

    return patch.object(ThreadWriter, "write_snapshot", write_snapshot)


def _snapshot_not_synced() -> Patch:
    """Renamed before its contents are durable."""
    write_snapshot = ThreadWriter.write_snapshot

    def hasty(self: ThreadWriter) -> None:
        disk, self._disk = self._disk, _Unsyncing(self._disk)
        try:
            write_snapshot(self)
        finally:
            self._disk = disk

    return patch.object(ThreadWriter, "write_snapshot", hasty)


class _Unsyncing:
    """A disk whose files are not synced."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)

    def sync(self, handle: int) -> None:
        pass


def _snapshot_ahead_of_journal() -> Patch:
    def write(self: Journal, at: str, events: list[bytes]) -> None:
        _write(self, at, events)
        self.is_synced = True

    return patch.object(Journal, "write", write)


def _mutating_tool_run_again() -> Patch:
    cases = tuple(
        replace(case, decision=RecoveryAction.RUN_AGAIN)
        if case.standing is CallProgress.STARTED and case.effect is EffectClass.MUTATE
        else case
        for case in RECOVERY_CASES
    )
    return patch.object(recovery, "RECOVERY_CASES", cases)


def _doubt_not_recorded() -> Patch:
    def stage(self: ThreadWriter, entry: Any, redact: Any = None) -> AgentAction | None:
        return None if isinstance(entry, ToolUncertain) else _stage(self, entry, redact)

    return patch.object(ThreadWriter, "stage", stage)


def _torn_end_not_cut() -> Patch:
    def leave(disk: Disk, path: str, found: JournalScan, quarantine: str) -> str:
        return path

    def open_anyhow(cls: type[Journal], disk: Disk, path: str, head: Head) -> Journal:
        size = len(disk.read(path))
        return cls(disk, path, disk.open_append(path), replace(head, size=size))

    return _both(
        patch.object(local_store, "cut_torn_tail", leave),
        patch.object(Journal, "open", classmethod(open_anyhow)),
    )


def _first_bad_line_is_torn() -> Patch:
    return patch.object(record, "_find_well_formed_records", lambda lines, is_last: iter(()))


def _stale_writer_not_noticed() -> Patch:
    def write(self: Journal, at: str, events: list[bytes]) -> None:
        data, head = record.encode_batch(self.head, at, events)
        with journal.convert_os_errors("write", self._path):
            self._disk.write(self._handle, data)
        self.head, self.is_synced = head, False

    return patch.object(Journal, "write", write)


def _opened_without_settling() -> Patch:
    return patch.object(local_store, "sync_journal", lambda disk, path: None)


def _remembered_pages_believed() -> Patch:
    """After a failed sync, files are read as memory has them."""
    return patch.object(File, "reread", lambda self, survival: None)


def _drafts_left() -> Patch:
    return patch.object(local_store, "remove_drafts", lambda disk, folder, owner: None)


def _tool_before_its_intent() -> Patch:
    return _committing_late(CallScheduler, lambda scheduler: bool(scheduler._started))


def _request_before_the_result() -> Patch:
    return _committing_late(TurnProgress, lambda turn: isinstance(turn.due, SendLlmRequest))


@contextmanager
def _committing_late(part: type[Any], is_due: Callable[[Any], bool]) -> Iterator[None]:
    """What this part of a driver has due comes first; its batch is durable with the next one."""
    make, commit = part.__init__, ThreadJournal.commit
    part_of: WeakKeyDictionary[ThreadJournal, Any] = WeakKeyDictionary()

    def remember(self: Any, journal: ThreadJournal, *others: Any) -> None:
        make(self, journal, *others)
        part_of[journal] = self

    def late(self: ThreadJournal) -> None:
        if not is_due(part_of[self]):
            commit(self)

    with patch.object(part, "__init__", remember), patch.object(ThreadJournal, "commit", late):
        yield


def _queued_input_in_memory() -> Patch:
    def stage(self: ThreadWriter, entry: Any, redact: Any = None) -> AgentAction | None:
        if isinstance(entry, InputQueued):
            self.fold.undelivered.add(entry.message)
            return None
        return _stage(self, entry, redact)

    return patch.object(ThreadWriter, "stage", stage)


def _lock_not_exclusive() -> Patch:
    def lock(self: local_store.LocalStore, thread: str, at: str = "") -> int:
        folders = self.folders
        count = len(self._disk.list(folders.threads))
        return self._disk.lock(folders.path(thread, f".lock{count}"), at.encode()) or -1

    return patch.object(local_store.LocalStore, "lock", lock)


def _output_kept_later() -> Patch:
    """An output is written when the next one comes."""
    keep = Blobs.keep

    def later(self: Blobs, data: bytes) -> BlobRef:
        last: bytes | None = getattr(self, "waiting", None)
        self.waiting = data  # type: ignore[attr-defined]
        if last is not None:
            keep(self, last)
        return BlobRef(sha256(data).hexdigest(), len(data))

    return patch.object(Blobs, "keep", later)


def _import_not_marked() -> Patch:
    return patch.object(AdoptionMarks, "mark", lambda self, thread_id, **more: None)


def _trash_by_rename() -> Patch:
    """A rename between folders: a disk may keep the one folder's change and not the other's."""
    return patch.object(Trash, "_link", lambda self, names, source, target: False)


def _snapshot_not_scrubbed() -> Patch:
    return patch.object(scrub._ScrubRun, "_write_snapshot", lambda self, plan: None)


def _sub_agent_not_recorded() -> Patch:
    async def forget(self: SubAgentCalls, call_id: str, thread_id: str) -> None:
        """Nothing of it."""

    return patch.object(SubAgentCalls, "_record_child", forget)


@contextmanager
def _both(one: Patch, other: Patch) -> Iterator[None]:
    with one, other:
        yield


PLANTED: Final[dict[str, tuple[Callable[[], Patch], str, str]]] = {
    "no fsync": (_no_fsync, "power cut", "unreadable"),
    "no folder fsync": (_no_folder_fsync, "power cut", "unreadable"),
    "acknowledged before synced": (_acknowledged_before_synced, "power cut", "lost"),
    "snapshot in place": (_snapshot_in_place, "power cut", "damaged"),
    "snapshot renamed before synced": (_snapshot_not_synced, "power cut", "damaged"),
    "opened without settling": (_opened_without_settling, "kill, then power cut", "unreadable"),
    "write error swallowed": (_write_error_swallowed, "model fault", "lost"),
    "sync error swallowed": (_sync_error_swallowed, "model fault", "lost"),
    "sync tried again": (_sync_tried_again, "model fault", "lost"),
    "remembered pages believed": (_remembered_pages_believed, "model fault", "unreadable"),
    "snapshot ahead of the journal": (_snapshot_ahead_of_journal, "halted writer", "unreadable"),
    "hash not verified": (_hash_not_verified, "rot", "false"),
    "snapshot seal not verified": (_snapshot_seal_not_verified, "rot", "false"),
    "first bad line is torn": (_first_bad_line_is_torn, "rot", "cut"),
    "stale writer not noticed": (_stale_writer_not_noticed, "two writers", "fused"),
    "lock not exclusive": (_lock_not_exclusive, "two writers", "shared"),
    "acknowledged before written": (_acknowledged_before_written, "kill", "lost"),
    "mutating tool run again": (_mutating_tool_run_again, "kill", "repeated"),
    "doubt not recorded": (_doubt_not_recorded, "kill", "unsaid"),
    "torn end not cut": (_torn_end_not_cut, "kill", "unreadable"),
    "drafts left": (_drafts_left, "kill", "leftover"),
    "tool before its intent": (_tool_before_its_intent, "kill", "repeated"),
    "request before the result": (_request_before_the_result, "kill", "changed"),
    "queued input in memory": (_queued_input_in_memory, "kill", "lost"),
    "output kept later": (_output_kept_later, "kill, outputs", "missing"),
    "import not marked": (_import_not_marked, "kill, import", "unmarked"),
    "trash by rename": (_trash_by_rename, "power cut, trash", "unreadable"),
    "snapshot not scrubbed": (_snapshot_not_scrubbed, "kill, scrub", "left"),
    "sub-agent not recorded": (_sub_agent_not_recorded, "kill, task", "repeated"),
    **APPROVAL_BUGS,
}


def plant(name: str) -> Patch:
    """With this bug in the system; with none for an empty name."""
    return PLANTED[name][0]() if name else nullcontext()
