"""Agents whose tasks any number of processes work on: what is submitted, and who does it.

A task is in its journal before the queue hears of it, with all that makes its job again. So whoever
dies in between leaves a task that a worker finds, and the queue may lose everything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, Unpack

from msgspec import Struct

from treadle.agent.builders import open_engine
from treadle.agent.definition import AgentDefinition
from treadle.agent.job_mark import (
    CANCELLED_TAG,
    JobMark,
    JobOptions,
    Membership,
    find_mark,
    is_over,
)
from treadle.agent.lost_jobs import list_lost_jobs
from treadle.agent.submitted_task import SubmittedTask, submit_task
from treadle.errors import (
    BuildError,
    StoreError,
    ThreadBusyError,
    TreadleError,
    UnknownThreadError,
    UsageError,
)
from treadle.fleet.port import DEFAULT_QUEUE, Job, JobEnd, JobState, JobStatus, Scheduler
from treadle.fleet.worker import SWEEP_S, FleetWorker
from treadle.outputs import Output, StateStarted, TurnFinished, TurnOutcome
from treadle.runtime.engine import AgentEngine
from treadle.store.threads import AnyThreads
from treadle.thread.facts import Tagged
from treadle.thread.fold import ThreadFold

if TYPE_CHECKING:
    from treadle.agent.agent import Agent
    from treadle.agent.type_variables import AgentDepsT

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


class _Member(Struct, frozen=True):
    definition: AgentDefinition
    membership: Membership


class Fleet:
    """Agents whose tasks are worked on by whichever process has time.

    All programs of a fleet make the same one: those that submit, and those that work
    (`treadle worker FILE.py:NAME`, or `run`)::

        fleet = Fleet(ProcrastinateScheduler("postgresql://..."))
        support = Agent("support", model=..., tools=[find_order], store=store)
        fleet.add(support)
        handle = await support.submit("Where is order 7?", key="order-7")
        print((await handle.result()).output)

    Args:
        scheduler: the queue; `MemoryScheduler` for one process.
        sweep_s: how often each worker compares the queue with the journals.
    """

    def __init__(self, scheduler: Scheduler, *, sweep_s: float = SWEEP_S) -> None:
        self.scheduler: Final = scheduler
        self._members: dict[str, _Member] = {}
        self._sweep_s = sweep_s
        self._settled: set[str] = set()
        """Threads that need no job any more, or never did."""
        self.drain_s = DRAIN_S
        """How long a step may take to end when a worker is to stop."""

    def add(self, agent: Agent[AgentDepsT, Any], deps: AgentDepsT | None = None) -> None:
        """Let an agent's tasks be submitted, and worked on here.

        Args:
            agent: its name is what jobs know it by.
            deps: what its tools are given in this process.

        Raises:
            BuildError: the fleet has another agent of this name.
            UsageError: `deps` is not of the agent's type.
        """
        definition = agent._definition
        if agent.name in self._members:
            raise BuildError(f"the fleet has an agent called {agent.name!r} already")
        definition.make_context(deps)
        definition.membership = Membership(self.scheduler, definition.open_store(), deps)
        self._members[agent.name] = _Member(definition, definition.membership)

    async def submit(
        self, agent: str, prompt: str, *, key: str = "", **job: Unpack[JobOptions]
    ) -> SubmittedTask[Any]:
        """Submit a task to the agent of this name; see `Agent.submit`.

        Raises:
            UsageError: no agent is called so, or as `Agent.submit`.
            StoreError: as `Agent.submit`.
        """
        if agent not in self._members:
            names = ", ".join(sorted(self._members)) or "nobody"
            raise UsageError(f"the fleet has no agent {agent!r}", hint=f"it has: {names}")
        definition = self._members[agent].definition
        return await submit_task(definition, prompt, JobMark(agent, **job), key)

    def submitted(self, thread_id: str) -> SubmittedTask[Any]:
        """A task of it, by the id of its thread.

        Raises:
            UsageError: the thread holds no task of an agent of this fleet.
            StoreError: the store refused.
        """
        mark = find_mark(self.load(thread_id))
        if mark is None or mark.agent not in self._members:
            raise UsageError(f"thread {thread_id} is no task of an agent of this fleet")
        return SubmittedTask(self._members[mark.agent].definition, thread_id)

    @property
    def agents(self) -> list[str]:
        """The names of its agents, in the order in which they were added."""
        return [*self._members]

    def load(self, thread_id: str) -> ThreadFold:
        """A thread of it, as it stands; raises `UnknownThreadError`, or `StoreError`."""
        for store in self._list_stores():
            with suppress(UnknownThreadError):
                return store.load(thread_id).fold
        raise UnknownThreadError(f"no store of this fleet has a thread {thread_id}")

    async def jobs(self) -> list[JobState]:
        """The newest job of each thread, and where it stands.

        Raises:
            StoreError: the queue cannot be reached.
        """
        return await self.scheduler.list()

    async def cancel(self, thread_id: str) -> bool:
        """Have nobody work on a task any more; `retry` takes that back.

        What was begun of a call is told as after a crash.

        Returns:
            Whether there was something to cancel. Who is at work on it has been told then.

        Raises:
            StoreError: the queue or the store refused.
        """
        with suppress(ThreadBusyError):  # who works on it records it
            self._record(thread_id, Tagged((CANCELLED_TAG,)))
        return await self.scheduler.cancel(thread_id)

    async def retry(self, thread_id: str) -> None:
        """Put a task into the queue that was cancelled, or whose job has failed.

        Raises:
            UsageError: no task of this fleet has the id, or it is over.
            ThreadBusyError: somebody works on it.
            StoreError: the queue or the store refused.
        """
        fold = self._record(thread_id, Tagged((), (CANCELLED_TAG,)))
        mark = find_mark(fold)
        if mark is None or is_over(fold):
            raise UsageError(f"thread {thread_id} has nothing left to be done by a fleet")
        await self.scheduler.submit([mark.make_job(thread_id)])

    def _record(self, thread_id: str, fact: Tagged) -> ThreadFold:
        """Record a fact in a thread, and give it as it stands then."""
        for store in self._list_stores():
            with suppress(UnknownThreadError):
                writer = store.open(thread_id)
                try:
                    writer.stage(fact)
                    writer.write()
                    writer.sync()
                    return writer.fold
                finally:
                    writer.close()
        raise UnknownThreadError(f"no store of this fleet has a thread {thread_id}")

    def _list_stores(self) -> list[AnyThreads]:
        found: list[AnyThreads] = []
        for member in self._members.values():
            if member.membership.store not in found:
                found.append(member.membership.store)
        return found

    async def run(
        self,
        queues: Sequence[str] = (DEFAULT_QUEUE,),
        concurrency: int = 1,
        stop: asyncio.Event | None = None,
    ) -> None:
        """Work on what is submitted, until `stop` is set, or for ever.

        Args:
            queues: of which jobs are taken.
            concurrency: how many tasks at a time.
            stop: what is at work when it is set finishes its step, and is handed over.

        Raises:
            StoreError: the queue cannot be reached at the start. Later it is waited for.
        """
        await self.make_worker().run(queues, concurrency, stop or asyncio.Event())

    def make_worker(self) -> FleetWorker:
        """A worker that can be asked what it is at."""
        return FleetWorker(self.scheduler, self, self._sweep_s)

    # ---- what a worker asks of it (`treadle.fleet.worker.Hand`) ---------------------------------

    async def work(self, job: Job, stop: asyncio.Event, cancelled: asyncio.Event) -> JobEnd:
        """Work on the task of a job. See `treadle.fleet.worker.Hand.work`."""
        member = self._members.get(job.agent)
        if member is None:
            _log.warning("%s is for %r, whom this worker does not have", job.thread, job.agent)
            return JobEnd(JobStatus.QUEUED, STRANGER_S)
        try:
            return await self._work_on(member, job, stop, cancelled)
        except ThreadBusyError:
            return JobEnd(JobStatus.QUEUED, BUSY_S)
        except StoreError as error:
            _log.warning("%s goes on later: %s", job.thread, error)
            return JobEnd(JobStatus.QUEUED, STORE_S)
        except TreadleError as error:
            _log.error("%s cannot be worked on: %s", job.thread, error)
            return JobEnd(JobStatus.FAILED)

    async def _work_on(
        self, member: _Member, job: Job, stop: asyncio.Event, cancelled: asyncio.Event
    ) -> JobEnd:
        definition, deps = member.definition, member.membership.deps
        async with AsyncExitStack() as stack:
            checkout = None
            if (repositories := definition.options.get("repositories")) is not None:
                loaded = await asyncio.to_thread(member.membership.store.load, job.thread)
                mark = find_mark(loaded.fold) or JobMark(job.agent)
                opened = repositories.open(job.thread, mark.repository, mark.ref)
                checkout = await stack.enter_async_context(opened)
            opening = open_engine(definition, job.thread, deps, checkout)
            engine = await stack.enter_async_context(opening)
            return await self._drive(engine, stop, cancelled)

    async def _drive(
        self, engine: AgentEngine, stop: asyncio.Event, cancelled: asyncio.Event
    ) -> JobEnd:
        driver = engine.driver
        if CANCELLED_TAG in driver.journal.fold.metadata.tags:
            return JobEnd(JobStatus.CANCELLED)

        def leave_after_step(output: Output) -> None:
            # Told before what is due begins: so nothing of the next step does.
            if stop.is_set() and isinstance(output, StateStarted):
                driver.interrupt()

        async def leave_late() -> None:
            await stop.wait()
            await asyncio.sleep(self.drain_s)
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
            driver.record(Tagged((CANCELLED_TAG,)))
            return JobEnd(JobStatus.CANCELLED)
        return _find_end(finished, has_ended=is_over(driver.journal.fold))

    def find_lost(self, states: Sequence[JobState]) -> list[Job]:
        """Jobs that the queue should have. See `treadle.fleet.worker.Hand.find_lost`."""
        return list_lost_jobs(self._list_stores(), states, self._settled)


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
