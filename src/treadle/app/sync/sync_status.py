"""How a thread stands with the server, in a line: from this machine's files alone."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from treadle.errors import TreadleError
from treadle.sync.credentials import Account, find_account, is_logged_in
from treadle.thread.fold import ThreadFold

if TYPE_CHECKING:
    from treadle.store.local import LocalStore
    from treadle.sync.send_queue import Entry


def synced_line(store: LocalStore, fold: ThreadFold) -> str:
    """How far a thread is synced; empty where no server is known, or it never leaves this machine.

    Nothing is asked of the server, and nothing fails.
    """
    if fold.is_private or not is_logged_in(store.places, os.environ):
        return ""
    try:
        account = find_account(store.places, os.environ)
        return "" if account is None else _line(store, account, fold)
    except TreadleError as error:
        return f"unknown: {error.message}"


def _line(store: LocalStore, account: Account, fold: ThreadFold) -> str:
    from treadle.app.sync.sync_cursors import open_cursors
    from treadle.sync.send_queue import Pending

    thread_id = fold.header.thread
    cursor = open_cursors(store, account).get(thread_id)
    pending = Pending(store.folders.disk, store.places)
    entry = pending.entries().get(thread_id)
    version = 0 if cursor is None else cursor.seq
    told = f"version {version} at {account.url}" if version else f"not yet at {account.url}"
    if cursor is not None and cursor.is_purged:
        told = f"removed at {account.url}"
    if entry is not None and (entry.parked or entry.last_error):
        told += f"; {_why(entry)}"
    conflicts = [one for one in pending.state().conflicts if one.thread_id == thread_id]
    if conflicts:
        last = conflicts[-1]
        how = f"thread {last.fork} has the other branch" if last.fork else "both were merged"
        told += f"; another machine had gone on with it at {last.at[:16].replace('T', ' ')}: {how}"
    return told


def _why(entry: Entry) -> str:
    if entry.parked == "held":
        return (
            f"held back: a secret was found in it ({'; '.join(entry.found)}); "
            f"`treadle scrub {entry.thread_id} --found` takes it out"
        )
    if entry.parked:
        return f"refused: {entry.last_error}"
    return f"waits: {entry.last_error}"
