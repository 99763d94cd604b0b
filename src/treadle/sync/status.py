"""How a home stands to its server, as far as this machine knows. Asks nobody, sends nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.store.local_store import LocalStore
from treadle.sync.backoff import add_seconds
from treadle.sync.cursors import Cursors
from treadle.sync.operations import LocalAvailability, SyncOperation, choose_operation
from treadle.sync.refusals import LOST_SCRUB_TEXT
from treadle.sync.send_queue import PendingSyncEntry, PendingSyncStore, SyncConflict
from treadle.sync.thread_comparison import ThreadComparer

CONFLICT_NOTICE_S: Final = 7 * 86_400
"""Seconds for which a conflict is told of; the thread itself tells of it for ever."""

_SENDING_OPERATIONS: Final = frozenset(
    (SyncOperation.PUSH, SyncOperation.REPLACE, SyncOperation.MERGE, SyncOperation.PARKED),
)
_FETCHING_OPERATIONS: Final = frozenset(
    (SyncOperation.FETCH, SyncOperation.PULL, SyncOperation.MERGE)
)


class StoreSyncStatus(Struct, frozen=True):
    """How a home stands to its server.

    `pending` are the entries of what waits, with what went wrong; `unsent` the threads that have
    something the server has not got, `unfetched` those of which it was seen to have more.
    `conflicts` are those of the last days.
    """

    url: str
    user: str
    synced_at: str
    failed_at: str
    last_error: str
    next_try_at: str
    pending: tuple[PendingSyncEntry, ...]
    unsent: tuple[str, ...]
    unfetched: tuple[str, ...]
    private_count: int
    conflicts: tuple[SyncConflict, ...]


def read_status(
    store: LocalStore, cursors: Cursors, pending: PendingSyncStore, now: str
) -> StoreSyncStatus:
    """How things stand now, from the files of this machine.

    Args:
        store: the threads.
        cursors: how far each thread is synced.
        pending: what waits, and what is known of the server.
        now: the time, in the form of records.

    Raises:
        DiskError: the disk refused.
    """
    state, survey = pending.state(), ThreadComparer(store, cursors.url)
    unsent: list[str] = []
    unfetched: list[str] = []
    private_count = 0
    for thread_id in list_known_threads(store, cursors):
        facts = survey.compare_thread(thread_id, cursors.get(thread_id))
        private_count += facts.here is LocalAvailability.PRIVATE
        operation = choose_operation(replace(facts, is_busy=False))
        if operation in _SENDING_OPERATIONS:
            unsent.append(thread_id)
        if operation in _FETCHING_OPERATIONS:
            unfetched.append(thread_id)
    return StoreSyncStatus(
        cursors.url,
        cursors.user,
        state.synced_at,
        state.failed_at,
        state.last_error,
        state.next_try_at,
        _list_waiting(pending.entries(), state.unscrubbed),
        tuple(unsent),
        tuple(unfetched),
        private_count,
        tuple(one for one in state.conflicts if one.at >= add_seconds(now, -CONFLICT_NOTICE_S)),
    )


def list_known_threads(
    store: LocalStore, cursors: Cursors, others: Iterable[str] = ()
) -> list[str]:
    """Every thread that is here or was synced once, and others; each once."""
    folders = store.folders
    found = (*folders.ids(), *folders.ids(in_trash=True), *cursors.ids(), *others)
    return list(dict.fromkeys(found))


def _list_waiting(
    entries: Mapping[str, PendingSyncEntry], unscrubbed: Iterable[str]
) -> tuple[PendingSyncEntry, ...]:
    """What waits, what waits for a person to scrub it again among it."""
    again = {
        one: PendingSyncEntry(
            one, "replace", parked="held", last_error=LOST_SCRUB_TEXT, found=(LOST_SCRUB_TEXT,)
        )
        for one in unscrubbed
    }
    return tuple({**entries, **again}.values())
