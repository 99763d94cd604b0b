"""A worker: takes jobs, has them worked on, and makes the queue agree with the journals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from treadle.errors import StoreError, TreadleError
from treadle.fleet.port import Job, JobEnd, JobState, JobStatus, Scheduler

_log = logging.getLogger("treadle.fleet")

SWEEP_S: Final = 15.0
"""How often it is looked for jobs that are stalled, threads that have none, what is due again."""
KEPT_S: Final = 7 * 24 * 3600.0
"""After so long the row of a job that is over is removed; its thread stays."""
_FAULT_S: Final = 60.0
"""When a job is tried again whose work has raised what nobody expects."""
_CROWD_S: Final = 2.0
"""When a job is taken again that is to be alone, or that came while another one is."""
DEATHS_MAX: Final = 5
"""So often in a row the worker of a job may die at it."""


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

    def list_unknown(self, states: Sequence[JobState]) -> list[str]:
        """Threads of which these jobs say nothing and which may need one, the newest first.

        So many at a time; others when these have been looked at.
        """
        ...

    def find_lost(self, states: Sequence[JobState], unknown: Sequence[str]) -> list[Job]:
        """Jobs for threads that are to be worked on, and of which the queue knows nothing.

        Args:
            states: what it knows of jobs that are not over, and of these threads.
            unknown: what `list_unknown` has found.
        """
        ...

    async def submit_due(self) -> None:
        """Submit the tasks that repeat and are due; raises `StoreError`."""
        ...


class FleetWorker:
    """Works from a queue until it is told to stop.

    Args:
        scheduler: the queue.
        hand: works on threads.
        sweep_s: how often the queue is compared with the journals.
        deaths_max: the last try of a job that is left by so many deaths is made alone: not each one
            that stood beside what kills is to be taken for it.
    """

    def __init__(
        self, scheduler: Scheduler, hand: Hand, sweep_s: float, deaths_max: int = DEATHS_MAX
    ) -> None:
        self._scheduler, self._hand, self._sweep_s = scheduler, hand, sweep_s
        self._deaths_max, self._suspect, self._clear_until = deaths_max, "", 0.0
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
            if not self._may_begin(job):
                return JobEnd(JobStatus.QUEUED, _CROWD_S, job.deaths)
            self.running[job.thread] = job
            try:
                return await self._hand.work(job, stop, cancelled)
            except Exception:  # noqa: BLE001  a fault of a program's own tool set, say: others go on
                _log.exception("the work on %s has failed; it is tried again", job.thread)
                return JobEnd(JobStatus.QUEUED, _FAULT_S)
            finally:
                self.running.pop(job.thread, None)
                if self._suspect == job.thread:
                    self._suspect = ""
                self.done_count += 1

        sweeping = asyncio.create_task(self._sweep_for_ever())
        try:
            await self._scheduler.run(perform, queues, concurrency, stop)
        finally:
            sweeping.cancel()

    def _may_begin(self, job: Job) -> bool:
        """Whether a job is begun here now; one at its last try, if nothing else is at work.

        No other is begun until then. It waits in the queue: here others' deaths would count for it.
        """
        now = asyncio.get_running_loop().time()
        if not 0 < job.deaths >= self._deaths_max - 1:
            return not self._suspect and now >= self._clear_until
        if self.running:
            self._clear_until = now + 2 * _CROWD_S
            return False
        self._suspect, self._clear_until = job.thread, 0.0
        return True

    async def _sweep_for_ever(self) -> None:
        while True:
            try:
                await self.sweep()
            except TreadleError as error:
                why = f"{error} ({error.hint})" if error.hint else error
                _log.warning("the queue was not compared with the journals: %s", why)
            await asyncio.sleep(self._sweep_s)

    async def sweep(self) -> None:
        """Queue what is stalled, what a crash has left without a job, and what is due again.

        Raises:
            StoreError: the queue or the store refused.
        """
        if stalled := await self._scheduler.retry_stalled():
            _log.warning("given to others, as their worker is gone: %s", ", ".join(stalled))
        states = await self._scheduler.list_open()
        # Of threads whose job is over, each worker asks once.
        unknown = await asyncio.to_thread(self._hand.list_unknown, states)
        if unknown:
            states += await self._scheduler.find(unknown)
        if lost := await asyncio.to_thread(self._hand.find_lost, states, unknown):
            # No fault: queues in memory start empty, and one may be between journal and queue.
            _log.info("had no job: %s", ", ".join(job.thread for job in lost))
            await self._submit_each(lost)
        await self._hand.submit_due()
        await self._scheduler.remove_ended(KEPT_S)

    async def _submit_each(self, jobs: Sequence[Job]) -> None:
        """Queue these; one that cannot be queued keeps no other out."""
        entering = (self._scheduler.submit([one]) for one in jobs)
        done = await asyncio.gather(*entering, return_exceptions=True)
        for job, error in zip(jobs, done, strict=True):
            if isinstance(error, StoreError):
                _log.warning("%s has no job: %s", job.thread, error)
            elif error is not None:
                raise error
