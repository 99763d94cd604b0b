"""A fleet that stands in somebody's file, for commands; and how it stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar, cast

from treadle.agent.fleet import Fleet
from treadle.app.python_files import use_name_in_file
from treadle.errors import (
    AmbiguousThreadError,
    BuildError,
    StoreError,
    TreadleError,
    UnknownThreadError,
    UsageError,
)
from treadle.fleet import overview
from treadle.fleet.overview import FleetView
from treadle.fleet.port import JobStatus

T = TypeVar("T")

NOTE_S: Final = 2.0
"""So often who watches a task may be told why nobody works on it."""


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
    """How a fleet stands, with the tasks that are shown of it; see `QueueState`.

    Raises:
        StoreError: the queue cannot be reached.
    """
    state = await fleet.scheduler.read_state()
    return await asyncio.to_thread(overview.describe_fleet, state, fleet.load)


async def find_task(fleet: Fleet, text: str) -> str:
    """The thread of the task with this key, or of the one whose id begins or ends so.

    Raises:
        UnknownThreadError: there is none.
        AmbiguousThreadError: there are several.
        StoreError: the store refused.
    """
    found = await asyncio.to_thread(fleet.find_tasks, text)
    if not found:
        raise UnknownThreadError(
            f"the fleet has no task {text!r}",
            hint="an id or a key names one; `treadle fleet` shows the newest",
        )
    if len(found) > 1:
        raise AmbiguousThreadError(text, found)
    return found[0]


async def note_waits(fleet: Fleet, thread_id: str, note: Callable[[str], None]) -> None:
    """Say why nobody works on a task, whenever that is another reason; until it is cancelled."""
    noted = ""
    while True:
        await asyncio.sleep(NOTE_S)
        try:
            why = await _describe_wait(fleet, thread_id)
        except StoreError:
            continue  # who follows the task hears of it
        if why and why != noted:
            note(why)
        noted = why


async def _describe_wait(fleet: Fleet, thread_id: str) -> str:
    found = await fleet.scheduler.find([thread_id])
    workers = (await fleet.scheduler.read_state()).workers
    if not found:
        return f"the queue does not know of it yet; {len(workers)} workers look for such tasks"
    job, status = found[0].job, found[0].status
    if status is JobStatus.WAITING:
        return f"it waits for a person: treadle fleet approve {thread_id}"
    if status is JobStatus.RUNNING and found[0].worker not in {one.id for one in workers}:
        return "its worker is gone; another one takes it"
    if status is JobStatus.QUEUED and not any(job.queue in one.queues for one in workers):
        return f"no worker takes tasks of its queue: treadle worker --queues {job.queue} ..."
    return "it is queued" if status is JobStatus.QUEUED else ""


def choose_agent(fleet: Fleet, name: str | None) -> str:
    """The agent that is named, or the only one.

    Raises:
        UsageError: none is named, and there is not one.
    """
    if name is None and len(fleet.agents) != 1:
        raise UsageError("say which agent works on it", hint=f"one of: {', '.join(fleet.agents)}")
    return fleet.agents[0] if name is None else name


def check_submitted(fleet: Fleet, agent: str, prompt: str, told: Mapping[str, Any]) -> None:
    """Raise as `submit_told`, as far as that is known before."""
    cron, zone, options = _split_times(told)
    options.pop("key", None)
    if cron:
        fleet.schedules.check(agent, prompt, cron, zone, **options)
    else:
        fleet.check(agent, **options)


async def submit_told(fleet: Fleet, agent: str, prompt: str, told: Mapping[str, Any]) -> str:
    """Submit a task, or keep a schedule where `every` is told.

    Args:
        fleet: of which fleet.
        agent: who works on it.
        prompt: the task.
        told: `every`, `zone` and what `Fleet.submit` takes.

    Returns:
        The id of the task's thread, or that of the schedule.

    Raises:
        TreadleError: as `Fleet.submit` and `Schedules.add`.
    """
    cron, zone, options = _split_times(told)
    if cron:
        return (await fleet.schedules.add(agent, prompt, cron, zone, **options)).id
    return (await fleet.submit(agent, prompt, **options)).id


def _split_times(told: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    options = {**told}
    cron, zone = options.pop("every", ""), options.pop("zone", "")
    if zone and not cron:
        raise UsageError(
            f"the zone {zone!r} is of the clocks that `every` goes by, and that is not said",
            hint="treadle fleet submit TASK --every '0 7 * * *' --zone Europe/Vienna",
        )
    return cron, zone or "UTC", options
