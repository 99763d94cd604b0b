"""What many submit at the same moment: one statement, and each hears of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from fleet.test_queues import make_scheduler
from treadle import StoreError
from treadle.fleet import queue_intake
from treadle.fleet.port import Job
from treadle.fleet.procrastinate_scheduler import ProcrastinateScheduler

COUNT = 16


async def list_threads(queue: ProcrastinateScheduler) -> list[str]:
    """Of which there are jobs."""
    return [one.job.thread for one in await queue.list()]


def make_job(number: int, queue: str = "default") -> Job:
    """A job of its own."""
    return Job(f"T-{number}", "agent", queue)


async def check_one_that_cannot_be_put_in(queue: ProcrastinateScheduler) -> None:
    """It alone is told so."""
    await queue.list()  # opened
    jobs = [make_job(one, "\0" if one == COUNT // 2 else "default") for one in range(COUNT)]
    done = await asyncio.gather(*(queue.submit([one]) for one in jobs), return_exceptions=True)
    assert [type(one) for one in done if one is not None] == [StoreError]
    assert done[COUNT // 2] is not None
    assert sorted(await list_threads(queue)) == sorted(
        one.thread for one in jobs if one.queue == "default"
    )


async def check_one_that_is_cancelled(queue: ProcrastinateScheduler) -> None:
    """Whoever it would have put in with it puts itself in."""
    await queue.list()
    tasks = [asyncio.create_task(queue.submit([make_job(one)])) for one in range(COUNT)]
    connector, ask = queue._app.connector, queue._app.connector.execute_query_all_async

    async def cancel_the_second(query: Any, **told: Any) -> Any:
        if query == queue_intake._ADD and len(told["told"]["rows"]) > 1:
            connector.execute_query_all_async = ask  # type: ignore[method-assign]
            tasks[1].cancel()  # it puts in all who came behind the first one
            await asyncio.sleep(0)
        return await ask(query, **told)

    connector.execute_query_all_async = cancel_the_second  # type: ignore[method-assign]
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in done if one is not None] == [asyncio.CancelledError]
    others = {f"T-{one}" for one in range(COUNT) if one != 1}
    assert others <= {*await list_threads(queue)}


async def test_one_that_cannot_be_put_in_is_told_so_alone(queue_url: str) -> None:
    queue = make_scheduler(queue_url)
    await check_one_that_cannot_be_put_in(queue)
    await queue.close()


async def test_who_came_with_one_that_is_cancelled_is_put_in(queue_url: str) -> None:
    queue = make_scheduler(queue_url)
    await check_one_that_is_cancelled(queue)
    await queue.close()


async def test_what_comes_while_a_statement_is_on_its_way_goes_by_the_next_one(
    queue_url: str,
) -> None:
    queue = make_scheduler(queue_url)
    await queue.list()
    sizes: list[int] = []
    connector, ask = queue._app.connector, queue._app.connector.execute_query_all_async

    async def count(query: Any, **told: Any) -> Any:
        sizes.append(len(told["told"]["rows"]))
        return await ask(query, **told)

    connector.execute_query_all_async = count  # type: ignore[method-assign]
    await asyncio.gather(*(queue.submit([make_job(one)]) for one in range(COUNT)))
    connector.execute_query_all_async = ask  # type: ignore[method-assign]
    assert sizes == [1, COUNT - 1]
    assert await list_threads(queue) == [f"T-{one}" for one in range(COUNT)]
    await queue.close()
