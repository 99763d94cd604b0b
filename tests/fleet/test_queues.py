"""Queues of fleets: what each keeps of its promise, and what the one on PostgreSQL survives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from psycopg import AsyncConnection

from fleet.limit_checks import LIMIT_CHECKS
from fleet.queue_checks import CHECKS, DONE, all_are, until, working
from server.databases import Postgres
from treadle import StoreError
from treadle.fleet.memory_scheduler import MemoryScheduler
from treadle.fleet.port import Job, JobEnd, JobStatus, Scheduler
from treadle.fleet.procrastinate_scheduler import ProcrastinateScheduler


def make_scheduler(url: str) -> ProcrastinateScheduler:
    """A queue that is fast to notice."""
    return ProcrastinateScheduler(url, heartbeat_s=0.05, stalled_s=2.0, poll_s=0.1)


@pytest.mark.parametrize("check", [*CHECKS, *LIMIT_CHECKS])
async def test_a_queue_in_memory(check: Callable[[Scheduler], Awaitable[None]]) -> None:
    await check(MemoryScheduler())


@pytest.mark.parametrize("check", [*CHECKS, *LIMIT_CHECKS])
async def test_a_queue_on_postgresql(
    check: Callable[[Scheduler], Awaitable[None]], queue_url: str
) -> None:
    queue = make_scheduler(queue_url)
    try:
        await check(queue)
    finally:
        await queue.close()


async def test_what_another_worker_was_given_is_not_left_by_the_one_before(queue_url: str) -> None:
    """One sleeps through its heartbeat, as a machine that was suspended; then it goes on."""
    queue = make_scheduler(queue_url)
    sleeper = ProcrastinateScheduler(queue_url, heartbeat_s=1000.0, poll_s=0.1)
    begun, wake, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def sleep(job: Job, cancelled: asyncio.Event) -> JobEnd:
        begun.set()
        await wake.wait()
        return JobEnd(JobStatus.FAILED)

    async def work(job: Job, cancelled: asyncio.Event) -> JobEnd:
        begun.set()
        await go_on.wait()
        return DONE

    async def is_stalled() -> bool:
        return bool(await queue.retry_stalled())

    try:
        await queue.submit([Job("t", "a")])
        async with working(sleeper, sleep) as stop:
            await begun.wait()
            stop.set()
            await until(is_stalled)
            begun.clear()
            async with working(queue, work):
                await begun.wait()
                wake.set()
                await until(lambda: has_workers(queue, 1))
                assert await all_are(queue, JobStatus.RUNNING)
                go_on.set()
                await until(lambda: all_are(queue, JobStatus.DONE))
    finally:
        await queue.close()
        await sleeper.close()


async def has_workers(queue: Scheduler, count: int) -> bool:
    return len((await queue.read_state()).workers) == count


async def test_a_worker_goes_on_when_its_connections_are_cut(
    queue_url: str, postgres: Postgres
) -> None:
    queue = make_scheduler(queue_url)
    taken: list[str] = []
    name = queue_url.partition("@/")[2].partition("?")[0]

    async def perform(job: Job, cancelled: asyncio.Event) -> JobEnd:
        taken.append(job.thread)
        await asyncio.to_thread(postgres.kill_backends, name)
        return DONE

    async def is_done() -> bool:
        try:
            return await all_are(queue, JobStatus.DONE)
        except StoreError:
            return False

    await queue.submit([Job(f"t{n}", "a") for n in range(4)])
    async with working(queue, perform, at_once=2):
        await until(is_done)
    await queue.close()
    assert {*taken} == {"t0", "t1", "t2", "t3"}


async def test_a_job_is_left_though_its_acknowledgement_was_cut_off(
    queue_url: str, postgres: Postgres
) -> None:
    """Somebody holds the row until the worker waits for it, whose connection ends then."""
    queue = make_scheduler(queue_url)
    name = queue_url.partition("@/")[2].partition("?")[0]
    holder = await AsyncConnection.connect(queue_url)
    looking = await AsyncConnection.connect(postgres.url(), autocommit=True)
    # Who waits ends first: else it would get what it waits for.
    cut = (
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
        f"WHERE datname = '{name}' AND query LIKE 'WITH mine%' AND wait_event_type = 'Lock'"
    )
    taken: list[str] = []

    async def perform(job: Job, cancelled: asyncio.Event) -> JobEnd:
        taken.append(job.thread)
        if taken == ["t"]:
            await holder.execute("SELECT id FROM procrastinate_jobs FOR UPDATE")
        return DONE

    async def was_cut() -> bool:
        found = await looking.execute(cut.encode())
        return await found.fetchone() is not None

    async def is_done() -> bool:
        try:
            return await all_are(queue, JobStatus.DONE)
        except StoreError:
            return False

    await queue.submit([Job("t", "a")])
    async with working(queue, perform):
        await until(was_cut)
        await holder.close()
        await until(is_done)
    await queue.close()
    await looking.close()
    assert taken == ["t"]


async def test_a_database_that_is_not_there_is_named(postgres: Postgres) -> None:
    queue = make_scheduler(postgres.url("nobody-made-this"))
    with pytest.raises(StoreError, match="the database of the queue refused"):
        await queue.submit([Job("t", "a")])
