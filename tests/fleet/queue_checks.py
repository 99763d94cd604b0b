"""What every queue of a fleet keeps of what `Scheduler` promises; each check needs an empty one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from treadle.fleet.port import (
    OPEN_STATUSES,
    Job,
    JobEnd,
    JobStatus,
    Perform,
    Scheduler,
    TaskSchedule,
)

DONE = JobEnd(JobStatus.DONE)
PATIENCE_S = 60.0


async def until(holds: Callable[[], Awaitable[Any]]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110  a database is asked
            await asyncio.sleep(0.01)


@asynccontextmanager
async def working(
    queue: Scheduler, perform: Perform, *, at_once: int = 1, queues: tuple[str, ...] = ("default",)
) -> AsyncIterator[asyncio.Event]:
    """A worker that is told to stop at the end."""
    stop = asyncio.Event()
    task = asyncio.create_task(queue.run(perform, queues, at_once, stop))
    try:
        yield stop
        stop.set()
        async with asyncio.timeout(PATIENCE_S):
            await task
    finally:
        task.cancel()
        await asyncio.wait([task])  # its connections are closed before the next test


async def statuses(queue: Scheduler) -> dict[str, JobStatus]:
    return {one.job.thread: one.status for one in await queue.list()}


async def all_are(queue: Scheduler, status: JobStatus) -> bool:
    return {*(await statuses(queue)).values()} == {status}


async def check_order(queue: Scheduler) -> None:
    """Priorities first; within one, users take turns by how much of theirs waits."""
    jobs = [Job(f"ann{n}", "a", user="ann") for n in range(3)]
    jobs += [Job("bob0", "a", user="bob"), Job("first", "a", priority=5, user="ann")]
    jobs += [Job("last", "a", priority=-5)]
    await queue.submit(jobs)
    taken: list[str] = []

    async def perform(job: Job, cancelled: asyncio.Event) -> JobEnd:
        taken.append(job.thread)
        return DONE

    async with working(queue, perform):
        await until(lambda: all_are(queue, JobStatus.DONE))
    assert taken == ["first", "ann0", "bob0", "ann1", "ann2", "last"]


async def check_once(queue: Scheduler) -> None:
    """What is queued twice is one job; two workers take no job together; other queues stay."""
    await queue.submit([Job(f"t{n}", "a") for n in range(10)])
    await queue.submit([Job(f"t{n}", "a") for n in range(5, 12)])
    await queue.submit([Job("other", "a", queue="slow")])
    taken: list[str] = []

    async def perform(job: Job, cancelled: asyncio.Event) -> JobEnd:
        taken.append(job.thread)
        await asyncio.sleep(0)
        return DONE

    async def is_done() -> bool:
        found = await statuses(queue)
        return [one for one in found if found[one] is not JobStatus.DONE] == ["other"]

    async with working(queue, perform, at_once=3), working(queue, perform, at_once=3):
        await until(is_done)
    assert sorted(taken) == sorted(f"t{n}" for n in range(12))


async def check_one_at_a_time(queue: Scheduler) -> None:
    """A thread that is submitted while it is at work is worked on once more, afterwards."""
    at_work, seen = 0, []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def perform(job: Job, cancelled: asyncio.Event) -> JobEnd:
        nonlocal at_work
        at_work += 1
        seen.append(at_work)
        begun.set()
        await go_on.wait()
        at_work -= 1
        # What is left to be done again meets the other job: one of them is enough.
        return JobEnd(JobStatus.WAITING) if len(seen) == 1 else DONE

    await queue.submit([Job("t", "a")])
    async with working(queue, perform, at_once=2):
        await begun.wait()
        await queue.submit([Job("t", "a")])
        await queue.submit([Job("t", "a")])
        go_on.set()
        await until(lambda: all_are(queue, JobStatus.DONE))
    assert seen == [1, 1]


async def check_waiting(queue: Scheduler) -> None:
    """What waits for a person is nobody's work, until it is submitted again."""

    async def perform(job: Job, cancelled: asyncio.Event) -> JobEnd:
        return JobEnd(JobStatus.WAITING)

    await queue.submit([Job("t", "a", user="ann")])
    async with working(queue, perform):
        await until(lambda: all_are(queue, JobStatus.WAITING))
    # It stands in nobody's way, its user's other jobs neither.
    await queue.submit([Job("other", "a", user="bob"), Job("more", "a", user="ann")])
    await queue.submit([Job("bobs", "a", user="bob"), Job("t", "a", user="ann")])
    taken: list[str] = []

    async def take(job: Job, cancelled: asyncio.Event) -> JobEnd:
        taken.append(job.thread)
        return DONE

    async with working(queue, take):
        await until(lambda: all_are(queue, JobStatus.DONE))
    assert taken == ["other", "more", "bobs", "t"]


