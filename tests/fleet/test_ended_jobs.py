"""What a queue still costs when tasks are over: rows that are read, threads that are opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from fleet import test_queues
from fleet.queue_checks import DONE, all_are, until, working
from fleet.teams import make_team
from fleet.teams import run_fleet_command as run
from fleet.test_tasks import Ledger, has_status
from fleet.test_tasks import working as fleet_working
from server.databases import Postgres
from treadle import Fleet, LocalStore, MemoryScheduler
from treadle.agent import lost_jobs
from treadle.agent.members import Members
from treadle.fleet.port import Job, JobEnd, JobStatus, Scheduler
from treadle.fleet.worker import FleetWorker

MANY = 20_000
NOISE = 40
"""Rows that a plan may read more: pages of an index that deleted rows have left, say."""

_READ = (
    "SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables"
)
_END_MANY = """WITH made AS (INSERT INTO procrastinate_jobs
(queue_name, task_name, lock, args, status)
SELECT 'treadle/default', 'a', 'old' || n,
'{"user": "", "queue": "default", "priority": 0}', 'succeeded'
FROM generate_series(1, %s) AS n RETURNING id)
INSERT INTO procrastinate_events (job_id, type) SELECT id, 'succeeded' FROM made"""


class Knowing:
    """Knows its threads by heart: what a queue is asked is all that counts."""

    def __init__(self, *lost: Job) -> None:
        self.lost = [*lost]

    def list_unknown(self, states: Any) -> list[str]:
        return []

    def find_lost(self, states: Any, unknown: Any) -> list[Job]:
        return self.lost

    async def submit_due(self) -> None:
        pass


def count_read(url: str) -> int:
    """The rows that were read until now; who has read them has ended its connections."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_READ).fetchone()
    assert row is not None
    return int(row[0])


async def count_read_in_sweep(url: str) -> int:
    """The rows that one sweep reads, as its database knows what it has."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    before = count_read(url)
    queue = test_queues.make_scheduler(url)
    await FleetWorker(queue, Knowing(), 3600.0).sweep()  # type: ignore[arg-type]
    await queue.close()
    return count_read(url) - before


async def check_sweep(url: str) -> None:
    """A sweep reads no more rows with 20,000 jobs that are over than with 10."""
    queue = test_queues.make_scheduler(url)
    await queue.submit([Job(f"t{n}", "a") for n in range(10)])
    await queue.close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_END_MANY, (10,))
    few = await count_read_in_sweep(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_END_MANY, (MANY,))
    many = await count_read_in_sweep(url)
    assert many <= few + NOISE, (few, many)


async def count_read_in_submit(url: str, thread_id: str) -> int:
    """The rows that are read to submit one job, as its database knows what it has."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    queue = test_queues.make_scheduler(url)
    await queue.list_open()  # its tables are looked up before
    await queue.close()
    before = count_read(url)
    queue = test_queues.make_scheduler(url)
    await queue.submit([Job(thread_id, "a", user="bob")])
    await queue.close()
    return count_read(url) - before


async def check_submit(url: str) -> None:
    """To submit one reads no more rows when others have 10,000 queued than when they have 10."""
    queue = test_queues.make_scheduler(url)
    await queue.submit([Job(f"b{n}", "a", user="bob") for n in range(3)])
    await queue.submit([Job(f"t{n}", "a", user=f"ann{n % 5}") for n in range(10)])
    few = await count_read_in_submit(url, "few")
    await queue.submit([Job(f"m{n}", "a", user=f"ann{n % 5}") for n in range(10_000)])
    many = await count_read_in_submit(url, "many")
    await queue.close()
    assert many <= few + NOISE, (few, many)


async def test_to_submit_reads_no_jobs_of_others(queue_url: str) -> None:
    await check_submit(queue_url)


async def test_a_sweep_reads_no_jobs_that_are_over(queue_url: str) -> None:
    await check_sweep(queue_url)


