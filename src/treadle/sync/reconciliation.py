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
from treadle.thread.branches import events_by_id, known_in
from treadle.thread.codec import Entry, UnknownEntryError, decode_entry, encode_entry
from treadle.thread.facts import FORMAT_VERSION, Base, Merged, Scrubbed
from treadle.thread.grants import facts_of
from treadle.thread.history import rest_at, rests
from treadle.thread.merge import merge
from treadle.thread.record import Condition, Head, Record, encode_batch, scan
from treadle.thread.scrub import rechained

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


def fetch_records(kit: SyncContext, thread_id: str, marks: tuple[Mark, ...]) -> FetchedRecords:
    """The server's records after the first of the marks that it has; after none if it has none.

    Raises: as `Remote.records`.
    """
    for mark in marks:
        try:
            return FetchedRecords(mark, b"".join(kit.remote.records(thread_id, mark)))
        except RemoteConflictError:
            continue
    return FetchedRecords(Mark(), b"".join(kit.remote.records(thread_id, Mark())))


def reconcile_thread(
    kit: SyncContext, thread_id: str, cursor: Cursor, how: OnConflict = "merge"
) -> Reconciliation:
    """Take in what the server has of a thread, and keep what is ours.

    Args:
        kit: the parts.
        thread_id: a thread that is here.
        cursor: how far it was synced.
        how: what becomes of our branch where both have gone on.

    Raises:
        ThreadBusyError: another process has it open; nothing was changed.
        PrivateThreadError: it has become private; nothing was asked, nothing was changed.
        StorageBusyError: it has changed meanwhile; do it again.
        RemoteError: nothing was changed.
        UsageError: the server has another thread of this id; nothing was changed.
        StoreError: it is as it was, or as it is to be.
    """
    with open_locked(kit.store, thread_id) as mine:
        known = _list_candidate_marks(mine, cursor)
    # The network is not waited for while the thread is held. Who makes it private waits.
    with hold_for_request(kit.store, thread_id):
        fetched = fetch_records(kit, thread_id, known)
        notes = fetch_outputs(kit, thread_id, scan(fetched.data, _make_head(fetched.after)).records)
    with open_locked(kit.store, thread_id) as mine:
        together = _reconcile(kit, mine, cursor, fetched, how)
    apply_trash_state(kit, thread_id)
    return replace(together, notes=(*together.notes, *notes))


def apply_trash_state(kit: SyncContext, thread_id: str) -> None:
    """Move a thread to the trash, or out of it, as its last word says.

    Raises:
        ThreadBusyError: it, or a sub-agent's, is open elsewhere; it is where it was.
        StorageBusyError: another process moves threads.
        StoreError: as `Trash.put`.
    """
    _, in_trash = kit.store.folders.find(thread_id)
    is_trashed = kit.store.load(thread_id).fold.is_trashed
    if is_trashed and not in_trash:
        Trash(kit.store).put([thread_id])
    elif in_trash and not is_trashed:
        Trash(kit.store).restore([thread_id])


def _list_candidate_marks(mine: LockedThread, cursor: Cursor) -> tuple[Mark, ...]:
    """The records of ours that the server may have, the most likely first."""
    if not cursor.seq:
        return ()
    if cursor.seq > mine.head.seq:
        return (Mark(mine.head.seq, mine.head.hash),)
    is_ours = mine.records[cursor.seq - 1].hash == cursor.hash
    return (cursor.acknowledged_mark,) if is_ours else ()


def _reconcile(
    kit: SyncContext, mine: LockedThread, cursor: Cursor, fetched: FetchedRecords, how: OnConflict
) -> Reconciliation:
    after = fetched.after
    if after.seq and not _has_mark(mine.records, after):
        raise StorageBusyError(f"thread {mine.id} was changed meanwhile", hint="it is tried again")
    theirs_data = b"".join(split_journal_lines(mine.data)[: after.seq]) + fetched.data
    found = scan(theirs_data)
    theirs = found.records
    if found.condition is not Condition.CLEAN or not theirs:
        raise RemoteRefusedError(
            f"the server's records of thread {mine.id} are no intact journal: {found.reason}",
            hint="nothing was taken in; the thread here is as it was",
        )
    compared = compare_journals(mine.records, theirs, cursor.acknowledged_mark)
    server = Mark(theirs[-1].seq, theirs[-1].hash)
    together = Reconciliation(
        compared.relation, server, len(theirs_data), len(theirs) - compared.count
    )
    match compared.relation:
        case JournalRelation.SAME | JournalRelation.AHEAD:
            return replace(together, received_count=0)
        case JournalRelation.BEHIND:
            append_records(kit.store, mine, theirs_data[len(mine.data) :])
            return together
        case JournalRelation.SCRUBBED_HERE:
            return _keep_own_scrub(kit, mine, theirs, theirs_data, compared, together)
        case JournalRelation.SCRUBBED_THERE:
            return _adopt_scrubbed(kit, mine, theirs, theirs_data, compared, together)
        case JournalRelation.DIVERGED:
            return _merge_diverged(kit, mine, theirs, theirs_data, compared, together, how)
    raise UsageError(
        f"the server has another thread of the id {mine.id}",
        hint="nothing was changed; `treadle fork` makes one of yours with an id of its own",
    )