async def check_again(queue: Scheduler) -> None:
    """A job that is left to be done again is, and how often is counted."""
    ends = [JobEnd(JobStatus.QUEUED, 0.01), JobEnd(JobStatus.QUEUED), JobEnd(JobStatus.FAILED)]

    async def perform(job: Job, cancelled: asyncio.Event) -> JobEnd:
        return ends.pop(0)

    await queue.submit([Job("t", "a", user="ann", priority=3)])
    async with working(queue, perform):
        await until(lambda: all_are(queue, JobStatus.FAILED))
    [state] = await queue.list()
    assert (state.attempts, state.worker) == (3, "")
    assert (state.job.user, state.job.priority, state.job.agent) == ("ann", 3, "a")


async def check_start(queue: Scheduler) -> None:
    """What is to begin later is not taken before."""
    later = datetime.now(UTC) + timedelta(hours=1)
    await queue.submit([Job("later", "a", start_at=later), Job("now", "a")])

    async def perform(job: Job, cancelled: asyncio.Event) -> JobEnd:
        assert job.thread == "now"
        return DONE

    async def is_done() -> bool:
        return (await statuses(queue))["now"] is JobStatus.DONE

    async with working(queue, perform):
        await until(is_done)
    assert (await statuses(queue))["later"] is JobStatus.QUEUED


async def check_stalled(queue: Scheduler) -> None:
    """A worker that dies leaves its job; what it says later of it counts no more."""
    begun = asyncio.Event()
    ends: list[asyncio.Future[JobEnd]] = []

    async def perform(job: Job, cancelled: asyncio.Event) -> JobEnd:
        ends.append(asyncio.get_running_loop().create_future())
        begun.set()
        return await ends[-1]

    await queue.submit([Job("t", "a")])
    stop = asyncio.Event()
    dying = asyncio.create_task(queue.run(perform, ["default"], 1, stop))
    await begun.wait()
    assert await queue.retry_stalled() == []
    assert len((await queue.read_state()).workers) == 1
    dying.cancel()
    await asyncio.wait([dying])

    async def is_found() -> bool:
        return bool(await queue.retry_stalled())

    async def find_deaths() -> int:
        [state] = await queue.list()
        return state.job.deaths

    await until(is_found)
    assert await find_deaths() == 1
    begun.clear()
    async with working(queue, perform):
        await begun.wait()
        assert await all_are(queue, JobStatus.RUNNING)
        begun.clear()
        ends[-1].set_result(JobEnd(JobStatus.QUEUED, deaths=1))
        await begun.wait()
        assert await find_deaths() == 1  # nothing of it was begun
        begun.clear()
        ends[-1].set_result(JobEnd(JobStatus.QUEUED))
        await begun.wait()
        assert await find_deaths() == 0
        ends[-1].set_result(DONE)
        await until(lambda: all_are(queue, JobStatus.DONE))


async def check_death_of_resubmitted(queue: Scheduler) -> None:
    """A death counts, too, where the thread was submitted once more meanwhile."""
    begun = asyncio.Event()

    async def perform(job: Job, cancelled: asyncio.Event) -> JobEnd:
        begun.set()
        await asyncio.Event().wait()
        return DONE

    await queue.submit([Job("t", "a", deaths=1)])
    dying = asyncio.create_task(queue.run(perform, ["default"], 1, asyncio.Event()))
    await begun.wait()
    await queue.submit([Job("t", "a")])
    dying.cancel()
    await asyncio.wait([dying])

    async def is_found() -> bool:
        return bool(await queue.retry_stalled())

    await until(is_found)
    [state] = await queue.list()
    assert (state.status, state.job.deaths) == (JobStatus.QUEUED, 2)


