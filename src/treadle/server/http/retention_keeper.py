"""Does what the rules of retention say, now and then, behind the answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from anyio import CapacityLimiter, to_thread

from treadle.server.data.database import Database
from treadle.server.http import logs
from treadle.server.refusals import Refusal
from treadle.server.threads.retention_run import run_retention

INTERVAL_S: Final = 3600.0
"""Between two runs, and before the first one: who has said a wrong number has that time."""


class RetentionKeeper:
    """The task of one process; any number of processes may have one.

    Args:
        database: with tables of this version.
        now: the clock, in the form of records.
        notify: is called when something was done: listeners are told.
    """

    def __init__(
        self, database: Database, now: Callable[[], str], notify: Callable[[], None]
    ) -> None:
        self._database = database
        self._now = now
        self._notify = notify
        self._woken = asyncio.Event()
        self._is_stopping = False
        self._limiter = CapacityLimiter(1)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    def wake(self) -> None:
        """Do it now."""
        self._woken.set()

    async def close(self) -> None:
        """End; what is left is done by the next run."""
        self._is_stopping = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _work(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL_S):
                    await self._woken.wait()
            self._woken.clear()
            try:
                done = await to_thread.run_sync(
                    lambda: run_retention(self._database, self._now, lambda: self._is_stopping),
                    limiter=self._limiter,
                )
            except Refusal:
                continue  # the database is away: the next run
            except Exception as error:  # noqa: BLE001  it is in the log; the next run may succeed
                logs.log_event("retention_failed", level=logging.ERROR, error=error)
                continue
            if done.put_away or done.removed or done.skipped:
                logs.log_event(
                    "retention_ran",
                    put_away=done.put_away,
                    removed=done.removed,
                    bytes_removed=done.size,
                    skipped=done.skipped,
                )
                self._notify()
