"""Syncs whenever something is new, here or on the server, until it is interrupted.

The server says by a stream of changes when to look; journals of this machine are looked at every
second, which costs one look at a folder. What comes while a sync is at work is left to the next.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from typing import Final

from treadle.errors import TreadleError
from treadle.store.disk import FileStat
from treadle.store.folders import JOURNAL_SUFFIX
from treadle.store.local_store import LocalStore
from treadle.sync.backoff import compute_delay_s
from treadle.sync.client import HttpRemote
from treadle.sync.context import SyncReport
from treadle.sync.credentials import Account

POLL_S: Final = 1.0
"""Seconds between two looks at the journals of this machine."""

RETRY_POLLS: Final = 15
"""Looks after which what waits, as for a thread that is open, is tried again."""


class RemoteChangeListener:
    """Hears of changes on the server, in a thread of its own, and says when there is news.

    A stream that breaks is asked for again, later each time it does; what was missed comes with the
    next one, which begins at the last change that was heard of.

    Args:
        account: the server.
        after: the last change that is known.
        news: set whenever there is something to look at.
    """

    def __init__(self, account: Account, after: int, news: threading.Event) -> None:
        self._account = account
        self._after = after
        self._news = news
        self._is_over = threading.Event()

    def begin(self) -> None:
        """Listen from now on. The thread is in nobody's way when the process ends."""
        threading.Thread(target=self._listen, daemon=True, name="changes").start()

    def end(self) -> None:
        """Listen no more than until the next word."""
        self._is_over.set()

    def _listen(self) -> None:
        failures = 0
        while not self._is_over.is_set():
            try:
                with HttpRemote(self._account) as remote:
                    for head in remote.changes(self._after):
                        failures = 0
                        self._after = max(self._after, head.change)
                        self._news.set()
                        if self._is_over.is_set():
                            return
            except TreadleError:
                pass  # the sync itself says what is wrong
            failures += 1
            self._is_over.wait(compute_delay_s(failures, random.random()))  # noqa: S311  a pause


def sync_continuously(
    store: LocalStore,
    account: Account,
    after: Callable[[], int],
    sync: Callable[[], SyncReport],
    tell: Callable[[SyncReport], None],
    *,
    news: threading.Event | None = None,
    look_s: float = POLL_S,
) -> None:
    """Sync for ever; ends when it is interrupted.

    Args:
        store: the threads.
        account: the server.
        after: the last change on the server that was looked at.
        sync: syncs once.
        tell: is given what was done.
        news: set whenever there is something to look at.
        look_s: seconds between two looks at the journals of this machine.
    """
    news = threading.Event() if news is None else news
    listener: RemoteChangeListener | None = None
    try:
        while True:
            news.clear()
            seen = _read_journal_stats(store)
            report = sync()
            tell(report)
            if listener is None and not report.unreachable:
                listener = RemoteChangeListener(account, after(), news)
                listener.begin()
            # A server that cannot be reached is not asked more often for what is new here.
            while report.next_try_at and store.now() < report.next_try_at:
                news.wait(look_s)
            looks = 0
            while (
                not (report.next_try_at or news.wait(look_s)) and _read_journal_stats(store) == seen
            ):
                looks += 1
                if report.waiting and looks >= RETRY_POLLS:
                    break
    finally:
        if listener is not None:
            listener.end()


def _read_journal_stats(store: LocalStore) -> Mapping[str, FileStat]:
    return store.folders.disk.stats(store.folders.threads, JOURNAL_SUFFIX)
