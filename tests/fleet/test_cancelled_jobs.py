"""Tasks that are cancelled while their worker is alive, stopped or dead: each says so at last."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from fleet.queue_checks import DONE, PATIENCE_S, all_are, statuses, until, working
from fleet.teams import Team, make_team
from fleet.test_queues import has_workers, make_scheduler
from fleet.test_tasks import Ledger
from fleet.test_tasks import working as fleet_working
from server.databases import Postgres
from treadle import AgentError, Fleet, LocalStore, MemoryScheduler, SubmittedTask, ThreadBusyError
from treadle.fleet.port import Job, JobEnd, JobStatus, Scheduler
from treadle.fleet.queue_worker import QueueWorker

LEFT = {
    "queued": JobEnd(JobStatus.QUEUED, 3600.0),
    "waiting": JobEnd(JobStatus.WAITING),
    "dead": None,
}
"""How a worker leaves a job that was cancelled, and whose thread does not say so."""
ACTS = ("cancel", "cancel twice", "submit", "retry at once", "retry")
WORKERS = ("alive", "stopped", "dead before", "dead after")


@pytest.fixture(params=["memory", "database"])
async def queue(request: pytest.FixtureRequest) -> AsyncIterator[Scheduler]:
    """A queue without jobs, of each kind."""
    if request.param == "memory":
        yield MemoryScheduler()
        return
    found = make_scheduler(request.getfixturevalue("queue_url"))
    yield found
    await found.close()


class Taken:
    """What was taken, and whether its taker was told at once that it is cancelled."""

    def __init__(self, ends: dict[str, JobEnd | None]) -> None:
        self.ends, self.begun = ends, asyncio.Event()
        self.may_leave = asyncio.Event()
        self.told: list[tuple[str, bool]] = []

    async def perform(self, job: Job, cancelled: asyncio.Event) -> JobEnd:
        self.told.append((job.thread, cancelled.is_set()))
        if len(self.told) >= len(self.ends):
            self.begun.set()
        await self.may_leave.wait()
        end = self.ends[job.thread]
        if end is None:
            await asyncio.Event().wait()
        return end or DONE


async def end_stalled(queue: Scheduler, count: int) -> None:
    """Wait until so many jobs were given to others."""
    found: list[str] = []

    async def are_found() -> bool:
        found.extend(await queue.retry_stalled())
        return len(found) >= count

    await until(are_found)


async def test_who_takes_a_cancelled_job_next_is_told(queue: Scheduler) -> None:
    """However it was left, whether it was submitted once more, and whether that was taken back."""
    names = [f"{left}, {then}" for left, then in product(LEFT, ("nothing", "submit", "forget"))]
    first = Taken({name: LEFT[name.partition(",")[0]] for name in names})
    await queue.submit([Job(name, "a") for name in names])
    dying = asyncio.create_task(queue.run(first.perform, ["default"], 99, asyncio.Event()))
    await first.begun.wait()
    for name in names:
        assert await queue.cancel(name, is_recorded=False)
        if "submit" in name:
            await queue.submit([Job(name, "a")])
    first.may_leave.set()
    dead = [name for name in names if name.startswith("dead")]

    async def are_left() -> bool:
        found = await queue.list()
        return [one.job.thread for one in found if one.status is JobStatus.RUNNING] == dead

    await until(are_left)
    dying.cancel()
    await asyncio.wait([dying])
    await end_stalled(queue, len(dead))
    assert await all_are(queue, JobStatus.QUEUED)
    for name in names:
        if "forget" in name:
            await queue.forget_cancel(name)
            await queue.submit([Job(name, "a")])
    second = Taken(dict.fromkeys(names, JobEnd(JobStatus.CANCELLED)))
    second.may_leave.set()
    async with working(queue, second.perform, at_once=99):
        await until(lambda: all_are(queue, JobStatus.CANCELLED))
    assert sorted(second.told) == sorted((name, "forget" not in name) for name in names)


async def test_a_worker_that_is_cancelled_as_it_hears_of_a_job_ends(queue_url: str) -> None:
    """`asyncio.wait_for` would tell it of the job alone, and it would go on for ever."""
    queue = make_scheduler(queue_url)
    await queue.list()
    worker = QueueWorker(queue._app, Taken({}).perform, ["default"], 1, (60.0, 120.0))
    task = asyncio.create_task(worker.run(asyncio.Event(), 60.0))
    await until(lambda: has_workers(queue, 1))
    for _ in range(20):  # until it waits
        await queue.list()
    await worker._hear(channel="", notification={"type": "job_inserted"})
    task.cancel()
    assert (await asyncio.wait([task], timeout=PATIENCE_S))[0]
    await queue.close()


async def test_a_job_that_nobody_works_on_is_told_too(queue: Scheduler) -> None:
    """Its thread is held by somebody else; how it waits makes no difference."""
    ends = {"later": JobEnd(JobStatus.QUEUED, 3600.0), "asking": JobEnd(JobStatus.WAITING)}
    first = Taken({**ends})
    first.may_leave.set()
    wanted = {name: end.status for name, end in ends.items()}

    async def are_left() -> bool:
        return await statuses(queue) == wanted

    await queue.submit([Job(name, "a") for name in ends])
    async with working(queue, first.perform):
        await until(are_left)
    for name in ends:
        assert await queue.cancel(name, is_recorded=False)
    second = Taken(dict.fromkeys(ends, JobEnd(JobStatus.CANCELLED)))
    second.may_leave.set()
    async with working(queue, second.perform):
        await until(lambda: all_are(queue, JobStatus.CANCELLED))
    assert sorted(second.told) == [("asking", True), ("later", True)]
    assert not await queue.cancel("later", is_recorded=False)


async def find_end(submitted: SubmittedTask[Any]) -> str:
    """How a task ends for whoever waits for it."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            return str((await submitted.result()).output)
    except AgentError as error:
        return error.message
    except TimeoutError:
        return "waited for in vain"