async def test_a_lost_job_that_cannot_be_queued_keeps_no_other_out(queue_url: str) -> None:
    queue = test_queues.make_scheduler(queue_url)
    hand = Knowing(Job("one", "a"), Job("bad", "a", "\0"), Job("two", "a"))
    await FleetWorker(queue, hand, 3600.0).sweep()  # type: ignore[arg-type]
    assert {one.job.thread for one in await queue.list()} == {"one", "two"}
    await queue.close()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that are opened."""
    found: list[str] = []
    load = Members.load

    def load_told(self: Members, thread_id: str) -> Any:
        found.append(thread_id)
        return load(self, thread_id)

    monkeypatch.setattr(Members, "load", load_told)
    return found


async def test_a_worker_opens_no_thread_whose_job_is_over(opened: list[str]) -> None:
    store, ledger, queue = LocalStore.in_memory(), Ledger(), MemoryScheduler()
    agent, fleet = ledger.make_agent(store), Fleet(queue)
    fleet.add(agent)
    for number in range(5):
        await agent.submit("Pay bill 7.", key=f"bill-{number}")
    async with fleet_working(fleet):
        await until(lambda: has_status(fleet, JobStatus.DONE))
    opened.clear()
    await fleet.make_worker().sweep()
    assert opened == []
    # When the queue has forgotten them, each worker opens each once.
    assert await queue.remove_ended(0.0) == 5
    worker = fleet.make_worker()
    for _ in range(2):
        await worker.sweep()
    assert (sorted(opened), await fleet.jobs()) == (sorted(store.ids()), [])


async def test_a_worker_that_starts_among_many_threads_opens_them_bit_by_bit(
    opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest first, among which is what a crash has lost just now."""
    monkeypatch.setattr(lost_jobs, "OPENED_MAX", 2)
    monkeypatch.setattr(lost_jobs, "ASKED_MAX", 4)
    store, ledger, forgetful = LocalStore.in_memory(), Ledger(), MemoryScheduler()
    agent, lost = ledger.make_agent(store), Fleet(forgetful)
    lost.add(agent)
    for number in range(5):
        await agent.submit("Pay bill 7.", key=f"bill-{number}")
    queue = MemoryScheduler()
    fleet = Fleet(queue)
    fleet.add(ledger.make_agent(store))
    worker, newest = fleet.make_worker(), store.ids()
    for count in (2, 4, 5, 5):
        await worker.sweep()
        assert [one.job.thread for one in await queue.list()] == newest[:count]
    assert opened == newest


async def test_commands_find_tasks_that_the_queue_has_forgotten(
    tmp_path: Path, postgres: Postgres
) -> None:
    with make_team(tmp_path, postgres, "database") as team:
        queue: Scheduler = team.program.fleet.scheduler
        paid = await team.program.clerk.submit("Pay bills 1 and 2.")
        dropped = await team.program.clerk.submit("Pay them once more.")
        worker = team.start()
        await paid.result()
        await dropped.result()
        worker.terminate()
        assert worker.wait(60) == 0
        left = await team.program.clerk.submit("Pay them at last.")
        assert run(team, "cancel", left.id[-8:]).stderr == "cancelled\n"
        assert await queue.remove_ended(0.0) == 3
        assert run(team).stdout == "0 workers\n"

        watched = run(team, "watch", paid.id[-8:]).stdout.splitlines()
        assert '"task_ended"' in watched[-1]
        assert (await paid.result()).output == "It is paid."
        assert "nothing left" in run(team, "retry", paid.id).stderr
        assert run(team, "cancel", paid.id).stderr == "it is over already\n"
        assert run(team, "retry", left.id[-8:]).stderr == "queued\n"
        team.start()
        assert (await left.result()).output == "It is paid."
        assert team.read_ledger() == ["1", "2"] * 3
        await queue.close()


async def test_rows_are_removed_some_at_a_time(
    queue_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.fleet.queue_lists.REMOVED_MAX", 2)
    queue = test_queues.make_scheduler(queue_url)
    await queue.submit([Job(f"t{n}", "a") for n in range(5)])

    async def perform(job: Job, cancelled: Any) -> JobEnd:
        return DONE

    async with working(queue, perform):
        await until(lambda: all_are(queue, JobStatus.DONE))
    assert [await queue.remove_ended(0.0) for _ in range(4)] == [2, 2, 1, 0]
    await queue.close()
