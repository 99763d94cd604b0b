"""Tasks of a fleet that repeat: kept in its queue, submitted by whichever worker finds them due.

Of each due time there is one task, because it has a key of its own. Before it is submitted the
queue has that it is begun, so whoever dies in between leaves it to the next one, who submits it
again by the same key.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import Final, Unpack, cast
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from treadle.agent.job_options import JobOptions
from treadle.agent.members import Members
from treadle.agent.submitted_task import check_task, submit_task
from treadle.errors import StoreError, TreadleError, UnknownThreadError, UsageError
from treadle.fleet.cron import read_cron
from treadle.fleet.job_mark import find_dead_end, is_over
from treadle.fleet.port import Scheduler, TaskSchedule

_log = logging.getLogger("treadle.fleet")

ID_LENGTH_MAX: Final = 200

_ANY: Final = datetime(2000, 1, 1, tzinfo=UTC)


class Schedules:
    """The tasks of a fleet that repeat; `Fleet.schedules`.

    Args:
        scheduler: keeps them.
        members: the fleet's agents.
    """

    def __init__(self, scheduler: Scheduler, members: Members) -> None:
        self._scheduler, self._members = scheduler, members

    def check(
        self, agent: str, prompt: str, cron: str, zone: str = "UTC", **job: Unpack[JobOptions]
    ) -> None:
        """Raise as `add` for what cannot be a schedule; any key can."""
        self._make(TaskSchedule("", agent, prompt, cron, zone, {**job}, _ANY))

    async def add(
        self,
        agent: str,
        prompt: str,
        cron: str,
        zone: str = "UTC",
        *,
        key: str = "",
        **job: Unpack[JobOptions],
    ) -> TaskSchedule:
        """Have a task submitted again and again.

        Args:
            agent: who works on it.
            prompt: the task.
            cron: when: minute, hour, day of the month, month, day of the week.
            zone: whose clocks say so, such as `Europe/Vienna`.
            key: your own name for it. A schedule that has it already is what is given.
            **job: see `JobOptions`. Nothing is due before `start_at`, and a time that is past is
                made up for, the latest one.

        Raises:
            UsageError: there is no such agent, time or zone, or as `Agent.submit`.
            StoreError: the queue refused.
        """
        now = await self._scheduler.now()
        wanted = TaskSchedule(key or uuid4().hex[:8], agent, prompt, cron, zone, {**job}, now)
        return await self._scheduler.add_schedule(self._make(wanted))

    def _make(self, wanted: TaskSchedule) -> TaskSchedule:
        """The schedule as it is kept, of what is wanted and when it is wanted."""
        options = {**wanted.options}
        start_at = options.pop("start_at", wanted.next_at)
        next_at = read_cron(wanted.cron, wanted.zone).find_next(start_at)
        check_task(self._members.find_agent(wanted.agent), cast("JobOptions", options))
        if next_at is None or not wanted.prompt.strip() or len(wanted.id) > ID_LENGTH_MAX:
            raise UsageError(
                "a schedule has a task, a time that comes, and a key of "
                f"{ID_LENGTH_MAX} characters at most"
            )
        return replace(wanted, options=msgspec.to_builtins(options), next_at=next_at)

    async def list(self) -> tuple[TaskSchedule, ...]:
        """All schedules of the queue, by their ids; raises `StoreError`."""
        return tuple(await self._scheduler.list_schedules())

    async def pause(self, schedule_id: str) -> None:
        """Have nothing submitted until `resume`.

        Raises:
            UsageError: there is no such schedule.
            StoreError: the queue refused.
        """
        while not await self._scheduler.change_schedule(
            replace(await self._find(schedule_id), is_paused=True)
        ):
            pass  # a worker has changed it meanwhile

    async def resume(self, schedule_id: str) -> None:
        """Have tasks submitted again, from the next due time on. Raises as `pause`."""
        while True:
            found = await self._find(schedule_id)
            now = await self._scheduler.now()
            next_at = read_cron(found.cron, found.zone).find_next(now) or found.next_at
            if not found.is_paused or await self._scheduler.change_schedule(
                replace(found, is_paused=False, next_at=next_at)
            ):
                return

    async def remove(self, schedule_id: str) -> None:
        """Remove a schedule; its tasks stay. Raises as `pause`."""
        if not await self._scheduler.remove_schedule(schedule_id):
            raise _make_error(schedule_id)

    async def _find(self, schedule_id: str) -> TaskSchedule:
        for one in await self._scheduler.list_schedules():
            if one.id == schedule_id:
                return one
        raise _make_error(schedule_id)

    # ---- workers --------------------------------------------------------------------------------

    async def submit_due(self) -> None:
        """Submit what is due of the agents that this process has; raises `StoreError`."""
        found = await self._scheduler.list_schedules()
        now = await self._scheduler.now()
        for one in found:
            if one.agent in self._members.agents:
                try:
                    begun = one if one.begun_at is not None else await self._begin(one, now)
                    if begun is not None:
                        await self._submit(begun)
                except StoreError as error:  # of this agent's threads, say; it is tried again
                    _log.warning("the schedule %s goes on later: %s", one.id, error)

    async def _begin(self, one: TaskSchedule, now: datetime) -> TaskSchedule | None:
        """The schedule with what is begun of it, if something is due and nobody else has begun."""
        if one.is_paused or one.next_at > now:
            return None
        cron = read_cron(one.cron, one.zone)
        due_at = cron.find_latest(one.next_at, now)
        following = replace(one, next_at=cron.find_next(now) or one.next_at, note="")
        if await self._is_going(one.last_thread):
            note = f"{_tell(due_at)} was skipped: {one.last_thread} was not over"
            _log.warning("of the schedule %s %s", one.id, note)
            await self._scheduler.change_schedule(replace(following, last_at=due_at, note=note))
            return None
        note = "" if due_at == one.next_at else f"times before {_tell(due_at)} were missed"
        begun = replace(following, begun_at=due_at, note=note)
        if not await self._scheduler.change_schedule(begun):
            return None
        return replace(begun, version=begun.version + 1)

    async def _is_going(self, thread_id: str) -> bool:
        """Whether a task is still to be worked on, or waits for a person."""
        if not thread_id:
            return False
        try:
            fold = await asyncio.to_thread(self._members.load, thread_id)
        except UnknownThreadError:
            return False
        states = await self._scheduler.find([thread_id])
        return not (is_over(fold) or find_dead_end(fold, *states))

    async def _submit(self, one: TaskSchedule) -> None:
        """Submit what is begun; by its key it is one task, whoever has submitted it before."""
        assert one.begun_at is not None
        thread_id, note = one.last_thread, one.note
        try:
            agent = self._members.find_agent(one.agent)
            options = msgspec.convert(one.options, JobOptions)
            key = f"schedule {one.id} {_tell(one.begun_at)}"
            thread_id = (await submit_task(agent, one.prompt, options, key)).id
        except StoreError:
            raise
        except TreadleError as error:
            note = f"{_tell(one.begun_at)} was not submitted: {error.message}"
            _log.error("of the schedule %s %s", one.id, note)
        done = replace(one, begun_at=None, last_at=one.begun_at, last_thread=thread_id, note=note)
        await self._scheduler.change_schedule(done)


def _tell(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")


def _make_error(schedule_id: str) -> UsageError:
    return UsageError(f"there is no schedule {schedule_id!r}", hint="`treadle fleet schedules`")
