"""Tasks that repeat: each due time is one task, whoever dies; what was missed, what still goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.queue_checks import until
from fleet.queue_checks import working as working_on
from fleet.teams import make_team
from fleet.teams import run_fleet_command as run
from fleet.test_tasks import Ledger, has_status, working
from server.databases import Postgres
from treadle import (
    Agent,
    Fleet,
    LocalStore,
    MemoryScheduler,
    ScriptedModel,
    StoreError,
    TokenBudget,
    TreadleError,
    UsageError,
)
from treadle.fleet.port import Job, JobEnd, JobStatus, Scheduler, TaskSchedule

START: Final = datetime(2027, 1, 31, 7, 0, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
YEARLY: Final = "0 0 1 1 *"


class Clocked(MemoryScheduler):
    """A queue whose clock is set, and that can be away."""

    def __init__(self) -> None:
        super().__init__()
        self.moment, self.is_away = START, False

    async def now(self) -> datetime:
        return self.moment

    async def submit(self, jobs: Any) -> None:
        if self.is_away:
            raise StoreError("the queue is away")
        await super().submit(jobs)


class Party:
    """A fleet whose clerk pays every hour."""

    def __init__(self) -> None:
        self.store, self.queue, self.ledger = LocalStore.in_memory(), Clocked(), Ledger()
        self.fleet = self.make_fleet()

    def make_fleet(self) -> Fleet:
        """The same one in another process, as it were."""
        fleet = Fleet(self.queue)
        fleet.add(self.ledger.make_agent(self.store))
        return fleet

    async def add(self, cron: str = "0 * * * *", **told: Any) -> TaskSchedule:
        return await self.fleet.schedules.add("clerk", "Pay bill 7.", cron, key="pay", **told)

    async def look(self, moment: datetime) -> TaskSchedule:
        """A worker looks what is due; gives what it has made of it."""
        self.queue.moment = moment
        await self.fleet.schedules.submit_due()
        return (await self.fleet.schedules.list())[0]

    @property
    def keys(self) -> list[str]:
        """Of the tasks, in the order of their due times."""
        return sorted(self.store.load(one).fold.header.key for one in self.store.ids())

    async def finish(self) -> None:
        async with working(self.fleet):
            await until(lambda: has_status(self.fleet, JobStatus.DONE))


async def set_aside(job: Job, cancelled: asyncio.Event) -> JobEnd:
    return JobEnd(JobStatus.FAILED)


async def has_left(queue: Scheduler, thread_id: str) -> bool:
    return [one.status for one in await queue.find([thread_id])] == [JobStatus.FAILED]


def make_keys(*hours: int) -> list[str]:
    return [f"schedule pay 2027-01-31T{hour:02}:00Z" for hour in hours]


async def test_each_due_time_is_one_task_whoever_finds_it() -> None:
    party = Party()
    made = await party.add(user="ann", priority=3, budget=TokenBudget(max_total=1000))
    assert (await party.add()).options == made.options, "it is there already"
    assert (made.next_at, (await party.look(START)).last_at) == (START + HOUR, None)
    assert party.keys == []
    party.queue.moment = START + HOUR
    fleets = [party.fleet, *(party.make_fleet() for _ in range(3))]
    await asyncio.gather(*(one.schedules.submit_due() for one in fleets))
    assert party.keys == make_keys(8)
    [state] = await party.fleet.jobs()
    assert (state.job.user, state.job.priority) == ("ann", 3)
    memory: Any = party.store.load(state.job.thread).fold.machine
    assert memory.memory.budget.max_total == 1000
    await party.finish()
    found = await party.look(START + 2 * HOUR)
    assert (found.last_at, found.next_at) == (START + 2 * HOUR, START + 3 * HOUR)
    assert (party.keys, found.note) == (make_keys(8, 9), "")


async def test_of_times_that_were_missed_the_latest_is_made_up_for() -> None:
    party = Party()
    await party.add()
    found = await party.look(START + 5.5 * HOUR)
    assert (party.keys, found.next_at) == (make_keys(12), START + 6 * HOUR)
    assert found.note == "times before 2027-01-31T12:00Z were missed"
    await party.finish()
    assert (await party.look(START + 6 * HOUR)).note == ""
    late = Party()
    await late.add("0 0 * * *", start_at=START - 72 * HOUR)
    await late.look(START)
    assert late.keys == ["schedule pay 2027-01-31T00:00Z"]


async def test_a_time_at_which_the_last_task_still_goes_is_skipped_and_told() -> None:
    party = Party()
    await party.add()
    first = await party.look(START + HOUR)
    second = await party.look(START + 2 * HOUR)
    assert second.note == f"2027-01-31T09:00Z was skipped: {first.last_thread} was not over"
    assert (party.keys, second.last_thread) == (make_keys(8), first.last_thread)
    await party.fleet.cancel(first.last_thread)
    third = await party.look(START + 3 * HOUR)
    assert (party.keys, third.note) == (make_keys(8, 10), "")
    # Nor does one that was set aside unopened: only the queue knows of it.
    async with working_on(party.queue, set_aside):
        await until(lambda: has_left(party.queue, third.last_thread))
    fourth = await party.look(START + 4 * HOUR)
    assert (party.keys, fourth.note) == (make_keys(8, 10, 11), "")


async def test_a_schedule_is_paused_resumed_and_removed() -> None:
    party = Party()
    await party.add()
    schedules = party.fleet.schedules
    await schedules.pause("pay")
    assert (await party.look(START + 3 * HOUR)).is_paused
    await schedules.resume("pay")
    assert (await party.look(START + 3 * HOUR)).next_at == START + 4 * HOUR
    assert party.keys == []
    await party.look(START + 4 * HOUR)
    await schedules.remove("pay")
    assert (party.keys, await schedules.list()) == (make_keys(11), ())
    for act in (schedules.pause, schedules.resume, schedules.remove):
        with pytest.raises(UsageError, match="no schedule 'pay'"):
            await act("pay")


async def test_what_is_begun_is_submitted_when_that_can_be_done_and_only_then() -> None:
    party = Party()
    await party.add()
    party.queue.is_away = True
    begun = await party.look(START + HOUR)
    assert (begun.begun_at, begun.last_at, await party.fleet.jobs()) == (START + HOUR, None, [])
    await party.look(START + HOUR)
    party.queue.is_away = False
    done = await party.look(START + 3 * HOUR)
    assert (done.begun_at, done.last_at, party.keys) == (None, START + HOUR, make_keys(8))
    assert len(await party.fleet.jobs()) == 1


async def test_what_cannot_be_submitted_is_told_and_others_are() -> None:
    party = Party()
    await party.add()
    gone = Agent("clerk", model=ScriptedModel.of({"text": ""}), store=party.store, repositories={})  # type: ignore[arg-type]
    fleet = Fleet(party.queue)
    fleet.add(gone)
    party.queue.moment = START + HOUR
    await fleet.schedules.submit_due()
    [found] = await fleet.schedules.list()
    assert found.note.startswith("2027-01-31T08:00Z was not submitted: the agent 'clerk' works in")
    other = Fleet(party.queue)
    other.add(Agent("other", model=ScriptedModel.of({"text": ""}), store=party.store))
    party.queue.moment = START + 2 * HOUR
    await other.schedules.submit_due()
    assert (await fleet.schedules.list(), party.keys) == ((found,), [])
    await party.look(START + 2 * HOUR)
    assert party.keys == make_keys(9)


REFUSED: Final[Mapping[str, dict[str, Any]]] = {
    "4 fields": {"cron": "* * * *"},
    "no time zone": {"zone": "Mars"},
    "nobody": {"model": "nobody:x"},
    "has a task": {"prompt": " "},
    "200 characters": {"key": "k" * 201},
    "no agent": {"agent": "who"},
}


async def test_what_cannot_be_a_schedule_is_refused() -> None:
    party, plain = Party(), {"agent": "clerk", "prompt": "Pay.", "cron": "* * * * *"}
    for why, told in REFUSED.items():
        with pytest.raises(TreadleError, match=why):
            await party.fleet.schedules.add(**{**plain, **told})
    assert await party.fleet.schedules.list() == ()


DEATHS: Final = ("before 1", "behind 1", "before 2", "behind 2")


async def test_a_worker_that_is_killed_at_a_due_time_leaves_one_task_of_it(
    tmp_path: Path, postgres: Postgres
) -> None:
    """At each step of it: not begun, begun, submitted, and all is done."""
    found = {}
    for place in DEATHS:
        folder = tmp_path / place
        folder.mkdir()
        with make_team(folder, postgres, "database", f"dies at schedules {place}") as team:
            fleet = team.program.fleet
            start = datetime.now(UTC) - timedelta(days=800)
            await fleet.schedules.add("clerk", "Pay.", YEARLY, key="yearly", start_at=start)
            assert await asyncio.to_thread(team.start().wait, 60) == -9
            team.environment["FLEET_BUG"] = ""
            for _ in range(2):
                team.start("--concurrency", "2")

            async def is_paid() -> bool:
                [one] = await team.program.fleet.schedules.list()
                states = await team.program.fleet.jobs()
                return one.begun_at is None and {state.status for state in states} == {
                    JobStatus.DONE
                }

            await until(is_paid)
            keys = [
                team.program.store.find_key(f"schedule yearly {year}-01-01T00:00Z") is not None
                for year in range(start.year, start.year + 5)
            ]
            found[place] = (keys.count(True), len(team.program.store.ids()), team.read_ledger())
            await fleet.scheduler.close()
    assert found == dict.fromkeys(DEATHS, (1, 1, ["1", "2"]))


async def test_schedules_are_made_shown_and_removed_by_commands(
    tmp_path: Path, postgres: Postgres
) -> None:
    with make_team(tmp_path, postgres, "folder") as team:
        at = ["--every", "30 8 * * mon-fri", "--zone", "Europe/Vienna"]
        line = '{"task": "Pay.", "every": "0 0 1 1 *", "key": "yearly", "user": "ann"}\nPay.\n'
        for options, stdin, why in (
            (["Pay.", "--every", "8 o'clock"], "", "says no times"),
            (["Pay.", *at[:3], "Mars"], "", "no time zone 'Mars'"),
            (["-"], '{"task": "Pay.", "every": "x"}', "says no times"),
        ):
            assert why in run(team, "submit", "--agent", "clerk", *options, stdin=stdin).stderr
        assert run(team, "schedules").stdout == ""
        done = run(team, "submit", "--agent", "clerk", "Pay.", *at, "--key", "daily")
        assert done.stdout == "daily\n"
        first, thread = run(team, "submit", "--agent", "clerk", "-", stdin=line).stdout.split()
        assert (first, thread[:2]) == ("yearly", "T-")
        shown = run(team, "schedules").stdout.splitlines()
        assert [one.split("  ")[0] for one in shown] == ["daily", "yearly"]
        assert shown[0].endswith("08:30  Pay.  (clerk, 30 8 * * mon-fri, Europe/Vienna)")
        told = json.loads(run(team, "schedules", "--json").stdout)["schedules"]
        assert (told[1]["cron"], told[1]["options"]["user"]) == ("0 0 1 1 *", "ann")
        assert run(team, "schedules", "pause", "daily").stderr == "paused\n"
        assert "daily  paused  Pay." in run(team, "schedules").stdout
        assert run(team, "schedules", "resume", "daily").stderr == "resumed\n"
        assert run(team, "schedules", "remove", "daily").stderr == "removed\n"
        assert "no schedule 'daily'" in run(team, "schedules", "remove", "daily").stderr
        assert len(run(team, "schedules").stdout.splitlines()) == 1
        await team.program.fleet.scheduler.close()
