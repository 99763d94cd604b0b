"""A task that was submitted to a fleet, as every program sees it that knows its id or key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final, Generic, cast

from msgspec.structs import replace

from treadle.agent.builders import make_builder, open_engine
from treadle.agent.decisions import make_approvals, make_rejections
from treadle.agent.definition import AgentDefinition
from treadle.agent.job_options import JobOptions, Membership
from treadle.agent.result import Result
from treadle.agent.type_variables import OutputT
from treadle.core.approval import Decision, Question
from treadle.core.task.machine import TaskMachine
from treadle.core.task.table import State
from treadle.errors import (
    AgentError,
    AgentFailed,
    ApprovalNeeded,
    BudgetExceeded,
    StoreError,
    UnknownThreadError,
    UsageError,
)
from treadle.fleet.job_mark import JobMark, find_dead_end, find_mark
from treadle.fleet.port import JobState
from treadle.fleet.task_acts import ANSWERED
from treadle.runtime.output_modes import find_output_mode
from treadle.runtime.store_calls import call_beside
from treadle.store.thread_follower import JournalChange
from treadle.store.threads import get_organization_finder
from treadle.thread.facts import Recovered
from treadle.thread.fold import ThreadFold
from treadle.thread.record import Record

POLL_S: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Between looks at a journal in which nothing is new; the last one for all that follow."""
ASK_S: Final = 10.0
"""So often the queue is asked about a task of which nothing is new."""
NAME_LENGTH_MAX: Final = 500
"""Characters of a user, an organization or a queue."""
PRIORITY_MAX: Final = 1000

# Whoever goes on is told that nobody died.
_SUBMITTED: Final = Recovered("it waits for a worker of its fleet", "it was submitted")


class SubmittedTask(Generic[OutputT]):
    """A task on which some worker of a fleet works. `Agent.submit` and `Agent.submitted` give one.

    It holds nothing: any number of processes may have one of the same task.

    Args:
        definition: the agent, which is in a fleet.
        thread_id: the thread of the task.
    """

    def __init__(self, definition: AgentDefinition, thread_id: str) -> None:
        self.id: Final = thread_id
        self._definition, self._membership = definition, get_membership(definition)

    async def result(self) -> Result[OutputT]:
        """Wait until it is over, and give its answer.

        Raises:
            BudgetExceeded: a limit of steps, tokens, cost or time is used up.
            AgentFailed: the task ended without an answer.
            ApprovalNeeded: a call waits for a person; `approve` or `reject`, and wait again.
            AgentError: it was cancelled, or cannot be worked on; the message says why.
            UnknownThreadError: its thread is gone, or in the trash.
            StoreError: the store refused.
        """
        looks = self._look()
        while (found := self._find_result((await anext(looks))[0])) is None:
            pass
        return found

    def _find_result(self, fold: ThreadFold) -> Result[OutputT] | None:
        machine = fold.machine
        assert isinstance(machine, TaskMachine)
        memory, hint = machine.memory, f"`treadle trace {self.id}` tells how it got there"
        if machine.is_over and machine.state_name != State.ERROR:
            form, text = self._definition.form, memory.final_answer or ""
            output = cast("Any", text) if form is None else form.decode(text)
            mode = "text" if form is None else find_output_mode(machine.conversation)
            usage = memory.total_usage
            return Result(output, text, self.id, fold.version, usage, cast("Any", mode))
        if machine.is_over:
            kind = BudgetExceeded if memory.exceeded else AgentFailed
            raise kind(memory.error or "Unknown error", hint=hint)
        if machine.questions:
            calls = [f"{one.call.tool_name} {one.call.arguments_json}" for one in machine.questions]
            raise ApprovalNeeded(self.id, calls)
        self._check_prospect(fold)
        return None

    def _check_prospect(self, fold: ThreadFold, state: JobState | None = None) -> None:
        if why := find_dead_end(fold, state):
            raise AgentError(
                why, hint=f"`treadle fleet retry {self.id}`, or fleet.retry(ID), has it tried again"
            )

    async def follow(self) -> AsyncGenerator[Record, None]:
        """Every record of the task, from the first one on, until it is over.

        Raises:
            AgentError: all is read, and nobody goes on with it: as `result`.
            UnknownThreadError: there is no such thread, or no more.
            StoreError: the store refused, or the thread is damaged.
        """
        read = 0
        async for fold, new in self._look():
            for one in new:
                yield one
            read = max([read, *(one.seq for one in new)])
            machine = fold.machine
            if read >= fold.version:
                if isinstance(machine, TaskMachine) and machine.is_over:
                    return
                self._check_prospect(fold)

    async def _look(self) -> AsyncGenerator[tuple[ThreadFold, list[Record]], None]:
        """The thread as it stands, with what is new; and again whenever something was recorded."""
        follower, store, idle = self._membership.store.follow(self.id), self._membership.store, 0
        loop, ask_at, fold = asyncio.get_running_loop(), 0.0, None
        while True:
            if found := await call_beside(lambda: [*follower.read_new()]):
                if JournalChange.TRASHED in found or JournalChange.REMOVED in found:
                    raise UnknownThreadError(f"the thread {self.id} of the task was removed")
                idle = 0
                fold = (await call_beside(partial(store.load, self.id))).fold
                yield fold, [one for one in found if isinstance(one, Record)]
            else:
                idle = min(idle + 1, len(POLL_S) - 1)
                if fold is not None and idle == len(POLL_S) - 1 and loop.time() >= ask_at:
                    ask_at = loop.time() + ASK_S
                    await self._ask_queue(fold)
            await asyncio.sleep(POLL_S[idle])

    async def _ask_queue(self, fold: ThreadFold) -> None:
        """Raise if nobody goes on with it, and has begun to a moment later: `retry` has steps."""
        scheduler, store = self._membership.scheduler, self._membership.store
        try:
            if find_dead_end(fold, *await scheduler.find([self.id])):
                await asyncio.sleep(POLL_S[-1])
                states = await scheduler.find([self.id])
                fold = (await call_beside(partial(store.load, self.id))).fold
                self._check_prospect(fold, *states)
        except StoreError:  # the queue comes back; the store is asked at the next look
            return

    async def find_questions(self) -> tuple[Question, ...]:
        """The calls that wait for a person's word. Raises `StoreError` if the store refused."""
        fold = (await call_beside(partial(self._membership.store.load, self.id))).fold
        return tuple(fold.machine.questions)

    async def approve(self, *questions: Question) -> None:
        """Say yes to these calls, or to all that wait; a worker goes on then.

        Raises:
            UsageError: no call waits.
            ThreadBusyError: somebody works on it.
            StoreError: the store or the queue refused.
        """
        await self._decide(make_approvals(questions or await self.find_questions()))

    async def reject(self, *questions: Question, reason: str = "") -> None:
        """Say no to these calls, or to all that wait. Raises as `approve`.

        Args:
            questions: the calls.
            reason: what the model is told.
        """
        await self._decide(make_rejections(questions or await self.find_questions(), reason))

    async def _decide(self, decisions: Mapping[str, Decision]) -> None:
        """The answer is durable before the queue hears of it; if that is lost, a worker sees it."""
        membership = self._membership
        fold = await call_beside(partial(membership.store.load, self.id))
        model = (find_mark(fold.fold) or JobMark("")).model
        agent = self._definition.vary(model)
        async with open_engine(agent, self.id, membership.deps) as engine:
            driver = engine.driver
            entries = driver.approvals.make_entries(decisions, (), {})
            await driver.journal.record_beside(*entries, ANSWERED)
            mark = find_mark(driver.journal.fold) or JobMark(self._definition.name)
        await membership.scheduler.submit([mark.make_job(self.id)])


