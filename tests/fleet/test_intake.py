"""What many submit at the same moment: one statement, and each hears of its own."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import Any, Final

from procrastinate.exceptions import AppNotOpen
from psycopg import AsyncConnection

from fleet.queue_checks import all_are, until, working
from fleet.test_queues import make_scheduler
from treadle import StoreError
from treadle.fleet import queue_intake
from treadle.fleet.port import Job, JobEnd, JobStatus
from treadle.fleet.procrastinate_scheduler import ProcrastinateScheduler

COUNT = 16
LONG: Final = "".join(sha256(bytes([one])).hexdigest() for one in range(250))
"""More than an index takes."""
# A sequence stays where it is when a transaction is undone.
FAIL_ONCE: Final = """CREATE SEQUENCE tries; CREATE FUNCTION fail_once() RETURNS trigger AS $$ BEGIN
IF nextval('tries') = 2 THEN RAISE EXCEPTION 'two wait for each other' USING ERRCODE = '40P01';
END IF; RETURN NEW; END $$ LANGUAGE plpgsql;
CREATE TRIGGER fail_once BEFORE INSERT ON procrastinate_jobs FOR EACH ROW
EXECUTE FUNCTION fail_once()"""


async def list_threads(queue: ProcrastinateScheduler) -> list[str]:
    """Of which there are jobs."""
    return [one.job.thread for one in await queue.list()]


def make_job(number: int, queue: str = "default") -> Job:
    """A job of its own."""
    return Job(f"T-{number}", "agent", queue)


async def check_one_that_cannot_be_put_in(queue: ProcrastinateScheduler) -> None:
    """It alone is told so, whatever is wrong with it."""
    await queue.list()  # opened
    bad = {3: ("\0", ""), 7: ("default", LONG), 11: ("default", "\ud800")}
    said = [bad.get(one, ("default", "")) for one in range(COUNT)]
    jobs = [Job(f"T-{n}", "agent", to, user=user) for n, (to, user) in enumerate(said)]
    done = await asyncio.gather(*(queue.submit([one]) for one in jobs), return_exceptions=True)
    refused = {one: type(error) for one, error in enumerate(done) if error is not None}
    assert refused == {3: StoreError, 7: StoreError, 11: UnicodeEncodeError}
    kept = [one.thread for number, one in enumerate(jobs) if number not in bad]
    assert sorted(await list_threads(queue)) == sorted(kept)


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


async def test_nobody_is_told_that_a_queue_which_was_closed_has_what_it_has_not(
    queue_url: str,
) -> None:
    queue = make_scheduler(queue_url)
    await queue.list()
    tasks = [asyncio.create_task(queue.submit([make_job(one)])) for one in range(COUNT)]
    await asyncio.sleep(0)  # all wait
    await queue.close()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    acknowledged = {f"T-{one}" for one, error in enumerate(done) if error is None}
    assert {type(one) for one in done if one is not None} <= {StoreError, AppNotOpen}
    other = make_scheduler(queue_url)
    assert acknowledged <= {*await list_threads(other)}
    await other.close()


async def test_who_waited_in_a_circle_is_put_in_by_another_try(queue_url: str) -> None:
    queue = make_scheduler(queue_url)
    await queue.list()
    async with await AsyncConnection.connect(queue_url) as session:
        await session.execute(FAIL_ONCE.encode())
    await queue.submit([make_job(one) for one in range(COUNT)])
    assert await list_threads(queue) == [f"T-{one}" for one in range(COUNT)]
    await queue.close()


async def test_what_waits_for_a_person_stays_if_what_comes_after_it_cannot_be_put_in(
    queue_url: str,
) -> None:
    queue = make_scheduler(queue_url)

    async def ask(_: Job, cancelled: asyncio.Event) -> JobEnd:
        return JobEnd(JobStatus.WAITING)

    async with working(queue, ask):
        await queue.submit([make_job(0)])
        await until(lambda: all_are(queue, JobStatus.WAITING))
    [refused] = await asyncio.gather(
        queue.submit([Job("T-0", "agent", user=LONG)]), return_exceptions=True
    )
    assert isinstance(refused, StoreError)
    assert await all_are(queue, JobStatus.WAITING)
    await queue.submit([make_job(0)])
    assert [one.status for one in await queue.list()] == [JobStatus.QUEUED]
    await queue.close()