CANCELLED, PAID = "the task was cancelled", "It is paid."


async def test_a_task_of_a_dead_worker_is_cancelled_when_its_lease_has_lapsed(
    queue: Scheduler,
) -> None:
    store, ledger = LocalStore.in_memory(), Ledger()
    agent, fleet = ledger.make_agent(store), Fleet(queue)
    fleet.add(agent)
    tasks = {act: await agent.submit("Pay bill 7.", key=act) for act in ACTS}
    ledger.may_end.clear()
    dying = asyncio.create_task(fleet.run(concurrency=len(ACTS)))
    await until(lambda: asyncio.sleep(0, len(ledger.paid) == len(ACTS)))
    dying.cancel()
    await asyncio.wait([dying])
    held = {act: await hold(store, one) for act, one in tasks.items()}
    for one in tasks.values():
        assert await fleet.cancel(one.id)
    await end_stalled(queue, len(ACTS))
    assert await fleet.cancel(tasks["cancel twice"].id)
    await agent.submit("Pay bill 7.", key="submit")
    with pytest.raises(ThreadBusyError):
        await fleet.retry(tasks["retry at once"].id)
    held["retry at once"].close()
    await fleet.retry(tasks["retry at once"].id)
    ledger.may_end.set()
    async with fleet_working(fleet, concurrency=len(ACTS)):
        assert await find_end(tasks["retry at once"]) == PAID
        for one in held.values():
            one.close()
        ends = {act: await find_end(one) for act, one in tasks.items()}
        assert ends == {**dict.fromkeys(ACTS, CANCELLED), "retry at once": PAID}
        await fleet.retry(tasks["retry"].id)
        assert await find_end(tasks["retry"]) == PAID
    found = await statuses(queue)
    over = {act: found[one.id] for act, one in tasks.items()}
    done = dict.fromkeys(("retry", "retry at once"), JobStatus.DONE)
    assert over == {**dict.fromkeys(ACTS, JobStatus.CANCELLED), **done}
    assert len(ledger.paid) == len(ACTS)


async def hold(store: LocalStore, submitted: SubmittedTask[Any]) -> Any:
    """The thread of a task, as soon as its worker has died, as if its lease had not lapsed yet."""
    found: list[Any] = []

    async def is_held() -> bool:
        with suppress(ThreadBusyError):
            found.append(store.hold(submitted.id))
        return bool(found)

    await until(is_held)
    return found[0]


async def test_a_task_is_cancelled_whatever_has_become_of_its_worker(
    tmp_path: Path, postgres: Postgres
) -> None:
    """With processes that are stopped, killed and woken; a call has begun in each task."""
    with make_team(tmp_path, postgres, "database") as team:
        await check_workers(team)


async def check_workers(team: Team) -> None:
    fleet, clerk = team.program.fleet, team.program.clerk
    cases = [*product(WORKERS, ACTS)]
    tasks = {
        (worker, act): await clerk.submit(
            "Pay bills 1 and 2.", key=f"{worker}, {act}", queue=worker
        )
        for worker, act in cases
    }
    team.hold.touch()
    options = ("--concurrency", str(len(cases)))
    workers = {name: team.start("--queues", name, *options) for name in WORKERS}
    await until(lambda: team.has_paid(len(cases)))
    for name in ("stopped", "dead after"):
        workers[name].send_signal(signal.SIGSTOP)
    workers["dead before"].kill()
    for (worker, act), one in tasks.items():
        for _ in range(1 + (act == "cancel twice")):
            assert await fleet.cancel(one.id) or worker == "alive"
        if act == "submit":
            await clerk.submit("Pay bills 1 and 2.", key=f"{worker}, {act}")
    workers["dead after"].kill()

    async def is_retried(submitted: SubmittedTask[Any]) -> bool:
        with suppress(ThreadBusyError):
            await fleet.retry(submitted.id)
            return True
        return False

    for worker in WORKERS:
        await until(partial(is_retried, tasks[worker, "retry at once"]))
    team.hold.unlink()
    team.start("--queues", ",".join(WORKERS), *options)
    wanted = {case: PAID if case[1] == "retry at once" else CANCELLED for case in cases}
    assert {case: await find_end(one) for case, one in tasks.items()} == wanted
    workers["stopped"].send_signal(signal.SIGCONT)
    for worker in WORKERS:
        await until(partial(is_retried, tasks[worker, "retry"]))
    wanted |= {(worker, "retry"): PAID for worker in WORKERS}
    assert {case: await find_end(one) for case, one in tasks.items()} == wanted
    effects = team.read_effects()
    assert len({*effects}) == len(effects)
    await fleet.scheduler.close()
