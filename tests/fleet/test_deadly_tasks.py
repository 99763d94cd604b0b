"""Tasks that kill their workers: tried so often, then set aside, and tried again when asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fleet.queue_checks import until
from fleet.teams import make_team, run_fleet_command
from fleet.test_tasks import Ledger, has_status, working
from server.databases import Postgres
from treadle import (
    Agent,
    AgentError,
    BuildError,
    Fleet,
    LocalStore,
    MemoryScheduler,
    ScriptedModel,
)
from treadle.fleet.port import Job, JobEnd, JobState, JobStatus, Perform
from treadle.fleet.worker import FleetWorker


async def test_a_task_that_kills_its_workers_is_set_aside_until_it_is_tried_again(
    tmp_path: Path, postgres: Postgres
) -> None:
    with make_team(tmp_path, postgres, "database", deaths=2) as team:
        submitted = await team.program.deadly.submit("Drop it.")
        for _ in range(2):
            assert await asyncio.to_thread(team.start().wait, 60) == -9
        survivor = team.start()
        with pytest.raises(AgentError, match="any more: its worker died 2 times"):
            await submitted.result()
        await until(lambda: team.is_left_as(submitted, JobStatus.FAILED))
        assert team.read_ledger() == ["dropped"] * 2
        assert "(deadly, its worker died 2 times)" in run_fleet_command(team).stdout
        (tmp_path / "mended").touch()
        assert run_fleet_command(team, "retry", submitted.id[-8:]).stderr == "queued\n"
        assert (await submitted.result()).output == "It is paid."
        assert (survivor.poll(), team.read_ledger()) == (None, ["dropped"] * 3)
        await team.program.fleet.scheduler.close()


class Places:
    """A queue that hands out what it is told to; only `run` is used of it."""

    def __init__(self) -> None:
        self.perform: Perform | None = None
        self.begun = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)

    async def run(
        self, perform: Perform, queues: Sequence[str], concurrency: int, stop: asyncio.Event
    ) -> None:
        self.perform = perform
        self.begun.set()
        await stop.wait()


class Hands:
    """Works on each job until it is told that it is done."""

    def __init__(self) -> None:
        self.done: dict[str, asyncio.Event] = {}

    async def work(self, job: Job, stop: asyncio.Event, cancelled: asyncio.Event) -> JobEnd:
        self.done[job.thread] = asyncio.Event()
        await self.done[job.thread].wait()
        return JobEnd(JobStatus.DONE)

    def list_unknown(self, states: Sequence[JobState]) -> list[str]:
        return []

    def find_lost(self, states: Sequence[JobState], unknown: Sequence[str]) -> list[Job]:
        return []

    async def submit_due(self) -> None:
        pass


async def test_the_last_try_is_made_alone_so_that_who_stood_beside_it_is_not_set_aside() -> None:
    queue, hands, stop = Places(), Hands(), asyncio.Event()
    worker = FleetWorker(queue, hands, 3600.0, deaths_max=3)
    running = asyncio.create_task(worker.run(["default"], 4, stop))
    await queue.begun.wait()
    perform = queue.perform
    assert perform is not None

    async def take(name: str, deaths: int = 0) -> asyncio.Task[JobEnd]:
        taken = asyncio.create_task(perform(Job(name, "a", deaths=deaths), asyncio.Event()))
        await asyncio.sleep(0)
        return taken

    plain, once = await take("plain"), await take("once", 1)
    assert {*worker.running} == {"plain", "once"}
    # It waits in the queue, with the deaths that it has; so does what comes after it.
    assert (await (await take("last", 2))).deaths == 2
    assert (await (await take("other"))).status is JobStatus.QUEUED
    for name in ("plain", "once"):
        hands.done[name].set()
    await asyncio.wait([plain, once])
    last = await take("last", 2)
    for name, deaths in (("other", 0), ("second", 2)):
        refused = await (await take(name, deaths))
        assert (refused.status, refused.deaths) == (JobStatus.QUEUED, deaths)
    hands.done["last"].set()
    assert (await last).status is JobStatus.DONE
    second = await take("second", 2)
    assert {*worker.running} == {"second"}
    hands.done["second"].set()
    await second
    other = await take("other")
    assert {*worker.running} == {"other"}
    hands.done["other"].set()
    await other
    stop.set()
    await running


@pytest.mark.parametrize("deaths", [0, 5, 9, 10])
async def test_a_task_that_was_over_when_its_worker_died_is_not_set_aside(deaths: int) -> None:
    """It is left as it ended, but where to open it may be what kills."""
    store, ledger, stop = LocalStore.in_memory(), Ledger(), asyncio.Event()
    fleet = Fleet(MemoryScheduler())
    fleet.add(ledger.make_agent(store))
    submitted = await fleet.submit("clerk", "Pay bill 7.")
    async with working(fleet):
        await submitted.result()
    hand = fleet.make_worker()._hand
    version = store.load(submitted.id).fold.version
    end = await hand.work(Job(submitted.id, "clerk", deaths=deaths), stop, asyncio.Event())
    assert end.status is (JobStatus.FAILED if deaths == 10 else JobStatus.DONE)
    assert store.load(submitted.id).fold.version == version


async def test_a_task_that_nobody_can_work_on_says_why() -> None:
    """The agent that is here is not the one that began it."""
    store, ledger, queue = LocalStore.in_memory(), Ledger(), MemoryScheduler()
    fleet = Fleet(queue)
    fleet.add(ledger.make_agent(store))
    submitted = await fleet.submit("clerk", "Pay bill 7.")
    second = Fleet(queue)
    agent = Agent("clerk", model=ScriptedModel.of({"text": "Nothing."}), store=store)
    second.add(agent)
    async with working(second):
        with pytest.raises(AgentError, match=r"no worker tries it any more: .*pay"):
            await agent.submitted(thread_id=submitted.id).result()
        await until(lambda: has_status(second, JobStatus.FAILED))
        await second.make_worker().sweep()  # it is no lost one
    assert await has_status(second, JobStatus.FAILED)
    await fleet.retry(submitted.id)
    async with working(fleet):
        assert (await submitted.result()).output == "It is paid."
    with pytest.raises(BuildError, match="tried once"):
        Fleet(MemoryScheduler(), deaths_max=0)
