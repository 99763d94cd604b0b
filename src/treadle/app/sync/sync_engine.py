"""What a command syncs with: the engine, made of this user's store, server and secrets."""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from treadle.app.sync.sync_cursors import open_cursors
from treadle.runtime.defaults import make_user_redactor
from treadle.secrets.exit_scan import Looker
from treadle.store.local_store import LocalStore
from treadle.sync.client import HttpRemote
from treadle.sync.context import Progress, SecretScanner
from treadle.sync.credentials import Account
from treadle.sync.cursors import Cursors
from treadle.sync.engine import SyncEngine
from treadle.sync.send_queue import PendingSyncStore

FETCHES_AT_A_TIME: Final = 8
"""As many as there are connections: most of a fetch is waiting for the disk and the network."""


@contextmanager
def open_engine(
    store: LocalStore,
    account: Account,
    *,
    progress: Progress = lambda _done, _all: None,
    looks: SecretScanner | None = None,
) -> Generator[tuple[SyncEngine, Cursors, HttpRemote], None, None]:
    """The engine of this user, how far each thread is synced, and the server.

    Nothing is sent by opening it. All that is to be sent is looked at once more for secrets that
    this machine knows today: records are kept as they are, or kept back.

    Args:
        store: the threads.
        account: the server.
        progress: is told how far a sync is.
        looks: what looks for secrets; by default for those that this machine knows.
    """
    disk = store.folders.disk
    cursors = open_cursors(store, account)
    with HttpRemote(account) as remote:
        engine = SyncEngine(
            store,
            remote,
            cursors,
            PendingSyncStore(disk, store.places),
            now=store.now,
            random=random.random,
            find_secrets=looks or Looker(make_user_redactor()).describe_findings,
            progress=progress,
            fetches_at_a_time=FETCHES_AT_A_TIME,
        )
        yield engine, cursors, remote
