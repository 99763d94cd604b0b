"""A worker: takes jobs, has them worked on, and makes the queue agree with the journals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from treadle.errors import TreadleError
from treadle.fleet.port import Job, JobEnd, JobState, JobStatus, Scheduler

_log = logging.getLogger("treadle.fleet")

SWEEP_S: Final = 15.0
"""How often it is looked for jobs that are stalled, and for threads that have none."""
_FAULT_S: Final = 60.0
"""When a job is tried again whose work has raised what nobody expects."""


class Hand(Protocol):
    """Who knows how a thread is worked on."""

    async def work(self, job: Job, stop: asyncio.Event, cancelled: asyncio.Event) -> JobEnd:
        """Work on the thread of a job until it is over, waits for a person, or is to be left.

        Args:
            job: which.
            stop: when it is set, the step that runs is finished, and the thread is left.
            cancelled: when it is set, the thread is left at once, and marked as cancelled.
        """
        ...

    def find_lost(self, states: Sequence[JobState]) -> list[Job]:
        """Jobs for threads that are to be worked on, and of which the queue knows nothing."""
        ...


class FleetWorker:
    """Works from a queue until it is told to stop.

    Args:
        scheduler: the queue.
        hand: works on threads.
        sweep_s: how often the queue is compared with the journals.
    """

    def __init__(self, scheduler: Scheduler, hand: Hand, sweep_s: float) -> None:
        self._scheduler, self._hand, self._sweep_s = scheduler, hand, sweep_s
        self.running: dict[str, Job] = {}
        """What is being worked on, by thread."""
        self.done_count = 0
        """Jobs that were left, however."""

    async def run(self, queues: Sequence[str], concurrency: int, stop: asyncio.Event) -> None:
        """Take jobs until `stop` is set; what is at work then finishes its step, and is left.

        Raises:
            StoreError: the queue cannot be reached at the start. Later it is waited for.
        """

        async def perform(job: Job, cancelled: asyncio.Event) -> JobEnd:
            self.running[job.thread] = job
            try:
                return await self._hand.work(job, stop, cancelled)
            except Exception:  # noqa: BLE001  a fault of a program's own tool set, say: others go on
                _log.exception("the work on %s has failed; it is tried again", job.thread)
                return JobEnd(JobStatus.QUEUED, _FAULT_S)
            finally:
                self.running.pop(job.thread, None)
                self.done_count += 1

        sweeping = asyncio.create_task(self._sweep_for_ever())
        try:
            await self._scheduler.run(perform, queues, concurrency, stop)
        finally:
            sweeping.cancel()

    async def _sweep_for_ever(self) -> None:
        while True:
            try:
                await self.sweep()
            except TreadleError as error:
                why = f"{error} ({error.hint})" if error.hint else error
                _log.warning("the queue was not compared with the journals: %s", why)
            await asyncio.sleep(self._sweep_s)

    async def sweep(self) -> None:
        """Queue what is stalled, and what a crash has left without a job.

        Raises:
            StoreError: the queue or the store refused.
        """
        if stalled := await self._scheduler.retry_stalled():
            _log.warning("given to others, as their worker is gone: %s", ", ".join(stalled))
        states = await self._scheduler.list()
        if lost := await asyncio.to_thread(self._hand.find_lost, states):
            _log.warning("had no job: %s", ", ".join(job.thread for job in lost))
            await self._scheduler.submit(lost)
