"""A fleet that stands in somebody's file, for commands; and how it stands."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from treadle.agent.fleet import Fleet
from treadle.agent.job_mark import describe_deaths, find_problem
from treadle.app.python_files import use_name_in_file
from treadle.core.llm import Usage
from treadle.errors import (
    AmbiguousThreadError,
    BuildError,
    TreadleError,
    UnknownThreadError,
    UsageError,
)
from treadle.fleet.port import JobState, JobStatus

T = TypeVar("T")

ENDED_COUNT: Final = 10
"""So many tasks are shown that are done or cancelled, the newest ones."""
OPEN_COUNT: Final = 40
"""So many others are shown: those at work first, then those that need a person."""
_ENDED: Final = (JobStatus.DONE, JobStatus.CANCELLED)
_OPEN: Final = (JobStatus.RUNNING, JobStatus.WAITING, JobStatus.FAILED, JobStatus.QUEUED)


class FleetTask(Struct, frozen=True):
    """A task of a fleet: its job, and what its thread says.

    `usage` is what it has used of models so far; `problem` why the thread cannot be read, or why
    no worker tries it any more.
    """

    thread: str
    agent: str
    status: str
    queue: str
    user: str
    attempts: int
    title: str = ""
    usage: Usage = Usage()
    problem: str = ""


class FleetView(Struct, frozen=True):
    """How a fleet stands: workers, how many tasks there are of each status, and some of them."""

    workers: int
    counts: dict[str, int]
    tasks: tuple[FleetTask, ...]


def use_fleet(place: str, act: Callable[[Fleet], Coroutine[Any, Any, T]]) -> T:
    """Do something with the fleet of a file.

    Args:
        place: `FILE.py:NAME`.
        act: what is done.

    Raises:
        UsageError: there is no such file or name.
        BuildError: that is no fleet.
        TreadleError: what `act` raises.
    """
    failed: list[TreadleError] = []

    async def work(fleet: Fleet) -> T:
        try:
            return await act(fleet)
        finally:
            await fleet.scheduler.close()

    def use(value: object) -> T | None:
        if not isinstance(value, Fleet):
            raise BuildError(f"{place} is no fleet but {value!r}", hint="fleet = Fleet(...)")
        try:
            return asyncio.run(work(value))
        except TreadleError as error:  # it is not about the file
            failed.append(error)
            return None

    found = use_name_in_file(place, "fleet", use)
    if failed:
        raise failed[0]
    return cast("T", found)


async def describe_fleet(fleet: Fleet) -> FleetView:
    """How a fleet stands, with the tasks that are shown of it (`OPEN_COUNT`, `ENDED_COUNT`).

    Raises:
        StoreError: the queue cannot be reached.
    """
    states = await fleet.jobs()
    ended = [one for one in states if one.status in _ENDED]
    others = [one for status in _OPEN for one in states if one.status is status]
    shown = others[:OPEN_COUNT] + ended[-ENDED_COUNT:]
    counts = Counter(one.status.value for one in states)
    tasks = await asyncio.to_thread(lambda: tuple(_describe(fleet, one) for one in shown))
    return FleetView(await fleet.scheduler.count_workers(), dict(counts), tasks)


def _describe(fleet: Fleet, state: JobState) -> FleetTask:
    job, status = state.job, state.status.value
    task = FleetTask(job.thread, job.agent, status, job.queue, job.user, state.attempts)
    try:
        fold = fleet.load(job.thread)
    except TreadleError as error:
        return replace(task, problem=error.message)
    problem = find_problem(fold)
    if state.status is JobStatus.FAILED and not problem and job.deaths:
        problem = describe_deaths(job.deaths)
    return replace(task, title=fold.title() or "", usage=fold.usage, problem=problem)


async def find_task(fleet: Fleet, text: str) -> str:
    """The thread of a task whose id begins or ends with a text.

    Raises:
        UnknownThreadError: there is none.
        AmbiguousThreadError: there are several.
        StoreError: the store refused.
    """
    found = await asyncio.to_thread(fleet.find_tasks, text)
    if not found:
        raise UnknownThreadError(
            f"the fleet has no task {text!r}", hint="`treadle fleet` shows the newest"
        )
    if len(found) > 1:
        raise AmbiguousThreadError(text, found)
    return found[0]


def choose_agent(fleet: Fleet, name: str | None) -> str:
    """The agent that is named, or the only one.

    Raises:
        UsageError: none is named, and there is not one.
    """
    if name is None and len(fleet.agents) != 1:
        raise UsageError("say which agent works on it", hint=f"one of: {', '.join(fleet.agents)}")
    return fleet.agents[0] if name is None else name