def check_task(definition: AgentDefinition, job: JobOptions) -> tuple[AgentDefinition, JobMark]:
    """The agent as a task has it, and the mark of that; raises as `Agent.submit`."""
    told: dict[str, Any] = {**job}
    varied = definition.vary(job.get("model", ""), told.pop("budget", None))
    mark = JobMark(definition.name, **told)
    for name in (mark.user, mark.organization, mark.queue):
        # It stands in lines that people and scripts read, and in an index.
        if not name.isprintable() or len(name) > NAME_LENGTH_MAX:
            raise UsageError(
                f"{name[:80]!r} is no name in one line of {NAME_LENGTH_MAX} characters"
            )
    if abs(mark.priority) > PRIORITY_MAX:
        raise UsageError(f"a priority is from -{PRIORITY_MAX} to {PRIORITY_MAX}")
    if get_organization_finder(get_membership(definition).store) and mark.organization:
        raise UsageError(
            f"tasks of {definition.name!r} are of the organization of their store's user",
            hint="leave `organization` out, or make an agent with a store of another user",
        )
    if bool(mark.repository) != ("repositories" in definition.options):
        raise UsageError(
            f"the agent {definition.name!r} works "
            + ("in no repository" if mark.repository else "in a repository, and none is named"),
            hint="Agent(..., repositories=Repositories(FOLDER)); submit(..., repository=URL)",
        )
    provider, lasting = varied.find_provider()
    return varied, replace(mark, lasting_model=lasting or provider.name)


async def submit_task(
    definition: AgentDefinition, prompt: str, job: JobOptions, key: str
) -> SubmittedTask[Any]:
    """Begin a task, durably, and put its job into the queue. See `Agent.submit`."""
    varied, mark = check_task(definition, job)
    membership = get_membership(definition)
    async with AsyncExitStack() as stack:
        context = definition.make_context(membership.deps)
        builder = await make_builder(varied, prompt, context, stack)

        def begin() -> ThreadFold:
            its = mark
            if (find_organization := get_organization_finder(membership.store)) is not None:
                its = replace(mark, organization=find_organization())
            return builder.begin(key, its.make_fact(), _SUBMITTED)

        # A program submits many at a time: while a store waits for its disk, others go on.
        fold = await call_beside(begin)
    if not isinstance(fold.machine, TaskMachine):
        raise UsageError(f"the key {key!r} is that of a conversation", hint="another key")
    thread_id = fold.header.thread
    if not fold.machine.is_over:
        await membership.scheduler.submit([(find_mark(fold) or mark).make_job(thread_id)])
    return SubmittedTask(definition, thread_id)


def get_membership(definition: AgentDefinition) -> Membership:
    """The agent's place in its fleet.

    Raises:
        UsageError: it is in none.
    """
    membership: Membership | None = definition.membership
    if membership is None:
        raise UsageError(
            f"the agent {definition.name!r} is in no fleet", hint="Fleet(...).add(agent)"
        )
    return membership


def find_submitted(definition: AgentDefinition, key: str) -> str:
    """The thread of a task that has this key.

    Raises:
        UnknownThreadError: there is none.
        UsageError: the agent is in no fleet.
    """
    found = get_membership(definition).store.find_key(key)
    if found is None:
        raise UnknownThreadError(f"no thread has the key {key!r}")
    return found
