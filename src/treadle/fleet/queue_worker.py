"""A worker of a queue on Procrastinate: takes jobs, says that it lives, leaves what is its own.

Connections are cut and databases restarted: each step is tried until it is known to have been done.
What a step may have done without saying so is looked up, before the next job is taken.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from procrastinate import App, exceptions
from procrastinate.jobs import Job as Row
from psycopg import Error
from psycopg_pool import PoolTimeout

from treadle.fleet import queue_limits
from treadle.fleet.port import JobEnd, JobStatus, Perform
from treadle.fleet.queue_cancels import is_cancelled, list_cancelled
from treadle.fleet.queue_rows import leave_row, read_job
from treadle.fleet.queue_tables import ADD_WORKER, PREFIX

_log = logging.getLogger("treadle.fleet")

_TROUBLE: Final = (exceptions.ConnectorException, PoolTimeout, Error, OSError)
_PAUSE_S: Final = (0.1, 0.5, 1.0, 2.0)
"""Before each new try; the last one for all that follow."""
_LAST_TRIES: Final = 10
"""So often a worker that is to stop tries to leave a job; then its heartbeat's end does it."""
_FORGOTTEN_S: Final = 3600.0
"""Workers that were not heard of for so long are removed."""

_BEAT: Final = (
    "UPDATE procrastinate_workers SET last_heartbeat = now() WHERE id = %(worker)s RETURNING id"
)


class QueueWorker:
    """Takes jobs of some queues, so many at a time.

    Args:
        app: the queue.
        perform: works on a job.
        queues: by their names in the database.
        concurrency: how many jobs at a time.
        beats: how often it says that it lives, and how long it is believed without it.
    """

    def __init__(
        self,
        app: App,
        perform: Perform,
        queues: Sequence[str],
        concurrency: int,
        beats: tuple[float, float],
    ) -> None:
        self._app, self._manager = app, app.job_manager
        self._perform, self._queues, self._concurrency = perform, queues, concurrency
        self._heartbeat_s, self._stalled_s = beats
        self._worker: int | None = None
        self._running: dict[asyncio.Task[None], tuple[Row, asyncio.Event]] = {}
        self._news = asyncio.Event()
        self._is_in_doubt = False
        self._is_over = False

    async def run(self, stop: asyncio.Event, poll_s: float) -> None:
        """Work until `stop` is set; see `Scheduler.run`."""
        sides = [asyncio.create_task(self._beat()), asyncio.create_task(self._listen())]
        stopping = asyncio.create_task(self._wake_at(stop))
        this = asyncio.current_task()
        try:
            while not stop.is_set():
                # In a pool of connections `asyncio.wait_for` of Python 3.11 loses cancellations.
                if this is not None and this.cancelling():
                    raise asyncio.CancelledError
                self._news.clear()
                if len(self._running) >= self._concurrency or not await self._take(stop):
                    await self._wait(poll_s)
            while self._running:
                await asyncio.wait(self._running)
            await self._unregister()
        finally:
            # Said too, as theirs are lost likewise: a heartbeat would keep the dead alive.
            self._is_over = True
            for task in (*sides, stopping, *self._running):
                task.cancel()

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._news.set()

    async def _wait(self, limit_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._news.wait()

    async def _take(self, stop: asyncio.Event) -> bool:
        """Take a job, if there is one."""
        try:
            if self._worker is None:
                await self._manager.prune_stalled_workers(_FORGOTTEN_S)
                self._worker = await self._register()
            await self._settle_doubt()
            self._is_in_doubt = True  # if the answer is lost, it may be ours all the same
            row = await queue_limits.take_job(self._app, self._queues, self._worker)
            self._is_in_doubt = False
        except _TROUBLE as error:
            _log.warning("no job could be taken: %s", error.__cause__ or error)
            await self._wait(_PAUSE_S[-1])
            return False
        if row is None:
            return False
        row = row.evolve(worker_id=self._worker)
        cancelled = asyncio.Event()
        if is_cancelled(row):
            cancelled.set()
        task = asyncio.create_task(self._work(row, cancelled, stop))
        self._running[task] = (row, cancelled)
        task.add_done_callback(self._forget)
        return True

    async def _register(self) -> int:
        worker = await self._manager.register_worker()
        await self._app.connector.execute_query_all_async(
            ADD_WORKER,
            id=worker,
            name=f"{socket.gethostname()}:{os.getpid()}",
            queues=[name.removeprefix(PREFIX) for name in self._queues],
            concurrency=self._concurrency,
            stalled_s=self._stalled_s,
        )
        return worker

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        self._news.set()

    async def _settle_doubt(self) -> None:
        """Leave what was taken without our knowing."""
        if not self._is_in_doubt:
            return
        known = {row.id for row, _ in self._running.values()}
        taken = await self._manager.list_jobs_async(status="doing", worker_id=self._worker)
        for row in taken:
            if row.id not in known:
                end = JobEnd(JobStatus.QUEUED, deaths=read_job(row).deaths)
                await leave_row(self._app, row, end)
        self._is_in_doubt = False

    async def _work(self, row: Row, cancelled: asyncio.Event, stop: asyncio.Event) -> None:
        end = await self._perform(read_job(row), cancelled)
        tries = 0
        while True:
            try:
                if not await leave_row(self._app, row, end):
                    _log.warning("the job of %s was given to another worker", row.lock)
                return
            except _TROUBLE as error:
                tries += 1
                if stop.is_set() and tries >= _LAST_TRIES:
                    _log.warning("the job of %s is left as it is: %s", row.lock, error)
                    return
                await asyncio.sleep(_PAUSE_S[min(tries, len(_PAUSE_S)) - 1])

    async def _unregister(self) -> None:
        if self._worker is not None:
            try:
                await self._manager.unregister_worker(self._worker)
            except _TROUBLE as error:
                _log.warning("the worker is not taken off the list: %s", error)

    async def _beat(self) -> None:
        while not self._is_over:
            await asyncio.sleep(self._heartbeat_s)
            if self._worker is None:
                continue
            try:
                found = await self._app.connector.execute_query_all_async(
                    _BEAT, worker=self._worker
                )
                if not found:  # we slept so long that we were forgotten
                    self._worker = None
                await self._ask_what_is_cancelled()
            except _TROUBLE as error:
                _log.warning("the heartbeat was not heard: %s", error.__cause__ or error)

    async def _ask_what_is_cancelled(self) -> None:
        """By threads: who has slept may be at work on what another one was given."""
        if threads := [str(row.lock) for row, _ in self._running.values()]:
            found = await list_cancelled(self._app, threads)
            for row, cancelled in self._running.values():
                if row.lock in found:
                    cancelled.set()

    async def _listen(self) -> None:
        """Hear of new jobs and of cancelled ones; who hears nothing looks by itself."""
        while not self._is_over:
            try:
                await self._manager.listen_for_jobs(on_notification=self._hear, queues=self._queues)
            except _TROUBLE:
                await asyncio.sleep(_PAUSE_S[-1])

    async def _hear(self, *, channel: str, notification: Any) -> None:
        if notification["type"] == "abort_job_requested":
            for row, cancelled in self._running.values():
                if row.id == notification["job_id"]:
                    cancelled.set()
        self._news.set()
