"""Everything dies: workers, the database, the network between them; and clocks are wrong.

Whatever happens and in whatever order: every task ends, no effect is there twice, none is there
that its thread does not tell, chains verify, and the queue and the journals agree. What is done is
counted and not timed: the next blow comes when so many more effects are there.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

import msgspec
import pytest

from fleet.blows import HOUR_S, Blows
from fleet.queue_checks import until
from fleet.teams import Team, make_team
from server.databases import Postgres
from treadle import StoreError, SubmittedTask, Threads
from treadle.fleet.port import JobStatus
from treadle.thread.record import JournalCondition

TIME_S = 20 * 60.0
"""After that no more happens."""

_log = logging.getLogger(__name__)

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
            state_name = store.load(task.id).fold.machine.state_name
            _log.error("%s is %s in the queue, and %s", task.id, states[task.id], state_name)
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


async def are_over(team: Team, tasks: Tasks) -> bool:
    """Whether the queue has nothing to do; a database that is away has."""
    try:
        states = {one.job.thread: one.status for one in await team.program.fleet.jobs()}
    except StoreError:
        return False
    return all(states.get(one.id) in (JobStatus.DONE, JobStatus.FAILED) for one in tasks)


async def play(
    team: Team, postgres: Postgres, tasks: Tasks, seed: int, blows: list[str], workers: int
) -> None:
    """Work on the tasks under these blows, to their end."""
    chance, until_s = Random(seed), monotonic() + TIME_S
    chance.shuffle(blows)
    fate = Blows(team, postgres, chance, workers)
    team.set_pace(0)

    async def has_effects(count: int) -> bool:
        await asyncio.to_thread(fate.fill_up)
        # What a dead worker had begun may never have been paid: tasks are over with fewer, too.
        return len(team.read_ledger()) >= count or await are_over(team, tasks)

    try:
        await asyncio.to_thread(fate.fill_up)
        for number, blow in enumerate(blows):
            count = len(team.read_ledger()) + chance.randrange(1, 3)
            team.set_pace(count)
            await until(partial(has_effects, count))
            _log.info("blow %d at %d effects: %s", number, count, blow)
            await asyncio.to_thread(getattr(fate, blow))
            if monotonic() > until_s or await are_over(team, tasks):
                break
        (team.folder / "pace").unlink()
        await asyncio.to_thread(fate.bring_back)
        await until(lambda: are_over(team, tasks))
    finally:
        await asyncio.to_thread(fate.end)


def find_latest(team: Team, tasks: Tasks) -> datetime:
    """The latest time that a record has."""
    store = Threads(team.program.make_store())
    return max(datetime.fromisoformat(store.scan(one.id).records[-1].at) for one in tasks)


async def run_chaos(
    folder: Path, postgres: Postgres, seed: int, tasks: int, rounds: int, workers: int
) -> None:
    with make_team(folder, postgres, "database") as team:
        many = team.program.many
        submitted = [await many.submit(f"Pay {n}.", user=f"u{n % 3}") for n in range(tasks)]
        await play(team, postgres, submitted, seed, [*Blows.ALL] * rounds, workers)
        assert await find_faults(team, submitted) == set(), seed
        # Clocks were wrong indeed.
        assert find_latest(team, submitted) > datetime.now(UTC) + timedelta(seconds=HOUR_S / 2)
        await team.program.fleet.scheduler.close()


async def test_a_fleet_loses_nothing_and_does_nothing_twice_whatever_dies(
    tmp_path: Path, postgres: Postgres
) -> None:
    await run_chaos(tmp_path, postgres, seed=1, tasks=12, rounds=1, workers=3)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(3))
async def test_a_large_fleet_loses_nothing_and_does_nothing_twice(
    tmp_path: Path, postgres: Postgres, seed: int
) -> None:
    """About twenty minutes of it."""
    await run_chaos(tmp_path, postgres, seed, tasks=200, rounds=52, workers=6)


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