def _make_merge_event(
    kit: SyncContext, ground: list[Record], count: int, ours: list[Record], theirs: list[Record]
) -> bytes | None:
    """The event that says what one branch lacks; `None` if it lacks nothing.

    Args:
        kit: the parts.
        ground: the journal that stays, from record 1.
        count: how many of its records both have.
        ours: what is to be merged into it.
        theirs: the records whose contents are there already.
    """
    common = ThreadReader(kit.store.folders).make_initial_fold(ground[0])
    problem = apply_records(common, ground[:count])
    if problem:
        raise UsageError(problem)
    fact = merge(common, ground[count - 1], ours, known_in(theirs), kit.host)
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


def _append_event(kit: SyncContext, data: bytes, last: Record, event: bytes | None) -> bytes:
    """A journal with one more record."""
    if event is None:
        return data
    return data + encode_batch(Head(last.seq, last.hash, last.at), kit.now(), [event])[0]


def _merge_diverged(
    kit: SyncContext,
    mine: LockedThread,
    theirs: list[Record],
    data: bytes,
    compared: JournalComparison,
    together: Reconciliation,
    how: OnConflict,
) -> Reconciliation:
    count, note, fork = compared.count, "", ""
    if how == "fork":
        made = make_branch_fork(kit, mine, count)
        if made is None:
            note = "it could not become a thread of its own, so it was merged"
        else:
            fork = made[0]
            ensure_thread(
                kit.store, fork, made[1], is_own=not kit.store.adopted.is_foreign(mine.id)
            )
            apply_trash_state(kit, fork)
    event = None if fork else _make_merge_event(kit, theirs, count, mine.records[count:], theirs)
    new = _append_event(kit, data, theirs[-1], event)
    kept = archive_branch(kit.store.folders, mine.id, mine.head, mine.data)
    replace_journal(kit.store, mine, new)
    done: OnConflict = "fork" if fork else "merge"
    conflict = SyncConflict(mine.id, kit.now(), done, mine.head.seq, kept, fork, note)
    return replace(together, conflict=conflict, is_again=_has_merge(mine.records[count:]))


def _has_merge(records: list[Record]) -> bool:
    return any(isinstance(_try_decode_entry(one), Merged) for one in records)


def _adopt_scrubbed(
    kit: SyncContext,
    mine: LockedThread,
    theirs: list[Record],
    data: bytes,
    compared: JournalComparison,
    together: Reconciliation,
) -> Reconciliation:
    """Take the server's journal, out of which another machine has taken a text.

    What we have scrubbed ourselves comes back with it; nobody here knows any more what that was.
    That this is so is noted before it is.
    """
    count = compared.count
    event = None
    has_lost = any(decode_scrub(one) for one in mine.records[count:])
    if mine.head.seq > count:
        event = _make_merge_event(kit, theirs, count, mine.records[count:], theirs)
    if has_lost:
        record_lost_scrub(
            kit, mine.id, find_reappeared_records(mine.records[:count], theirs[:count])
        )
    replace_scrubbed(kit.store, mine, _append_event(kit, data, theirs[-1], event))
    conflict = None
    if event is not None:
        why = "it was scrubbed on another machine meanwhile"
        conflict = SyncConflict(mine.id, kit.now(), "merge", mine.head.seq, note=why)
    together = replace(together, notes=(describe_remote_scrub(mine.id),), has_lost_scrub=has_lost)
    return replace(together, conflict=conflict, is_again=_has_merge(mine.records[count:]))


def record_lost_scrub(kit: SyncContext, thread_id: str, shown: Mapping[str, str]) -> None:
    """What was scrubbed here is to be scrubbed again: kept until no such record says it any more.

    Args:
        kit: the parts.
        thread_id: the thread.
        shown: the records in which it stands again (`comparing.find_reappeared_records`).
    """

    def noted(state: SyncState) -> SyncState:
        others = tuple(one for one in state.unscrubbed if one != thread_id)
        all_shown = {**state.shown_again.get(thread_id, {}), **shown}
        again = {**state.shown_again, thread_id: all_shown}
        return replace(state, unscrubbed=(*others, thread_id), shown_again=again)

    kit.pending.change_state(noted)