async def check_cancel(queue: Scheduler) -> None:
    """A job that nobody works on is gone at once; who works on one is told."""
    begun = asyncio.Event()

    async def perform(job: Job, cancelled: asyncio.Event) -> JobEnd:
        begun.set()
        await cancelled.wait()
        return JobEnd(JobStatus.CANCELLED)

    await queue.submit([Job("running", "a"), Job("queued", "a")])
    async with working(queue, perform):
        await begun.wait()
        assert await queue.cancel("queued")
        assert await queue.cancel("running")
        await until(lambda: all_are(queue, JobStatus.CANCELLED))
        assert not await queue.cancel("queued")
        assert not await queue.cancel("unknown")
        begun.clear()
        await queue.submit([Job("queued", "a")])  # it may be begun anew
        await begun.wait()
        assert await queue.cancel("queued")


async def check_drain(queue: Scheduler) -> None:
    """Who is told to stop takes no more, and ends when what was taken is left."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def perform(job: Job, cancelled: asyncio.Event) -> JobEnd:
        begun.set()
        await go_on.wait()
        return DONE

    await queue.submit([Job("first", "a"), Job("second", "a")])
    async with working(queue, perform) as stop:
        await begun.wait()
        stop.set()
        go_on.set()
    assert await statuses(queue) == {"first": JobStatus.DONE, "second": JobStatus.QUEUED}
    assert len((await queue.read_state()).workers) == 0


async def check_removed(queue: Scheduler) -> None:
    """What is over for so long is removed, and what is open never; each is listed and found."""
    ends = {
        "done": DONE,
        "failed": JobEnd(JobStatus.FAILED),
        "deadly": JobEnd(JobStatus.FAILED),
        "retried": JobEnd(JobStatus.FAILED),
        "asking": JobEnd(JobStatus.WAITING),
        "later": JobEnd(JobStatus.QUEUED, 3600.0),
    }
    found: dict[str, JobStatus] = {}

    async def perform(job: Job, cancelled: asyncio.Event) -> JobEnd:
        return ends[job.thread]

    async def are_left() -> bool:
        found.update(await statuses(queue))
        return found == {**{name: end.status for name, end in ends.items()}, "gone": gone}

    deaths = {"deadly": 5, "retried": 5}
    await queue.submit([Job(name, "a", deaths=deaths.get(name, 0)) for name in ends])
    await queue.submit([Job("gone", "a")])
    gone = JobStatus.CANCELLED
    assert await queue.cancel("gone")
    async with working(queue, perform, at_once=3):
        await until(are_left)
        ends["retried"] = DONE
        await queue.submit([Job("retried", "a")])
        await until(are_left)
    ended = [name for name in found if found[name] not in OPEN_STATUSES]
    for wanted in ([], ["done"], ["asking", "gone", "nobody"], [*found]):
        states = {one.job.thread: one.status for one in await queue.find(wanted)}
        assert states == {name: found[name] for name in wanted if name in found}
    assert [one.job.thread for one in await queue.list_open()] == ["asking", "later"]
    assert await queue.remove_ended(3600.0) == 0
    # Both jobs of the one that was tried again are gone; of the deadly one nobody else may know.
    assert await queue.remove_ended(0.0) == len(ended)
    assert {*await statuses(queue)} == {"asking", "later", "deadly"}
    assert await queue.remove_ended(0.0) == 0


async def check_schedules(queue: Scheduler) -> None:
    """One of a name; of those who change one, one does; who asks the time gets one."""
    first = TaskSchedule("b", "a", "Pay.", "0 8 * * *", "UTC", {"user": "ann"}, await queue.now())
    other = replace(first, id="a")
    assert await queue.add_schedule(first) == first
    assert await queue.add_schedule(replace(first, prompt="Pay more.")) == first
    await queue.add_schedule(other)
    assert await queue.list_schedules() == [other, first]
    later = await queue.now() + timedelta(days=1)
    changes = [replace(first, next_at=later, note=str(n)) for n in range(5)]
    changed = await asyncio.gather(*(queue.change_schedule(one) for one in changes))
    assert sorted(changed) == [False] * 4 + [True]
    [_, found] = await queue.list_schedules()
    assert found == replace(changes[changed.index(True)], version=1)
    assert await queue.change_schedule(replace(found, begun_at=later))
    assert not await queue.change_schedule(replace(first, id="c"))
    assert await queue.remove_schedule("b")
    assert not await queue.remove_schedule("b")
    assert await queue.list_schedules() == [other]


CHECKS = [
    check_schedules,
    check_removed,
    check_order,
    check_once,
    check_one_at_a_time,
    check_waiting,
    check_again,
    check_start,
    check_stalled,
    check_death_of_resubmitted,
    check_cancel,
    check_drain,
]
