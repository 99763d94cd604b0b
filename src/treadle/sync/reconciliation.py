"""Bringing two journals of one thread together: what is written, and in which order.

The branch that gives way is kept first, then the snapshot goes, then the journal is replaced at
once. Stopped anywhere, the thread is the old one or the new one, and the same again finishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.api.marks import Mark
from treadle.errors import (
    RemoteConflictError,
    RemoteRefusedError,
    StorageBusyError,
    TreadleError,
    UsageError,
)
from treadle.store.branch_archive import archive_branch
from treadle.store.folder_source import FolderSource
from treadle.store.record_adoption import (
    LockedThread,
    append_records,
    ensure_thread,
    open_locked,
    replace_journal,
    split_journal_lines,
    split_writes,
)
from treadle.store.thread_reader import ThreadReader, apply_records
from treadle.store.upkeep.scrub_adoption import make_record_cleaner, replace_scrubbed
from treadle.store.upkeep.text_scan import TextScanner
from treadle.store.upkeep.trash import Trash
from treadle.sync.context import OnConflict, SyncContext
from treadle.sync.cursors import Cursor
from treadle.sync.journal_comparison import (
    JournalComparison,
    JournalRelation,
    compare_journals,
    compute_event_digest,
    find_reappeared_records,
)
from treadle.sync.latest_facts import add_latest_facts
from treadle.sync.output_transfer import fetch_outputs
from treadle.sync.refusals import describe_remote_scrub
from treadle.sync.send_queue import SyncConflict, SyncState
from treadle.sync.shareable_thread import hold_for_request
from treadle.sync.thread_comparison import decode_scrub
from treadle.thread.branches import collect_record_ids, map_events_by_id
from treadle.thread.codec import Entry, UnknownEntryError, decode_entry, encode_entry
from treadle.thread.facts import FORMAT_VERSION, Base, Merged, Scrubbed
from treadle.thread.grants import make_grant_facts
from treadle.thread.history import find_rest_at, list_rests
from treadle.thread.merge import make_merge_record
from treadle.thread.record import Head, JournalCondition, Record, encode_batch, scan_journal
from treadle.thread.scrub import replace_events

_ID_PREFIX_LENGTH: Final = 15
"""`T-` and the time in an id, which a fork takes over."""


class Reconciliation(Struct, frozen=True):
    """How a thread stands after it was brought together with the server's.

    `server` is where the server is, and `size` how many bytes of our journal end there: 0 where
    ours is to replace theirs. `received_count` counts the server's records that were new here.
    `has_lost_scrub` says that what was scrubbed here stands in it again: another machine had
    scrubbed it too, and was first. `is_again` says that a merge of ours was not sent and is merged
    again: that is one conflict.
    """

    relation: JournalRelation
    server: Mark
    size: int
    received_count: int = 0
    conflict: SyncConflict | None = None
    notes: tuple[str, ...] = ()
    has_lost_scrub: bool = False
    is_again: bool = False


class FetchedRecords(Struct, frozen=True):
    """The server's lines after a mark."""

    after: Mark
    data: bytes


def fetch_records(context: SyncContext, thread_id: str, marks: tuple[Mark, ...]) -> FetchedRecords:
    """The server's records after the first of the marks that it has; after none if it has none.

    Raises: as `Remote.records`.
    """
    for mark in marks:
        try:
            return FetchedRecords(mark, b"".join(context.remote.records(thread_id, mark)))
        except RemoteConflictError:
            continue
    return FetchedRecords(Mark(), b"".join(context.remote.records(thread_id, Mark())))


def reconcile_thread(
    context: SyncContext, thread_id: str, cursor: Cursor, on_conflict: OnConflict = "merge"
) -> Reconciliation:
    """Take in what the server has of a thread, and keep what is ours.

    Args:
        context: the parts.
        thread_id: a thread that is here.
        cursor: how far it was synced.
        on_conflict: what becomes of our branch where both have gone on.

    Raises:
        ThreadBusyError: another process has it open; nothing was changed.
        PrivateThreadError: it has become private; nothing was asked, nothing was changed.
        StorageBusyError: it has changed meanwhile; do it again.
        RemoteError: nothing was changed.
        UsageError: the server has another thread of this id; nothing was changed.
        StoreError: it is as it was, or as it is to be.
    """
    with open_locked(context.store, thread_id) as mine:
        known = _list_candidate_marks(mine, cursor)
    # The network is not waited for while the thread is held. Who makes it private waits.
    with hold_for_request(context.store, thread_id):
        fetched = fetch_records(context, thread_id, known)
        notes = fetch_outputs(
            context, thread_id, scan_journal(fetched.data, _make_head(fetched.after)).records
        )
    with open_locked(context.store, thread_id) as mine:
        together = _reconcile(context, mine, cursor, fetched, on_conflict)
    apply_trash_state(context, thread_id)
    return replace(together, notes=(*together.notes, *notes))


