"""How a home stands to its server, as far as this machine knows. Asks nobody, sends nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.store.local_store import LocalStore
from treadle.sync.backoff import later
from treadle.sync.cursors import Cursors
from treadle.sync.decision import Here, Operation, decide
from treadle.sync.refusals import LOST_SCRUB
from treadle.sync.send_queue import Conflict, Entry, Pending
from treadle.sync.survey import Survey

CONFLICT_TOLD_S: Final = 7 * 86_400
"""Seconds for which a conflict is told of; the thread itself tells of it for ever."""

_SENDS: Final = frozenset(
    (Operation.PUSH, Operation.REPLACE, Operation.MERGE, Operation.PARKED),
)
_FETCHES: Final = frozenset((Operation.FETCH, Operation.PULL, Operation.MERGE))


class Status(Struct, frozen=True):
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
    pending: tuple[Entry, ...]
    unsent: tuple[str, ...]
    unfetched: tuple[str, ...]
    private_count: int
    conflicts: tuple[Conflict, ...]


def standing(store: LocalStore, cursors: Cursors, pending: Pending, now: str) -> Status:
    """How things stand now, from the files of this machine.

    Args:
        store: the threads.
        cursors: how far each thread is synced.
        pending: what waits, and what is known of the server.
        now: the time, in the form of records.

    Raises:
        DiskError: the disk refused.
    """
    state, survey = pending.state(), Survey(store)
    unsent: list[str] = []
    unfetched: list[str] = []
    private_count = 0
    for thread_id in all_known(store, cursors):
        facts = survey.facts(thread_id, cursors.get(thread_id))
        private_count += facts.here is Here.PRIVATE
        operation = decide(replace(facts, is_busy=False))
        if operation in _SENDS:
            unsent.append(thread_id)
        if operation in _FETCHES:
            unfetched.append(thread_id)
    return Status(
        cursors.url,
        cursors.user,
        state.synced_at,
        state.failed_at,
        state.last_error,
        state.next_try_at,
        _waiting(pending.entries(), state.unscrubbed),
        tuple(unsent),
        tuple(unfetched),
        private_count,
        tuple(one for one in state.conflicts if one.at >= later(now, -CONFLICT_TOLD_S)),
    )


def all_known(store: LocalStore, cursors: Cursors, others: Iterable[str] = ()) -> list[str]:
    """Every thread that is here or was synced once, and others; each once."""
    folders = store.folders
    found = (*folders.ids(), *folders.ids(in_trash=True), *cursors.ids(), *others)
    return list(dict.fromkeys(found))


def _waiting(entries: Mapping[str, Entry], unscrubbed: Iterable[str]) -> tuple[Entry, ...]:
    """What waits, what waits for a person to scrub it again among it."""
    again = {
        one: Entry(one, "replace", parked="held", last_error=LOST_SCRUB, found=(LOST_SCRUB,))
        for one in unscrubbed
    }
    return tuple({**entries, **again}.values())
