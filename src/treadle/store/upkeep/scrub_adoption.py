"""Taking over a journal out of which another machine has taken a text, and the text with it.

The text may stand in what this machine has made of the old journal: in snapshots of the threads
that go on from it, and in branches of it that are kept. All of that goes first, so that the same
again finishes what was stopped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import msgspec

from treadle.store.branch_archive import archive_branch, list_archived_branches
from treadle.store.file_replacement import replace_file
from treadle.store.folders import SNAPSHOT_SUFFIX
from treadle.store.journal import convert_os_errors, read_journal
from treadle.store.live_answer import remove_live_answer
from treadle.store.local_store import LocalStore
from treadle.store.record_adoption import LockedThread, replace_journal
from treadle.store.thread_requests import ThreadRequests
from treadle.store.upkeep.text_scan import TextScanner
from treadle.store.upkeep.trash import Trash
from treadle.thread.branches import collect_merged_branch, map_events_by_id
from treadle.thread.codec import strip_attachment_mark
from treadle.thread.facts import Base
from treadle.thread.record import Head, Record, scan_journal
from treadle.thread.scrub import replace_events
from treadle.thread.snapshot import decode_snapshot


def replace_scrubbed(store: LocalStore, thread: LockedThread, data: bytes) -> None:
    """Put a scrubbed journal in the place of that of a thread which is held.

    Args:
        store: where it is.
        thread: the thread, as it was before.
        data: the whole new journal.

    Raises:
        ThreadBusyError: a thread that goes on from it is open, and has the text in memory; nothing
            was changed.
        StorageBusyError: another process moves, removes or scrubs threads; nothing was changed.
        StoreError: as `replace_journal`; it is as it was, or as it is to be.
    """
    records = scan_journal(data).records
    events = map_events_by_id(records)
    with ExitStack() as held:
        held.enter_context(Trash(store).hold_lock())
        bases = TextScanner(store.folders, str).read_bases()
        forks = _find_forks(thread.id, bases)
        for fork in forks:
            held.callback(store.folders.disk.close, store.lock(fork))
        for one in list_archived_branches(store.folders, thread.id):
            with convert_os_errors("read", one.path):
                old = store.folders.disk.read(one.path)
            new = _refresh_branch(old, events)
            if new != old:
                replace_file(store.folders.disk, one.path, new)
        own = [bases[fork] for fork in forks if bases[fork].thread == thread.id]
        if any(_is_base_lost(base, thread.records, records) for base in own):
            archive_branch(
                store.folders, thread.id, thread.head, _refresh_branch(thread.data, events)
            )
        for fork in forks:
            _remove_snapshot(store, fork)
        for one_id in (thread.id, *forks):
            remove_live_answer(store.places, one_id)
            ThreadRequests(store.folders.disk, store.places, one_id).remove_all()
        replace_journal(store, thread, data)


def _find_forks(thread_id: str, bases: Mapping[str, Base]) -> list[str]:
    """All that goes on from a thread, at any depth."""
    found: dict[str, None] = {}
    todo = [thread_id]
    while todo:
        one = todo.pop()
        more = [fork for fork, base in bases.items() if base.thread == one and fork not in found]
        found.update(dict.fromkeys(more))
        todo += more
    return [one for one in found if one != thread_id]


def _refresh_branch(data: bytes, events: Mapping[str, bytes]) -> bytes:
    """A branch with its records as they are in the scrubbed journal, as far as they are there."""
    return (
        replace_events(data, make_record_cleaner(events)).data
        + data[scan_journal(data).head.size :]
    )


def make_record_cleaner(events: Mapping[str, bytes]) -> Callable[[Record, bytes, bytes], bytes]:
    """What becomes of a record, as `rechained` asks.

    A merge may say a record again that stands in the thread already: that one is changed too.

    Args:
        events: the scrubbed events of records, by id.
    """

    def event_of(record: Record, _before: bytes, _after: bytes) -> bytes:
        event = events.get(record.id, bytes(record.event))
        if record.id in events or b'"merged' not in event:
            return event
        plain = msgspec.json.decode(event)
        if strip_attachment_mark(plain["type"]) != "merged":
            return event
        records = [_clean_copy(one, events) for one in plain["records"]]
        is_same = records == plain["records"]
        return event if is_same else msgspec.json.encode({**plain, "records": records})

    return event_of


def _clean_copy(copy: dict[str, Any], events: Mapping[str, bytes]) -> dict[str, Any]:
    event = events.get(copy["hash"])
    return copy if event is None else {**copy, "event": msgspec.json.decode(event)}


def _is_base_lost(base: Base, old: list[Record], new: list[Record]) -> bool:
    """Whether a fork goes on from a record that the old journal or a merge in it has alone."""

    def has_it(records: list[Record]) -> bool:
        is_own = any(one.is_at(base.version, base.hash) for one in records)
        return is_own or collect_merged_branch(records, base.version, base.hash) is not None

    return has_it(old) and not has_it(new)


def _remove_snapshot(store: LocalStore, thread_id: str) -> None:
    """Remove a snapshot, which is a cache; one that knows more than its journal stays."""
    path, in_trash = store.folders.find(thread_id)
    name = store.folders.path(thread_id, SNAPSHOT_SUFFIX, in_trash=in_trash)
    disk = store.folders.disk
    with convert_os_errors("remove", name):
        if disk.stat(name) is None:
            return
        snapshot = decode_snapshot(disk.read(name))
        found = read_journal(disk, path, Head())
        if snapshot is not None and (found is None or snapshot.head.seq > found.head.seq):
            return
        disk.unlink(name)
        disk.sync_folder(os.path.dirname(name))
