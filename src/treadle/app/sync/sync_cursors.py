"""How far each thread is synced with the server that this machine is logged in to."""

from __future__ import annotations

from treadle.store.local_store import LocalStore
from treadle.sync.credentials import Account
from treadle.sync.cursors import Cursors


def open_cursors(store: LocalStore, account: Account | None) -> Cursors:
    """How far each thread is synced with a server; without one nothing is, anywhere."""
    url, user = ("", "") if account is None else (account.url, account.user)
    return Cursors(store.folders.disk, store.places, url, user)