def confirm_scrub(kit: SyncContext, thread_id: str) -> None:
    """The server has what a scrub has left here. Another text may have been meant by that."""
    state = kit.pending.state()
    if thread_id not in state.unscrubbed:
        return
    lost = state.shown_again.get(thread_id, {})
    events = events_by_id(kit.store.scan(thread_id).records) if lost else {}
    if not any(compute_event_digest(events.get(one, b"")) == shown for one, shown in lost.items()):
        forget_scrub(kit, thread_id)


def forget_scrub(kit: SyncContext, thread_id: str) -> None:
    """Nothing of a thread has to be scrubbed again."""

    def noted(state: SyncState) -> SyncState:
        others = tuple(one for one in state.unscrubbed if one != thread_id)
        again = {one: shown for one, shown in state.shown_again.items() if one != thread_id}
        return replace(state, unscrubbed=others, shown_again=again)

    if thread_id in kit.pending.state().unscrubbed:
        kit.pending.change_state(noted)


def _keep_own_scrub(
    kit: SyncContext,
    mine: LockedThread,
    theirs: list[Record],
    data: bytes,
    compared: JournalComparison,
    together: Reconciliation,
) -> Reconciliation:
    """We have scrubbed: what both have is as we have it, and replaces what the server has.

    What the server has got since stays where it stands: forks on other machines go on from it.
    """
    count = compared.count
    extra = len(theirs) - count
    together = replace(together, size=0, received_count=extra)
    if not extra:
        return together
    new = rechained(data, make_record_cleaner(events_by_id(mine.records[:count])))
    events = [encode_entry(Scrubbed(new.count, theirs[-1].hash, keeps_ids=True))[1]]
    own = mine.records[count:]
    merged = None
    # What a scrub has left says nothing that is not there; but forks may go on from that record.
    bases = TextScanner(kit.store.folders, str).read_bases().values()
    has_forks = any(one.thread == mine.id and one.version > count for one in bases)
    if has_forks or not all(map(decode_scrub, own)):
        merged = _make_merge_event(kit, new.records, count, own, new.records)
    if merged is not None:
        archive_branch(kit.store.folders, mine.id, mine.head, mine.data)
        events.append(merged)
    behind, _ = encode_batch(new.head, kit.now(), events)
    replace_journal(kit.store, mine, new.data + behind)
    note = (
        f"{mine.id} was scrubbed here, and another machine had gone on with it: look whether the "
        "text stands in what it said, and scrub it again then"
    )
    return replace(together, notes=(*together.notes, note))


def make_branch_fork(kit: SyncContext, mine: LockedThread, count: int) -> tuple[str, bytes] | None:
    """Our branch as a thread of its own, which goes on from the last rest both have.

    Its id is made of the branch, so that doing it again makes the same.

    Args:
        kit: the parts.
        mine: our journal.
        count: how many of its records both have.

    Returns:
        Its id and its journal; `None` if that would not be the conversation that it was.
    """
    reader = ThreadReader(kit.store.folders)
    records = mine.records
    try:
        entries = [(one.seq, one.at, decode_entry(one.event)) for one in records]
        rest = rest_at(list(rests(reader.make_initial_fold(records[0]), entries[:count])), count)
        if rest is None:
            return None
        whole, _ = reader.fold_records(records)
        ground, _ = reader.fold_records(records[: rest.version])
        name = sha256(f"{mine.id}@{mine.head.hash}".encode()).hexdigest()
        fork = f"{mine.id[:_ID_PREFIX_LENGTH]}-7{name[:3]}-8{name[3:6]}-{name[6:18]}"
        header = replace(
            ground.header,
            format=FORMAT_VERSION,
            thread=fork,
            parent=None,
            parent_call=None,
            depth=0,
            is_private=False,
            base=Base(mine.id, rest.version, records[rest.version - 1].id),
        )
        first: list[Entry] = [header, *facts_of(ground.machine.config)]
        data, head = encode_batch(Head(), rest.at, [encode_entry(one)[1] for one in first])
        start = sum(map(len, split_journal_lines(mine.data)[: rest.version]))
        written = Head(rest.version, records[rest.version - 1].hash, rest.at, 0)
        for write in split_writes(mine.data[start:]):
            found = scan(write, written)
            written = replace(found.head, size=0)
            events = [bytes(one.event) for one in found.records]
            more, head = encode_batch(head, found.records[0].at, events)
            data += more
        fold, problem = reader.fold_records(scan(data).records)
    except (UnknownEntryError, TreadleError):
        return None
    is_same = (
        not problem
        and list(fold.conversation) == list(whole.conversation)
        and fold.state_kind == whole.state_kind
        and (fold.queued, fold.merging) == (whole.queued, whole.merging)
    )
    return (fork, data) if is_same else None


def _has_mark(records: list[Record], mark: Mark) -> bool:
    return mark.seq <= len(records) and records[mark.seq - 1].hash == mark.hash


def _make_head(mark: Mark) -> Head:
    return Head(mark.seq, mark.hash)
