"""Everything dies: workers are killed and put to sleep, the database is restarted and cut off.

Whatever happens and in whatever order: every task ends, no effect is there twice, none is there
that its thread does not tell, chains verify, and the queue and the journals agree. What is done is
counted and not timed: the next blow comes when so many more effects are there.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from fleet.queue_checks import until
from fleet.teams import Team, make_team
from server.databases import Postgres
from treadle import StoreError, SubmittedTask, Threads
from treadle.fleet.port import JobStatus
from treadle.thread.record import JournalCondition

Tasks = list[SubmittedTask[Any]]


async def find_faults(team: Team, tasks: Tasks) -> set[str]:
    """What is wrong when all is over; empty if nothing is."""
    faults: set[str] = set()
    effects = Counter(team.read_effects())
    faults |= {"an effect is there twice" for count in effects.values() if count > 1}
    states = {one.job.thread: one.status for one in await team.program.fleet.jobs()}
    store = Threads(team.program.make_store())
    for task in tasks:
        if store.scan(task.id).condition is not JournalCondition.CLEAN:
            faults.add("a chain does not verify")
            continue
        is_over = store.load(task.id).fold.machine.state_name == "Done"
        if (states[task.id] is JobStatus.DONE) != is_over:
            faults.add("queue and journal disagree")
        told = [msgspec.json.decode(one.event) for one in store.scan(task.id).records]
        done, in_doubt = set(), set()
        for one in told:
            if one["type"] == "tool_uncertain":
                in_doubt.add(one["call_id"])
            if one["type"] == "tool_completed" and one["outcome"]["type"] == "success":
                done.add(one["call_id"])
        there = {call for thread, call in effects if thread == task.id}
        if there - done - in_doubt:
            faults.add("an effect is not told")
        if done - there:
            faults.add("an effect is told that is not there")
    return faults


async def has_effects(team: Team, count: int, tasks: Tasks) -> bool:
    return len(team.read_ledger()) >= count or await are_over(team, tasks)


async def are_over(team: Team, tasks: Tasks) -> bool:
    """Whether the queue has nothing to do; a database that is away has."""
    try:
        states = {one.job.thread: one.status for one in await team.program.fleet.jobs()}
    except StoreError:
        return False
    return all(states.get(one.id) in (JobStatus.DONE, JobStatus.FAILED) for one in tasks)


class Blows:
    """What can happen to a fleet; whom it happens to is chance."""

    def __init__(self, team: Team, postgres: Postgres, url_name: str, chance: Random) -> None:
        self.team, self.postgres, self.name, self.chance = team, postgres, url_name, chance
        self.asleep: list[Any] = []

    def kill(self) -> None:
        """A worker dies, and another one is started."""
        self._choose().kill()
        self.team.start("--concurrency", "3")

    def sleep(self) -> None:
        """A worker stops where it is, past its lease; those that slept wake up."""
        self.wake()
        sleeper = self._choose()
        sleeper.send_signal(signal.SIGSTOP)
        self.asleep.append(sleeper)
        self.team.start("--concurrency", "3")

    def wake(self) -> None:
        for one in self.asleep:
            one.send_signal(signal.SIGCONT)
        self.asleep.clear()

    def stop(self) -> None:
        """A worker is told to stop, and another one is started."""
        self._choose().terminate()
        self.team.start("--concurrency", "3")

    def cut(self) -> None:
        """Every connection to the database ends."""
        self.postgres.kill_backends(self.name)

    def restart(self) -> None:
        """The database loses its power, and comes back."""
        self.postgres.stop_immediately()
        self.postgres.start()

    def _choose(self) -> Any:
        alive = [one for one in self.team.workers if one.poll() is None and one not in self.asleep]
        return self.chance.choice(alive)


async def play(team: Team, postgres: Postgres, tasks: Tasks, seed: int, blows: list[str]) -> None:
    """Work on the tasks under these blows, to their end."""
    chance = Random(seed)
    chance.shuffle(blows)
    name = team.told["FLEET_URL"].partition("@/")[2].partition("?")[0]
    fate = Blows(team, postgres, name, chance)
    for _ in range(3):
        team.start("--concurrency", "3")
    count = 0
    for blow in blows:
        count = len(team.read_ledger()) + chance.randrange(1, 4)
        await until(lambda: has_effects(team, count, tasks))  # noqa: B023  awaited here
        act: Callable[[], None] = getattr(fate, blow)
        await asyncio.to_thread(act)
    fate.wake()
    await until(lambda: are_over(team, tasks))
    for one in team.workers:
        one.terminate()
    for one in team.workers:
        await asyncio.to_thread(one.wait, 60)


async def run_chaos(folder: Path, postgres: Postgres, seed: int, tasks: int, rounds: int) -> None:
    with make_team(folder, postgres, "database") as team:
        many = team.program.many
        submitted = [await many.submit(f"Pay {n}.", user=f"u{n % 3}") for n in range(tasks)]
        blows = ["kill", "sleep", "stop", "cut", "restart"] * rounds
        await play(team, postgres, submitted, seed, blows)
        assert await find_faults(team, submitted) == set(), seed
        await team.program.fleet.scheduler.close()


async def test_a_fleet_loses_nothing_and_does_nothing_twice_whatever_dies(
    tmp_path: Path, postgres: Postgres
) -> None:
    await run_chaos(tmp_path, postgres, seed=1, tasks=12, rounds=1)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(10))
async def test_a_large_fleet_loses_nothing_and_does_nothing_twice(
    tmp_path: Path, postgres: Postgres, seed: int
) -> None:
    await run_chaos(tmp_path, postgres, seed, tasks=100, rounds=8)


BUGS = {
    "": set(),
    "runs calls again": {"an effect is there twice"},
    "acknowledges first": {"queue and journal disagree", "an effect is not told"},
}
"""What is planted in workers, and what is found of it."""


@pytest.mark.parametrize("bug", BUGS)
async def test_what_is_wrong_with_a_worker_is_seen(
    tmp_path: Path, postgres: Postgres, bug: str
) -> None:
    """One is put to sleep in a payment until another has done its work, and wakes.

    One that acknowledges before it works is killed when it has, and no other is there: that would
    find what is left, and mend it.
    """
    is_hasty = bug == "acknowledges first"
    with make_team(tmp_path, postgres, "database", bug) as team:
        team.hold.touch()
        submitted = await team.program.clerk.submit("Pay bills 1 and 2.")
        sleeper = team.start()
        await until(lambda: team.has_paid(1))
        sleeper.send_signal(signal.SIGKILL if is_hasty else signal.SIGSTOP)
        team.hold.unlink()
        workers = [sleeper] if is_hasty else [sleeper, team.start()]
        await until(lambda: are_over(team, [submitted]))
        sleeper.send_signal(signal.SIGCONT)
        for one in workers:
            one.terminate()
            await asyncio.to_thread(one.wait, 60)
        assert await find_faults(team, [submitted]) == BUGS[bug]
        await team.program.fleet.scheduler.close()
