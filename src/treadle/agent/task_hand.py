"""Works on the tasks of a fleet: what a worker asks about each of its jobs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from treadle.agent.builders import open_engine
from treadle.agent.definition import AgentDefinition
from treadle.agent.lost_changes import describe_lost_changes
from treadle.agent.lost_jobs import LostJobs
from treadle.agent.members import Members
from treadle.agent.schedules import Schedules
from treadle.core.task.table import State
from treadle.errors import StoreError, ThreadBusyError, TreadleError, UnknownThreadError
from treadle.fleet.job_mark import (
    CANCELLED_TAG,
    PROBLEM_NAME,
    JobMark,
    describe_deaths,
    find_mark,
    is_over,
)
from treadle.fleet.port import Job, JobEnd, JobState, JobStatus
from treadle.outputs import Output, StateStarted, TurnFinished, TurnOutcome
from treadle.runtime.defaults import open_own_thread
from treadle.runtime.engine import AgentEngine
from treadle.runtime.store_calls import call_beside
from treadle.thread.facts import ExtraSet, Tagged
from treadle.thread.record import Record

if TYPE_CHECKING:  # who works in no repository loads nothing of it
    from treadle.agent.repositories import Checkout

_log = logging.getLogger("treadle.fleet")

BUSY_S: Final = 1.0
"""When a thread is looked at again that somebody else holds."""
STORE_S: Final = 5.0
"""When one is that the store refused."""
MODEL_S: Final = 60.0
"""When a task goes on for which no model answers."""
STRANGER_S: Final = 30.0
"""When a job is tried again whose agent this worker does not have."""
DRAIN_S: Final = 25.0
"""How long a step may take to end when a worker is to stop; those who stop workers wait 30 s."""


class TaskHand:
    """What a worker of a fleet asks (`treadle.fleet.worker.Hand`).

    Args:
        members: the fleet's agents.
        schedules: its tasks that repeat.
        deaths_max: a task whose worker has died so often in a row is set aside.
    """

    def __init__(self, members: Members, schedules: Schedules, deaths_max: int) -> None:
        self._members, self._deaths_max = members, deaths_max
        self._lost, self._schedules = LostJobs(members), schedules

    async def work(self, job: Job, stop: asyncio.Event, cancelled: asyncio.Event) -> JobEnd:
        """Work on the task of a job. See `treadle.fleet.worker.Hand.work`."""
        agent = self._members.agents.get(job.agent)
        if agent is None:
            _log.warning("%s is for %r, whom this worker does not have", job.thread, job.agent)
            return JobEnd(JobStatus.QUEUED, STRANGER_S)
        try:
            return await self._work_or_set_aside(agent, job, stop, cancelled)
        except ThreadBusyError:
            return JobEnd(JobStatus.QUEUED, BUSY_S, job.deaths)
        except StoreError as error:
            _log.warning("%s goes on later: %s", job.thread, error)
            return JobEnd(JobStatus.QUEUED, STORE_S, job.deaths)

    async def _work_or_set_aside(
        self, agent: AgentDefinition, job: Job, stop: asyncio.Event, cancelled: asyncio.Event
    ) -> JobEnd:
        # Behind the last try its thread is only opened, to see whether it is over, or to note why.
        # Where that kills as often again, it is what kills.
        may_open = job.deaths < 2 * self._deaths_max
        try:
            if may_open and cancelled.is_set() and await self._record_cancel(job.thread):
                return JobEnd(JobStatus.CANCELLED)
            if job.deaths < self._deaths_max:
                return await self._work_on(agent, job, stop, cancelled)
            # Its worker may have died behind its last record, before the queue heard of it.
            if may_open and (end := await self._find_last_end(job.thread)) is not None:
                return end
            why = describe_deaths(job.deaths)
        except (ThreadBusyError, StoreError):
            raise
        except TreadleError as error:
            why = error.message
        _log.error("%s is set aside: %s", job.thread, why)
        note = ExtraSet({PROBLEM_NAME: why})
        with suppress(UnknownThreadError):
            if may_open:
                await call_beside(partial(self._members.record, job.thread, note))
        return JobEnd(JobStatus.FAILED)

    async def _record_cancel(self, thread_id: str) -> bool:
        """Record what was cancelled before anybody here took it, if it is not over."""
        fold = await call_beside(partial(self._members.load, thread_id))
        if not is_over(fold) and CANCELLED_TAG not in fold.metadata.tags:
            await call_beside(partial(self._members.record, thread_id, Tagged((CANCELLED_TAG,))))
        return not is_over(fold)

    async def _find_last_end(self, thread_id: str) -> JobEnd | None:
        """How the job of a task is left that is over; `None` if it is not."""
        fold = await call_beside(partial(self._members.load, thread_id))
        is_done = fold.machine.state_name != State.ERROR
        status = JobStatus.DONE if is_done else JobStatus.FAILED
        return JobEnd(status) if is_over(fold) else None

    async def _work_on(
        self, agent: AgentDefinition, job: Job, stop: asyncio.Event, cancelled: asyncio.Event
    ) -> JobEnd:
        opening = partial(open_own_thread, agent.membership.store, job.thread)
        writer = await call_beside(opening, lambda opened: opened.close())
        try:
            async with AsyncExitStack() as stack:
                checkout = None
                mark = find_mark(writer.fold) or JobMark(job.agent)
                agent = agent.vary(mark.model)
                if (repositories := agent.options.get("repositories")) is not None:
                    opened = repositories.open(job.thread, mark.repository, mark.ref)
                    checkout = await stack.enter_async_context(opened)
                engine = await stack.enter_async_context(
                    open_engine(agent, writer, agent.membership.deps, checkout)
                )
                if checkout is not None:
                    await self._tell_what_is_lost(agent, engine, checkout)
                return await self._drive(engine, stop, cancelled)
        except BaseException:
            await call_beside(writer.close)  # nothing, where the engine has had it
            raise

    async def _tell_what_is_lost(
        self, agent: AgentDefinition, engine: AgentEngine, checkout: Checkout
    ) -> None:
        follower = agent.membership.store.follow(engine.thread_id)
        records = await call_beside(
            lambda: [one for one in follower.read_new() if isinstance(one, Record)]
        )
        version = await checkout.find_version(engine.thread_id)
        lost = await describe_lost_changes(
            engine.driver.journal.fold, records, checkout.commit, version, checkout.has_commit
        )
        engine.inform(lost)

    async def _drive(
        self, engine: AgentEngine, stop: asyncio.Event, cancelled: asyncio.Event
    ) -> JobEnd:
        driver = engine.driver
        if CANCELLED_TAG in driver.journal.fold.metadata.tags:
            return JobEnd(JobStatus.CANCELLED)
        if cancelled.is_set() and not is_over(driver.journal.fold):  # while it was prepared
            await driver.journal.record_beside(Tagged((CANCELLED_TAG,)))
            return JobEnd(JobStatus.CANCELLED)

        def leave_after_step(output: Output) -> None:
            # Told before what is due begins: so nothing of the next step does. What a round has
            # changed is committed where it is observed, and belongs to the step.
            has_begun = isinstance(output, StateStarted) and output.state != State.OBSERVING
            if stop.is_set() and has_begun:
                driver.interrupt()

        async def leave_late() -> None:
            await stop.wait()
            await asyncio.sleep(DRAIN_S)
            driver.interrupt()

        async def leave_now() -> None:
            await cancelled.wait()
            driver.interrupt()

        driver.add_listener(leave_after_step)
        waits = [asyncio.create_task(leave_late()), asyncio.create_task(leave_now())]
        try:
            finished = await engine.resume()
        finally:
            for one in waits:
                one.cancel()
        if cancelled.is_set() and not is_over(driver.journal.fold):
            await driver.journal.record_beside(Tagged((CANCELLED_TAG,)))
            return JobEnd(JobStatus.CANCELLED)
        return _find_end(finished, has_ended=is_over(driver.journal.fold))

    async def submit_due(self) -> None:
        """Submit what repeats. See `treadle.fleet.worker.Hand.submit_due`."""
        await self._schedules.submit_due()

    def list_unknown(self, states: Sequence[JobState]) -> list[str]:
        """Threads that may need a job. See `treadle.fleet.worker.Hand.list_unknown`."""
        return self._lost.list_unknown(states)

    def find_lost(self, states: Sequence[JobState], unknown: Sequence[str]) -> list[Job]:
        """Jobs that the queue should have. See `treadle.fleet.worker.Hand.find_lost`."""
        return self._lost.find(states, unknown)


def _find_end(finished: TurnFinished, *, has_ended: bool) -> JobEnd:
    """How a job is left whose task has stopped like this."""
    if finished.outcome is TurnOutcome.DONE:
        return JobEnd(JobStatus.DONE)
    if has_ended:
        return JobEnd(JobStatus.FAILED)
    if finished.outcome is TurnOutcome.APPROVAL:
        return JobEnd(JobStatus.WAITING)
    if finished.outcome is TurnOutcome.INTERRUPTED:
        return JobEnd(JobStatus.QUEUED)
    return JobEnd(JobStatus.QUEUED, MODEL_S)
