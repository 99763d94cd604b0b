"""Counts, behind the start of a server, what threads have used that came in before it was done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from anyio import CapacityLimiter, to_thread

from treadle.server.data.database import Database
from treadle.server.http import logs
from treadle.server.refusals import Refusal
from treadle.server.threads.usage_counts import count_thread, find_uncounted_thread

WAIT_S: Final = 1.0
"""Between two tries, and for other writers."""


class UncountedUsage:
    """One thread after the other, until all are counted.

    Args:
        database: of the server.
        now: the clock, in the form of records.
    """

    def __init__(self, database: Database, now: Callable[[], str]) -> None:
        self._database = database
        self._now = now
        self._task: asyncio.Task[None] | None = None
        self._limiter = CapacityLimiter(1)

    def start(self) -> None:
        """Begin, in the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._count())

    async def close(self) -> None:
        """End it; the next start goes on."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _count(self) -> None:
        key: str | None = ""
        while key is not None:
            try:
                key = await to_thread.run_sync(self._count_next, key, limiter=self._limiter)
            except Refusal:  # the database is not there, or others are in the way
                await asyncio.sleep(WAIT_S)
            except Exception as error:  # noqa: BLE001  it is in the log; the next start goes on
                logs.log_event("usage_count_failed", level=logging.ERROR, error=error)
                return

    def _count_next(self, after: str) -> str | None:
        """Count one thread; nothing is written where all are counted, so nobody waits for that."""
        key = self._database.run(partial(find_uncounted_thread, after=after), is_write=False)
        if key is not None:
            work = partial(count_thread, key=key, now=self._now())
            self._database.run(work, is_write=True, wait_s=WAIT_S)
        return key