def apply_trash_state(context: SyncContext, thread_id: str) -> None:
    """Move a thread to the trash, or out of it, as its last word says.

    Raises:
        ThreadBusyError: it, or a sub-agent's, is open elsewhere; it is where it was.
        StorageBusyError: another process moves threads.
        StoreError: as `Trash.put`.
    """
    _, in_trash = context.store.folders.find(thread_id)
    is_trashed = context.store.load(thread_id).fold.is_trashed
    if is_trashed and not in_trash:
        Trash(context.store).put([thread_id])
    elif in_trash and not is_trashed:
        Trash(context.store).restore([thread_id])


def _list_candidate_marks(thread: LockedThread, cursor: Cursor) -> tuple[Mark, ...]:
    """The records of ours that the server may have, the most likely first."""
    if not cursor.seq:
        return ()
    if cursor.seq > thread.head.seq:
        return (Mark(thread.head.seq, thread.head.hash),)
    is_ours = thread.records[cursor.seq - 1].hash == cursor.hash
    return (cursor.acknowledged_mark,) if is_ours else ()


def _reconcile(
    context: SyncContext,
    thread: LockedThread,
    cursor: Cursor,
    fetched: FetchedRecords,
    on_conflict: OnConflict,
) -> Reconciliation:
    after = fetched.after
    if after.seq and not _has_mark(thread.records, after):
        raise StorageBusyError(
            f"thread {thread.id} was changed meanwhile", hint="it is tried again"
        )
    theirs_data = b"".join(split_journal_lines(thread.data)[: after.seq]) + fetched.data
    found = scan_journal(theirs_data)
    theirs = found.records
    if found.condition is not JournalCondition.CLEAN or not theirs:
        raise RemoteRefusedError(
            f"the server's records of thread {thread.id} are no intact journal: {found.reason}",
            hint="nothing was taken in; the thread here is as it was",
        )
    compared = compare_journals(thread.records, theirs, cursor.acknowledged_mark)
    server = Mark(theirs[-1].seq, theirs[-1].hash)
    together = Reconciliation(
        compared.relation, server, len(theirs_data), len(theirs) - compared.count
    )
    match compared.relation:
        case JournalRelation.SAME | JournalRelation.AHEAD:
            return replace(together, received_count=0)
        case JournalRelation.BEHIND:
            append_records(context.store, thread, theirs_data[len(thread.data) :])
            return together
        case JournalRelation.SCRUBBED_HERE:
            return _keep_own_scrub(context, thread, theirs, theirs_data, compared, together)
        case JournalRelation.SCRUBBED_THERE:
            return _adopt_scrubbed(context, thread, theirs, theirs_data, compared, together)
        case JournalRelation.DIVERGED:
            return _merge_diverged(
                context, thread, theirs, theirs_data, compared, together, on_conflict
            )
    raise UsageError(
        f"the server has another thread of the id {thread.id}",
        hint="nothing was changed; `treadle fork` makes one of yours with an id of its own",
    )


def _make_merge_event(
    context: SyncContext, ground: list[Record], count: int, ours: list[Record], theirs: list[Record]
) -> bytes | None:
    """The event that says what one branch lacks; `None` if it lacks nothing.

    Args:
        context: the parts.
        ground: the journal that stays, from record 1.
        count: how many of its records both have.
        ours: what is to be merged into it.
        theirs: the records whose contents are there already.
    """
    common = ThreadReader(FolderSource(context.store.folders)).make_initial_fold(ground[0])
    problem = apply_records(common, ground[:count])
    if problem:
        raise UsageError(problem)
    fact = make_merge_record(
        common, ground[count - 1], ours, collect_record_ids(theirs), context.host
    )
    if fact is None:
        return None
    if len(ours) == 1 and isinstance(old := _try_decode_entry(ours[0]), Merged):
        # It was merged before, and not sent. It left the others where it did then: forks of the
        # branch are found by that.
        fact = replace(fact, version=old.version, hash=old.hash)
    return encode_entry(add_latest_facts(fact, theirs[count:]))[1]


