"""What every queue of a fleet keeps of its limits; each check needs an empty one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fleet.queue_checks import DONE, all_are, until, working
from treadle.fleet.port import (
    EACH_NAME,
    Job,
    JobEnd,
    JobStatus,
    Limit,
    LimitKind,
    Scheduler,
)


class Desk:
    """Jobs that are at work until they are let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}

    async def perform(self, job: Job, cancelled: asyncio.Event) -> JobEnd:
        self.begun.append(job.thread)
        await self._ends.setdefault(job.thread, asyncio.Event()).wait()
        return DONE

    def let_go(self, threads: Sequence[str]) -> None:
        for one in threads:
            self._ends.setdefault(one, asyncio.Event()).set()

    async def see(self, *threads: str) -> None:
        """Wait until these were begun, in some order, and say so if others were."""

        async def are_enough() -> bool:
            return len(self.begun) >= len(threads)

        await until(are_enough)
        assert sorted(self.begun) == sorted(threads)


async def check_limits_kept(queue: Scheduler) -> None:
    """One of a name, the last one that was said; what was removed is gone."""
    for kind in LimitKind:
        await queue.set_limit(Limit(kind, "b", 7))
        await queue.set_limit(Limit(kind, "b", 2))
        await queue.set_limit(Limit(kind, EACH_NAME, 1))
    kinds = sorted(LimitKind, key=lambda one: one.value)
    wanted = [Limit(kind, *told) for kind in kinds for told in ((EACH_NAME, 1), ("b", 2))]
    assert await queue.list_limits() == wanted
    assert await queue.remove_limit(LimitKind.USER, "b")
    assert not await queue.remove_limit(LimitKind.USER, "b")
    assert await queue.list_limits() == wanted[:-1]


async def check_limits_over_queues(queue: Scheduler) -> None:
    """A limit holds over workers and their queues; others behind what is full go on."""
    for kind in LimitKind:
        named: dict[str, Any] = {kind.value: "x"}
        await queue.set_limit(Limit(kind, "x", 1))
        first, second, other = (f"{kind.value} {n}" for n in ("first", "second", "other"))
        await queue.submit([Job(first, "a", **named)])
        desk = Desk()
        async with working(queue, desk.perform):
            await desk.see(first)
            await queue.submit([Job(second, "a", queue="slow", **named)])
            await queue.submit([Job(other, "a", queue="slow", priority=-1)])
            async with working(queue, desk.perform, at_once=3, queues=("slow",)):
                await desk.see(first, other)  # the second stands before the other
                desk.let_go([first])
                await desk.see(first, other, second)
                desk.let_go([second, other])
                await until(lambda: all_are(queue, JobStatus.DONE))
        assert await queue.remove_limit(kind, "x")


async def check_limits_of_each(queue: Scheduler) -> None:
    """`*` is each name without a limit of its own, and nobody without a name."""
    await queue.set_limit(Limit(LimitKind.USER, EACH_NAME, 1))
    await queue.set_limit(Limit(LimitKind.USER, "ann", 2))
    await queue.set_limit(Limit(LimitKind.MODEL, "m", 4))
    users = ("ann", "bob", "carl", "")
    jobs = [
        Job(f"{name}{n}", "a", user=name, model="m" * (name == ""))
        for name in users
        for n in range(5)
    ]
    await queue.submit([*jobs, Job("last", "a", priority=-1)])
    desk = Desk()
    taken = ["ann0", "ann1", "bob0", "carl0", "0", "1", "2", "3"]
    async with working(queue, desk.perform, at_once=30):
        await desk.see(*taken, "last")
        shown = await queue.list_limits()
        assert [one.at_work for one in shown] == [{"m": 4}, {"bob": 1, "carl": 1}, {"ann": 2}]
        assert (await queue.read_state()).limits == (*shown,)
        await queue.remove_limit(LimitKind.USER, EACH_NAME)
        await queue.set_limit(Limit(LimitKind.USER, "ann", 3))
        await queue.submit([Job("hint", "a", priority=-1)])  # who waits is told of nothing else
        all_of_two = [f"{name}{n}" for name in ("bob", "carl") for n in range(1, 5)]
        await desk.see(*taken, "last", "ann2", *all_of_two, "hint")
        desk.let_go([*(one.thread for one in jobs), "last", "hint"])
        await until(lambda: all_are(queue, JobStatus.DONE))


async def check_limits_of_the_dead(queue: Scheduler) -> None:
    """Who has died has a place until his job is queued again."""
    await queue.set_limit(Limit(LimitKind.USER, "ann", 1))
    await queue.submit([Job("first", "a", user="ann"), Job("second", "a", user="ann")])
    desk = Desk()
    dying = asyncio.create_task(queue.run(desk.perform, ["default"], 2, asyncio.Event()))
    await desk.see("first")
    dying.cancel()
    await asyncio.wait([dying])
    desk.let_go(["first", "second"])
    await queue.submit([Job("other", "a", priority=-1)])
    async with working(queue, desk.perform, at_once=2):
        await desk.see("first", "other")  # the second stands before the other

        async def is_found() -> bool:
            return bool(await queue.retry_stalled())

        await until(is_found)
        desk.let_go(["other"])
        await until(lambda: all_are(queue, JobStatus.DONE))
    assert sorted(desk.begun) == ["first", "first", "other", "second"]


LIMIT_CHECKS = [
    check_limits_kept,
    check_limits_over_queues,
    check_limits_of_each,
    check_limits_of_the_dead,
]
