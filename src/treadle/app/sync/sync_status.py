"""How a thread, or all of them, stand with the server: from this machine's files alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from treadle.errors import TreadleError
from treadle.sync.credentials import Account, find_account, is_logged_in, require_account
from treadle.thread.fold import ThreadFold

if TYPE_CHECKING:
    from treadle.store.local_store import LocalStore
    from treadle.sync.send_queue import PendingSyncEntry
    from treadle.sync.status import StoreSyncStatus


class SyncStatus(Struct, frozen=True):
    """How all threads stand with the server, and who one is there.

    `unasked` are the threads from before the login about which nobody was asked yet: these wait for
    a person, and `status` does not count them among those that are to be sent.
    """

    url: str
    user: str
    organization: str
    status: StoreSyncStatus
    unasked: tuple[str, ...]


def read_sync_status(store: LocalStore) -> SyncStatus:
    """How things stand. Nothing is asked of the server.

    Raises:
        NotLoggedInError: there is no server.
        DiskError: the disk refused.
    """
    from msgspec.structs import replace

    from treadle.app.sync.first_sync import find_unsent
    from treadle.app.sync.sync_cursors import open_cursors
    from treadle.sync.send_queue import PendingSyncStore
    from treadle.sync.status import read_status

    account = require_account(store.places, os.environ)
    cursors = open_cursors(store, account)
    status = read_status(
        store, cursors, PendingSyncStore(store.folders.disk, store.places), store.now()
    )
    unasked = {one.id for one in find_unsent(store, account).lines} & set(status.unsent)
    unsent = tuple(one for one in status.unsent if one not in unasked)
    return SyncStatus(
        account.url,
        account.user,
        account.organization,
        replace(status, unsent=unsent),
        tuple(sorted(unasked)),
    )


def describe_sync(store: LocalStore, fold: ThreadFold) -> str:
    """How far a thread is synced; empty where no server is known, or it never leaves this machine.

    Nothing is asked of the server, and nothing fails.
    """
    if fold.is_private or not is_logged_in(store.places, os.environ):
        return ""
    try:
        account = find_account(store.places, os.environ)
        return "" if account is None else _describe_cursor(store, account, fold)
    except TreadleError as error:
        return f"unknown: {error.message}"


def _describe_cursor(store: LocalStore, account: Account, fold: ThreadFold) -> str:
    from treadle.app.sync.sync_cursors import open_cursors
    from treadle.sync.send_queue import PendingSyncStore

    thread_id = fold.header.thread
    cursor = open_cursors(store, account).get(thread_id)
    pending = PendingSyncStore(store.folders.disk, store.places)
    entry = pending.entries().get(thread_id)
    version = 0 if cursor is None else cursor.seq
    told = f"version {version} at {account.url}" if version else f"not yet at {account.url}"
    if cursor is not None and cursor.is_purged:
        told = f"removed at {account.url}"
    if entry is not None and (entry.parked or entry.last_error):
        told += f"; {_explain_entry(entry)}"
    conflicts = [one for one in pending.state().conflicts if one.thread_id == thread_id]
    if conflicts:
        last = conflicts[-1]
        how = f"thread {last.fork} has the other branch" if last.fork else "both were merged"
        told += f"; another machine had gone on with it at {last.at[:16].replace('T', ' ')}: {how}"
    return told


def _explain_entry(entry: PendingSyncEntry) -> str:
    if entry.parked == "held":
        return (
            f"held back: a secret was found in it ({'; '.join(entry.found)}); "
            f"`treadle scrub {entry.thread_id} --found` takes it out"
        )
    if entry.parked:
        return f"refused: {entry.last_error}"
    return f"waits: {entry.last_error}"