def _try_decode_entry(record: Record) -> Entry | None:
    try:
        return decode_entry(record.event)
    except UnknownEntryError:
        return None


def _append_event(context: SyncContext, data: bytes, last: Record, event: bytes | None) -> bytes:
    """A journal with one more record."""
    if event is None:
        return data
    return data + encode_batch(Head(last.seq, last.hash, last.at), context.now(), [event])[0]


def _merge_diverged(
    context: SyncContext,
    thread: LockedThread,
    theirs: list[Record],
    data: bytes,
    compared: JournalComparison,
    reconciliation: Reconciliation,
    on_conflict: OnConflict,
) -> Reconciliation:
    count, note, fork = compared.count, "", ""
    if on_conflict == "fork":
        made = make_branch_fork(context, thread, count)
        if made is None:
            note = "it could not become a thread of its own, so it was merged"
        else:
            fork = made[0]
            ensure_thread(
                context.store, fork, made[1], is_own=not context.store.adopted.is_foreign(thread.id)
            )
            apply_trash_state(context, fork)
    event = (
        None if fork else _make_merge_event(context, theirs, count, thread.records[count:], theirs)
    )
    new = _append_event(context, data, theirs[-1], event)
    kept = archive_branch(context.store.folders, thread.id, thread.head, thread.data)
    replace_journal(context.store, thread, new)
    done: OnConflict = "fork" if fork else "merge"
    conflict = SyncConflict(thread.id, context.now(), done, thread.head.seq, kept, fork, note)
    return replace(reconciliation, conflict=conflict, is_again=_has_merge(thread.records[count:]))


def _has_merge(records: list[Record]) -> bool:
    return any(isinstance(_try_decode_entry(one), Merged) for one in records)


def _adopt_scrubbed(
    context: SyncContext,
    thread: LockedThread,
    theirs: list[Record],
    data: bytes,
    compared: JournalComparison,
    reconciliation: Reconciliation,
) -> Reconciliation:
    """Take the server's journal, out of which another machine has taken a text.

    What we have scrubbed ourselves comes back with it; nobody here knows any more what that was.
    That this is so is noted before it is.
    """
    count = compared.count
    event = None
    has_lost = any(decode_scrub(one) for one in thread.records[count:])
    if thread.head.seq > count:
        event = _make_merge_event(context, theirs, count, thread.records[count:], theirs)
    if has_lost:
        record_lost_scrub(
            context, thread.id, find_reappeared_records(thread.records[:count], theirs[:count])
        )
    replace_scrubbed(context.store, thread, _append_event(context, data, theirs[-1], event))
    conflict = None
    if event is not None:
        why = "it was scrubbed on another machine meanwhile"
        conflict = SyncConflict(thread.id, context.now(), "merge", thread.head.seq, note=why)
    reconciliation = replace(
        reconciliation, notes=(describe_remote_scrub(thread.id),), has_lost_scrub=has_lost
    )
    return replace(reconciliation, conflict=conflict, is_again=_has_merge(thread.records[count:]))


def record_lost_scrub(
    context: SyncContext, thread_id: str, event_digests: Mapping[str, str]
) -> None:
    """What was scrubbed here is to be scrubbed again: kept until no such record says it any more.

    Args:
        context: the parts.
        thread_id: the thread.
        event_digests: the records in which it stands again (`comparing.find_reappeared_records`).
    """

    def noted(state: SyncState) -> SyncState:
        others = tuple(one for one in state.unscrubbed if one != thread_id)
        all_shown = {**state.shown_again.get(thread_id, {}), **event_digests}
        again = {**state.shown_again, thread_id: all_shown}
        return replace(state, unscrubbed=(*others, thread_id), shown_again=again)

    context.pending.change_state(noted)


def confirm_scrub(context: SyncContext, thread_id: str) -> None:
    """The server has what a scrub has left here. Another text may have been meant by that."""
    state = context.pending.state()
    if thread_id not in state.unscrubbed:
        return
    lost = state.shown_again.get(thread_id, {})
    events = map_events_by_id(context.store.scan(thread_id).records) if lost else {}
    if not any(compute_event_digest(events.get(one, b"")) == shown for one, shown in lost.items()):
        forget_scrub(context, thread_id)


