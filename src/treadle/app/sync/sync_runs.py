"""Brings the threads of this machine and those of the server together: once, or until the end."""

from __future__ import annotations

import os
from collections.abc import Callable

from msgspec import Struct

from treadle.app.sync.continuous_sync import sync_continuously
from treadle.app.sync.first_sync import ConfirmFirstSync, NothingSent, choose_excluded_threads
from treadle.app.sync.sync_engine import open_engine
from treadle.store.index.lookup import Index
from treadle.store.local_store import LocalStore
from treadle.sync.context import OnConflict, Progress, SyncReport
from treadle.sync.credentials import Account, require_account
from treadle.sync.refusals import LOST_SCRUB_TEXT
from treadle.sync.send_queue import PendingSyncStore


class SyncRunRequest(Struct, frozen=True):
    """What a person wants to be synced: these threads, or all; and what becomes of conflicts.

    `ask` is asked before threads from before the login are sent for the first time.
    """

    thread_ids: tuple[str, ...] = ()
    on_conflict: OnConflict = "merge"
    ask: ConfirmFirstSync = lambda _: None


class SyncOutcome(Struct, frozen=True):
    """What a sync did, and the threads that it left, as nobody could be asked about them."""

    report: SyncReport
    left: tuple[str, ...] = ()


def synchronize(
    store: LocalStore,
    request: SyncRunRequest,
    *,
    on_start: Callable[[str], None],
    progress: Progress,
) -> SyncOutcome | NothingSent:
    """Sync once.

    `on_start` is told the server before the first request, `progress` how far it is.

    Raises:
        NotLoggedInError: there is no server, or it does not know this user.
    """
    account = require_account(store.places, os.environ)
    left = _choose_excluded(store, account, request)
    if isinstance(left, NothingSent):
        return left
    with open_engine(store, account, progress=progress) as (engine, _, _):
        on_start(account.url)
        report = engine.sync(
            request.thread_ids or None, on_conflict=request.on_conflict, excluded_ids=left
        )
    _index_received(store, report)
    return SyncOutcome(report, left)


def keep_synchronized(
    store: LocalStore,
    request: SyncRunRequest,
    *,
    on_start: Callable[[str, tuple[str, ...]], None],
    on_outcome: Callable[[SyncOutcome], None],
) -> NothingSent | None:
    """Sync until interrupted.

    `on_start` is told the server, and the threads that are left out until they are named;
    `on_outcome` what each sync did.

    Raises:
        NotLoggedInError: as `synchronize`.
    """
    account = require_account(store.places, os.environ)
    left = _choose_excluded(store, account, request)
    if isinstance(left, NothingSent):
        return left
    pending = PendingSyncStore(store.folders.disk, store.places)
    with open_engine(store, account) as (engine, cursors, _):

        def sync() -> SyncReport:
            # What has been named since is sent like all others.
            still = [one for one in left if cursors.get(one) is None]
            return engine.sync(
                request.thread_ids or None,
                on_conflict=request.on_conflict,
                is_wanted=False,
                excluded_ids=still,
            )

        def report_outcome(report: SyncReport) -> None:
            _index_received(store, report)
            on_outcome(SyncOutcome(report))

        on_start(account.url, left)
        sync_continuously(store, account, lambda: pending.state().change, sync, report_outcome)
    return None


def is_scrub_lost(found: tuple[str, ...]) -> bool:
    """Whether what was found in a thread is a text that nobody here knows any more."""
    return LOST_SCRUB_TEXT in found


def _choose_excluded(
    store: LocalStore, account: Account, request: SyncRunRequest
) -> tuple[str, ...] | NothingSent:
    return () if request.thread_ids else choose_excluded_threads(store, account, request.ask)


def _index_received(store: LocalStore, report: SyncReport) -> None:
    """Have the index look at what came: what another machine has scrubbed leaves it at once."""
    if not report.received:
        return
    index = Index(store)
    try:
        index.list_threads(limit=1)
    finally:
        index.close()
