"""Sync engines as tests have them: the real one, with what it is given around it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from treadle.errors import StorageBusyError
from treadle.store.local_store import LocalStore
from treadle.sync.context import OnConflict
from treadle.sync.cursors import Cursors
from treadle.sync.engine import SyncEngine
from treadle.sync.ports import Remote
from treadle.sync.send_queue import PendingSyncStore

SERVER: Final = "http://server"
USER: Final = "owner"


def give_up() -> None:
    """Nobody waits where time stands still."""
    raise StorageBusyError("another process has it")


def engine_of(
    store: LocalStore,
    remote: Remote,
    random: Random,
    now: Callable[[], str] | None = None,
    host: str = "here",
    fetches_at_a_time: int = 1,
    **pending: Any,
) -> SyncEngine:
    """An engine over a store and a server."""
    disk = store.folders.disk
    return SyncEngine(
        store,
        remote,
        Cursors(disk, store.places, remote.url, USER),
        PendingSyncStore(disk, store.places, **pending),
        now=now or store.now,
        random=random.random,
        host=host,
        fetches_at_a_time=fetches_at_a_time,
    )


def simulated(
    store: LocalStore, remote: Remote, random: Random, host: str, on_conflict: OnConflict
) -> Callable[[], None]:
    """What a machine of a simulation does when it syncs, sometimes only for one thread."""
    engine = engine_of(store, remote, random, host=host, pause=give_up)

    def work() -> None:
        ids = store.ids()
        chance = random.random()
        if chance < 0.15 and ids:
            engine.send(random.choice(ids))
        elif chance < 0.3 and ids:
            engine.save_and_sync(random.choice(ids), on_conflict=on_conflict)
        else:
            engine.sync(on_conflict=on_conflict, is_wanted=random.random() < 0.5)

    return work


def whole(
    store: LocalStore, remote: Remote, random: Random, host: str, on_conflict: OnConflict
) -> Callable[[], None]:
    """A sync of everything that a person has asked for."""
    engine = engine_of(store, remote, random, host=host, pause=give_up)
    return lambda: void(engine.sync(on_conflict=on_conflict))


def unscrubbed(store: LocalStore) -> tuple[str, ...]:
    """The threads that a person is told to scrub again."""
    return PendingSyncStore(store.folders.disk, store.places).state().unscrubbed


def void(_: object) -> None:
    """Nothing."""