def forget_scrub(context: SyncContext, thread_id: str) -> None:
    """Nothing of a thread has to be scrubbed again."""

    def noted(state: SyncState) -> SyncState:
        others = tuple(one for one in state.unscrubbed if one != thread_id)
        again = {one: shown for one, shown in state.shown_again.items() if one != thread_id}
        return replace(state, unscrubbed=others, shown_again=again)

    if thread_id in context.pending.state().unscrubbed:
        context.pending.change_state(noted)


def _keep_own_scrub(
    context: SyncContext,
    thread: LockedThread,
    theirs: list[Record],
    data: bytes,
    compared: JournalComparison,
    reconciliation: Reconciliation,
) -> Reconciliation:
    """We have scrubbed: what both have is as we have it, and replaces what the server has.

    What the server has got since stays where it stands: forks on other machines go on from it.
    """
    count = compared.count
    extra = len(theirs) - count
    reconciliation = replace(reconciliation, size=0, received_count=extra)
    if not extra:
        return reconciliation
    new = replace_events(data, make_record_cleaner(map_events_by_id(thread.records[:count])))
    events = [encode_entry(Scrubbed(new.count, theirs[-1].hash, keeps_ids=True))[1]]
    own = thread.records[count:]
    merged = None
    # What a scrub has left says nothing that is not there; but forks may go on from that record.
    bases = TextScanner(context.store.folders, str).read_bases().values()
    has_forks = any(one.thread == thread.id and one.version > count for one in bases)
    if has_forks or not all(map(decode_scrub, own)):
        merged = _make_merge_event(context, new.records, count, own, new.records)
    if merged is not None:
        archive_branch(context.store.folders, thread.id, thread.head, thread.data)
        events.append(merged)
    behind, _ = encode_batch(new.head, context.now(), events)
    replace_journal(context.store, thread, new.data + behind)
    note = (
        f"{thread.id} was scrubbed here, and another machine had gone on with it: look whether the "
        "text stands in what it said, and scrub it again then"
    )
    return replace(reconciliation, notes=(*reconciliation.notes, note))


def make_branch_fork(
    context: SyncContext, thread: LockedThread, count: int
) -> tuple[str, bytes] | None:
    """Our branch as a thread of its own, which goes on from the last rest both have.

    Its id is made of the branch, so that doing it again makes the same.

    Args:
        context: the parts.
        thread: our journal.
        count: how many of its records both have.

    Returns:
        Its id and its journal; `None` if that would not be the conversation that it was.
    """
    reader = ThreadReader(FolderSource(context.store.folders))
    records = thread.records
    try:
        entries = [(one.seq, one.at, decode_entry(one.event)) for one in records]
        rest = find_rest_at(
            list(list_rests(reader.make_initial_fold(records[0]), entries[:count])), count
        )
        if rest is None:
            return None
        whole, _ = reader.fold_records(records)
        ground, _ = reader.fold_records(records[: rest.version])
        name = sha256(f"{thread.id}@{thread.head.hash}".encode()).hexdigest()
        fork = f"{thread.id[:_ID_PREFIX_LENGTH]}-7{name[:3]}-8{name[3:6]}-{name[6:18]}"
        header = replace(
            ground.header,
            format=FORMAT_VERSION,
            thread=fork,
            parent=None,
            parent_call=None,
            depth=0,
            is_private=False,
            base=Base(thread.id, rest.version, records[rest.version - 1].id),
        )
        first: list[Entry] = [header, *make_grant_facts(ground.machine.config)]
        data, head = encode_batch(Head(), rest.at, [encode_entry(one)[1] for one in first])
        start = sum(map(len, split_journal_lines(thread.data)[: rest.version]))
        written = Head(rest.version, records[rest.version - 1].hash, rest.at, 0)
        for write in split_writes(thread.data[start:]):
            found = scan_journal(write, written)
            written = replace(found.head, size=0)
            events = [bytes(one.event) for one in found.records]
            more, head = encode_batch(head, found.records[0].at, events)
            data += more
        fold, problem = reader.fold_records(scan_journal(data).records)
    except (UnknownEntryError, TreadleError):
        return None
    is_same = (
        not problem
        and list(fold.conversation) == list(whole.conversation)
        and fold.state_kind == whole.state_kind
        and (fold.queued, fold.joining_messages) == (whole.queued, whole.joining_messages)
    )
    return (fork, data) if is_same else None


def _has_mark(records: list[Record], mark: Mark) -> bool:
    return mark.seq <= len(records) and records[mark.seq - 1].hash == mark.hash


def _make_head(mark: Mark) -> Head:
    return Head(mark.seq, mark.hash)
