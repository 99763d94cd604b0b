"""Agents whose tasks any number of processes work on: what is submitted, and who does it.

A task is in its journal before the queue hears of it, with all that makes its job again. So whoever
dies in between leaves a task that a worker finds, and the queue may lose everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Unpack

from treadle.agent.job_options import JobOptions, Membership
from treadle.agent.limits import FleetLimits
from treadle.agent.members import Members
from treadle.agent.schedules import Schedules
from treadle.agent.submitted_task import SubmittedTask, check_task, submit_task
from treadle.agent.task_hand import TaskHand
from treadle.errors import BuildError, UsageError
from treadle.fleet.job_mark import find_mark
from treadle.fleet.port import DEFAULT_QUEUE, JobState, Scheduler
from treadle.fleet.task_acts import cancel_task, retry_task
from treadle.fleet.worker import DEATHS_MAX, SWEEP_S, FleetWorker
from treadle.runtime.store_calls import call_beside
from treadle.thread.codec import Entry
from treadle.thread.fold import ThreadFold

if TYPE_CHECKING:
    from treadle.agent.agent import Agent
    from treadle.agent.type_variables import AgentDepsT


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
        deaths_max: a task whose worker has died so often in a row is set aside; 1 or more.

    Raises:
        BuildError: `deaths_max` is less.
    """

    def __init__(
        self, scheduler: Scheduler, *, sweep_s: float = SWEEP_S, deaths_max: int = DEATHS_MAX
    ) -> None:
        if deaths_max < 1:
            raise BuildError(f"deaths_max is {deaths_max}, and every task is to be tried once")
        self.scheduler: Final = scheduler
        self._members = Members()
        self.schedules: Final = Schedules(scheduler, self._members)
        """Its tasks that repeat."""
        self.limits: Final = FleetLimits(scheduler, self._members)
        """How many of its tasks are at work at a time."""
        self._sweep_s, self._deaths_max = sweep_s, deaths_max

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
        if agent.name in self._members.agents:
            raise BuildError(f"the fleet has an agent called {agent.name!r} already")
        definition.make_context(deps)
        definition.membership = Membership(self.scheduler, definition.open_store(), deps)
        self._members.agents[agent.name] = definition

    async def submit(
        self, agent: str, prompt: str, *, key: str = "", **job: Unpack[JobOptions]
    ) -> SubmittedTask[Any]:
        """Submit a task to the agent of this name; see `Agent.submit`.

        Raises:
            UsageError: no agent is called so, or as `Agent.submit`.
            StoreError: as `Agent.submit`.
        """
        return await submit_task(self._members.find_agent(agent), prompt, job, key)

    def check(self, agent: str, *, key: str = "", **job: Unpack[JobOptions]) -> None:
        """Raise as `submit` for what no task of this agent can be submitted with; any key can."""
        check_task(self._members.find_agent(agent), job)

    def submitted(self, thread_id: str) -> SubmittedTask[Any]:
        """A task of it, by the id of its thread.

        Raises:
            UsageError: the thread holds no task of an agent of this fleet.
            StoreError: the store refused.
        """
        mark = find_mark(self.load(thread_id))
        if mark is None or mark.agent not in self._members.agents:
            raise UsageError(f"thread {thread_id} is no task of an agent of this fleet")
        return SubmittedTask(self._members.agents[mark.agent], thread_id)

    def find_tasks(self, text: str) -> list[str]:
        """The task with this key, or those whose ids begin or end so; `StoreError` as ever.

        Also of those that ended long ago, which the queue has forgotten.
        """
        return self._members.find_tasks(text)

    @property
    def agents(self) -> list[str]:
        """The names of its agents, in the order in which they were added."""
        return [*self._members.agents]

    def load(self, thread_id: str) -> ThreadFold:
        """A thread of it, as it stands; raises `UnknownThreadError`, or `StoreError`."""
        return self._members.load(thread_id)

    async def jobs(self) -> list[JobState]:
        """The newest job of each thread, and where it stands; not those that ended a week ago.

        Raises:
            StoreError: the queue cannot be reached.
        """
        return await self.scheduler.list()

    async def cancel(self, thread_id: str) -> bool:
        """Have nobody work on a task any more; `retry` takes that back.

        What was begun of a call is told as after a crash.

        If somebody holds the thread, they record it; if they are dead, a worker does that when it
        finds the task.

        Returns:
            Whether there was something to cancel. Who is at work on it has been told then.

        Raises:
            StoreError: the queue or the store refused.
        """
        return await cancel_task(self.scheduler, self._record, thread_id)

    async def retry(self, thread_id: str) -> None:
        """Put a task into the queue that was cancelled or set aside, or whose job has failed.

        Raises:
            UsageError: no task of this fleet has the id, or it is over.
            ThreadBusyError: somebody works on it.
            StoreError: the queue or the store refused.
        """
        await retry_task(self.scheduler, self._record, thread_id)

    async def _record(self, thread_id: str, *facts: Entry) -> ThreadFold:
        return await call_beside(lambda: self._members.record(thread_id, *facts))

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
        hand = TaskHand(self._members, self.schedules, self._deaths_max)
        return FleetWorker(self.scheduler, hand, self._sweep_s, self._deaths_max)
