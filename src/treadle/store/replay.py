"""Checking a thread against itself: the fold from nothing against what the snapshot says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from treadle.core.actions import AgentAction
from treadle.core.events import name_of
from treadle.core.task.machine import TaskState
from treadle.errors import MissingBlobError, TreadleError
from treadle.store.blobs import Blobs
from treadle.store.journal import is_unfinished_creation
from treadle.store.local_store import LocalStore
from treadle.thread.codec import decode_entry
from treadle.thread.fold import ThreadFold
from treadle.thread.output_references import list_output_references
from treadle.thread.record import JournalCondition, JournalScan, Record
from treadle.thread.snapshot import Snapshot, restore_fold


class ReplayResult(Struct, frozen=True):
    """How a check ended, in one line."""

    is_good: bool
    text: str


class ReplayStep(Struct, frozen=True):
    """One record of a replay; the last step carries the verdict only."""

    seq: int = 0
    at: str = ""
    name: str = ""
    before: str = ""
    after: str = ""
    action: AgentAction | None = None
    verdict: ReplayResult | None = None


UNFINISHED_CREATION: Final = (
    "its creation goes on, or was stopped before anything of it was acknowledged"
)

INCOMPLETE: Final = "incomplete"
"""The journal is clean, and something beside it is gone or damaged."""


class VerificationReport(Struct, frozen=True):
    """What `verify` says of one thread.

    `absent_count` counts large outputs that have never been here: the thread was imported without.
    """

    thread: str
    condition: str
    version: int
    is_good: bool
    text: str
    absent_count: int = 0


def replay(store: LocalStore, thread_id: str) -> Iterator[ReplayStep]:
    """Fold the journal again from record 1; the last step says whether the snapshot agrees.

    That of a fork begins with what it goes on from.

    Raises:
        UnknownThreadError: there is no such thread.
        UnknownEntryError: a record is from a newer version.
        DamagedJournalError: what it was forked from is not what it was.
    """
    found = store.scan(thread_id)
    present, snapshot = store.read_snapshot(thread_id)
    fold = store.load_initial_fold(thread_id) if found.records else None
    verdict = ReplayResult(not present, "")
    if present and snapshot is None:
        verdict = ReplayResult(False, "the snapshot is damaged")
    elif snapshot is not None:
        verdict = ReplayResult(
            False, f"the snapshot's record {snapshot.head.seq} is not in the journal"
        )
    for record in found.records:
        assert fold is not None
        yield _replay_record(fold, record)
        if snapshot is not None and record.hash == snapshot.head.hash:
            verdict = _compare_with_snapshot(fold, snapshot)
    count = len(found.records)
    said = [f"{count} records folded from nothing"]
    if snapshot is not None and verdict.is_good:
        said.append(f"the snapshot of version {snapshot.head.seq} says the same")
    elif not verdict.is_good:
        said.append(verdict.text)
    elif not present:
        said.append("there is no snapshot")
    if found.condition is not JournalCondition.CLEAN:
        said.append(f"the journal is {found.condition.value}: {found.reason}")
    is_good = verdict.is_good and found.condition is not JournalCondition.CORRUPT and count > 0
    yield ReplayStep(verdict=ReplayResult(is_good, "; ".join(said)))


def _replay_record(fold: ThreadFold, record: Record) -> ReplayStep:
    entry = decode_entry(record.event)
    before = fold.machine.state_name
    action = fold.apply(record.seq, record.at, entry)
    after = fold.machine.state_name
    return ReplayStep(record.seq, record.at, name_of(type(entry)), before, after, action)


def _compare_with_snapshot(fold: ThreadFold, snapshot: Snapshot) -> ReplayResult:
    """Whether the fold and the snapshot say the same, in the document and beyond it."""
    restored = restore_fold(snapshot)
    if restored is None:
        return ReplayResult(False, "the snapshot holds a state this version does not have")
    ours, theirs = fold.document(), restored.document()
    same = (
        ours == theirs
        and fold.machine.config == restored.machine.config
        and fold.machine.obligations() == restored.machine.obligations()
        and _list_undocumented_state(fold) == _list_undocumented_state(restored)
        and snapshot.turn_usage in (None, fold.turn_usage)
    )
    return ReplayResult(
        same, "" if same else f"the snapshot of version {fold.version} says otherwise"
    )


def _list_undocumented_state(fold: ThreadFold) -> tuple[object, ...]:
    """What a fold knows beyond the document: of a task, all of its memory."""
    task = fold.state if isinstance(fold.state, TaskState) else None
    said = fold.is_named_by_person, fold.context, fold.files
    known = fold.observed, fold.turn_steps, fold.provider, fold.children
    return *known, fold.undelivered, *said, task


def _check_blobs(
    store: LocalStore, thread_id: str, records: Sequence[Record]
) -> tuple[list[str], int]:
    """What is wrong with the outputs that are kept beside a thread.

    An import may have come without them. Those of records that were made elsewhere and are not here
    are counted only.
    """
    blobs, found, absent_count = Blobs(store.folders), [], 0
    for seq, ref in list_output_references(records):
        try:
            size = len(blobs.read(ref))
        except MissingBlobError as error:
            is_gone = blobs.is_missing(ref)
            if is_gone and store.adopted.is_foreign(thread_id, seq):
                absent_count += 1
            else:
                found.append(f"record {seq}: {error}")
        else:
            if size != ref.size:
                found.append(f"record {seq}: the output has {size} bytes, not {ref.size}")
    return found, absent_count


def _is_being_created(store: LocalStore, thread_id: str, found: JournalScan) -> bool:
    """Whether a thread is being made, or its creation was stopped: there never was a record."""
    if found.records or store.read_snapshot(thread_id)[0]:
        return False
    path, _ = store.folders.find(thread_id)
    return is_unfinished_creation(store.folders.disk, path)


def verify_thread(store: LocalStore, thread_id: str) -> VerificationReport:
    """Chain, tail, snapshot, base and blobs of one thread. Never raises for what is wrong with it.

    In the trash or not. Reads every byte that is the thread's.
    """
    condition, version, verdict = "unknown", 0, ReplayResult(False, "")
    absent_count = 0
    try:
        found = store.scan(thread_id)
        condition, version = found.condition.value, found.head.seq
        if _is_being_created(store, thread_id, found):
            return VerificationReport(thread_id, condition, 0, True, UNFINISHED_CREATION)
        for step in replay(store, thread_id):
            verdict = step.verdict or verdict
        loaded = store.load(thread_id)
        if loaded.condition is JournalCondition.CORRUPT:
            condition = loaded.condition.value
            verdict = ReplayResult(False, loaded.problem)
        missing, absent_count = _check_blobs(store, thread_id, found.records)
        if absent_count:
            text = f"large outputs that were not imported with it: {absent_count}"
            verdict = ReplayResult(verdict.is_good, f"{verdict.text}; {text}")
        if missing:
            verdict = ReplayResult(False, "; ".join([verdict.text, *missing]))
            condition = INCOMPLETE if condition == JournalCondition.CLEAN.value else condition
    except TreadleError as error:
        verdict = ReplayResult(False, error.message)
        condition = "unreadable"
    return VerificationReport(
        thread_id, condition, version, verdict.is_good, verdict.text, absent_count
    )
