"""What every part of the sync engine is given: a store, a server, clocks and dice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from treadle.store.local_store import LocalStore
from treadle.sync.cursors import Cursors
from treadle.sync.ports import Remote
from treadle.sync.send_queue import PendingSyncStore, SyncConflict

SecretScanner: TypeAlias = Callable[[Iterable[bytes]], list[str]]
"""(what is about to leave) -> what secrets were found in it, in words that hold none of them."""

Progress: TypeAlias = Callable[[int, int], None]
"""(threads that are done, threads in question): for whoever looks on."""

OnConflict: TypeAlias = Literal["merge", "fork"]


class SyncContext(Struct, frozen=True):
    """The parts.

    `now` gives UTC in the form of records, `random` a number from 0 to 1. `host` is what people
    call this machine. With more than one of `fetches_at_a_time` threads share store and remote.
    """

    store: LocalStore
    remote: Remote
    cursors: Cursors
    pending: PendingSyncStore
    now: Callable[[], str]
    random: Callable[[], float]
    looks: SecretScanner
    host: str = ""
    progress: Progress = lambda _done, _all: None
    fetches_at_a_time: int = 1


class SyncProblem(Struct, frozen=True):
    """A thread that is not synced, and why, for people. `found` names kinds of secrets."""

    thread_id: str
    why: str
    found: tuple[str, ...] = ()


class SyncReport(Struct, frozen=True):
    """What a sync did. Threads are named by their ids.

    `sent` have new records on the server, `received` have new records here. `replaced` were put in
    the place of the server's after a scrub. `removed` are gone from the server, because they are
    private now. `conflicts` had gone on elsewhere too. `held` hold secrets, `refused` were refused
    by the server: neither is tried by itself again. `waiting` are tried again. `notes` are words
    for people. `unreachable` says why the server could not be asked for all; empty if it could,
    `next_try_at` when it is tried next. `private_count` counts threads that stay.
    """

    sent: tuple[str, ...] = ()
    received: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    conflicts: tuple[SyncConflict, ...] = ()
    held: tuple[SyncProblem, ...] = ()
    refused: tuple[SyncProblem, ...] = ()
    waiting: tuple[SyncProblem, ...] = ()
    notes: tuple[str, ...] = ()
    private_count: int = 0
    unreachable: str = ""
    next_try_at: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to be sent or fetched."""
        return not (self.held or self.refused or self.waiting or self.unreachable)


class SyncReportBuilder:
    """What is being reported while it happens."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {}
        self.private_count = 0
        self.unreachable = ""
        self.next_try_at = ""

    def add(self, name: str, item: object) -> None:
        """Add to one of the report's lists; once."""
        found = self.lists.setdefault(name, [])
        if item not in found:
            found.append(item)

    def build_report(self) -> SyncReport:
        """All of it."""
        return SyncReport(
            **{name: tuple(found) for name, found in self.lists.items()},
            private_count=self.private_count,
            unreachable=self.unreachable,
            next_try_at=self.next_try_at,
        )
