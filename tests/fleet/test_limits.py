"""Limits over all queues of a fleet: several who take at once, and what programs and people say."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from fleet.queue_checks import DONE, all_are, until, working
from fleet.teams import make_team
from fleet.teams import run_fleet_command as run
from fleet.test_queues import make_scheduler
from server.databases import Postgres
from treadle import Agent, Fleet, LocalStore, MemoryScheduler, ScriptedModel, UsageError
from treadle.fleet import queue_limits
from treadle.fleet.port import EACH_NAME, Job, JobEnd, JobStatus, Limit, LimitKind
from treadle.fleet.queue_tables import PREFIX

ANN = Limit(LimitKind.USER, "ann", 1)


async def test_whoever_takes_beside_another_one_waits_for_what_it_takes(queue_url: str) -> None:
    """One has taken and not committed; the next one does not count without it."""
    queue = make_scheduler(queue_url)
    await queue.submit([Job("first", "a", user="ann"), Job("second", "a", user="ann")])
    await queue.set_limit(ANN)
    first = await AsyncConnection.connect(queue_url)
    second = await AsyncConnection.connect(queue_url)
    looking = await AsyncConnection.connect(queue_url, autocommit=True)
    told = {"queues": [PREFIX + "default"], "worker": None}
    takes = queue_limits.TAKE.encode()
    assert len(await (await first.execute(takes, told)).fetchall()) == 1
    taking = asyncio.create_task(second.execute(takes, told))

    async def waits_or_has_taken() -> bool:
        found = await looking.execute(
            b"SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        )
        return taking.done() or await found.fetchone() is not None

    try:
        await until(waits_or_has_taken)
        await first.commit()
        assert await (await taking).fetchall() == []
        await second.commit()
        await queue.remove_limit(LimitKind.USER, "ann")
        assert len(await (await second.execute(takes, told)).fetchall()) == 1
    finally:
        await asyncio.gather(first.close(), second.close(), looking.close(), queue.close())


async def test_of_many_who_take_at_once_none_takes_too_many(queue_url: str) -> None:
    queues = [make_scheduler(queue_url) for _ in range(3)]
    limits = {"ann": 1, "bob": 2, "carl": 3}
    await queues[0].set_limit(Limit(LimitKind.USER, EACH_NAME, 3))
    for name in ("ann", "bob"):
        await queues[0].set_limit(Limit(LimitKind.USER, name, limits[name]))
    await queues[0].submit(
        [Job(f"{name}{n}", "a", user=name) for n in range(12) for name in limits]
    )
    at_work: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def perform(job: Job, cancelled: asyncio.Event) -> JobEnd:
        at_work[job.user] += 1
        most[job.user] = max(most[job.user], at_work[job.user])
        await queues[0].now()  # the others take meanwhile
        at_work[job.user] -= 1
        return DONE

    async with (
        working(queues[0], perform, at_once=4),
        working(queues[1], perform, at_once=4),
        working(queues[2], perform, at_once=4),
    ):
        await until(lambda: all_are(queues[0], JobStatus.DONE))
    await asyncio.gather(*(one.close() for one in queues))
    assert {name: most[name] for name in limits if most[name] > limits[name]} == {}


async def test_a_task_is_of_the_organization_of_its_store_or_of_the_one_that_is_named(
    tmp_path: Path, postgres: Postgres
) -> None:
    with make_team(tmp_path, postgres, "database") as team:
        fleet = team.program.fleet
        await fleet.submit("clerk", "Pay.")
        [state] = await fleet.jobs()
        assert state.job.organization == "acme"
        with pytest.raises(UsageError, match="of their store's user"):
            await fleet.submit("clerk", "Pay.", organization="acme")
        await fleet.scheduler.close()
    named = Fleet(MemoryScheduler())
    model = ScriptedModel.of({"text": "Paid."})
    named.add(Agent("clerk", model=model, store=LocalStore.in_memory()))
    await named.submit("clerk", "Pay.", organization="acme")
    assert [one.job.organization for one in await named.jobs()] == ["acme"]


async def test_a_program_limits_by_what_tasks_are_counted_by() -> None:
    fleet = Fleet(MemoryScheduler())
    store = LocalStore.in_memory()
    own_model = ScriptedModel({"replies": [{"text": "Paid."}]})
    for name, model in (("own", own_model), ("named", "ollama:small")):
        fleet.add(Agent(name, model=model, store=store))
    await fleet.submit("own", "Pay.", user="ann")
    await fleet.submit("named", "Pay.")
    await fleet.submit("named", "Pay.", model="ollama:large")
    own, *named = [one.job for one in await fleet.jobs()]
    assert (own.user, own.model) == ("ann", "scripted")
    assert [one.model for one in named] == ["ollama:small", "ollama:large"]
    for model in ("scripted", "ollama:small", EACH_NAME):
        assert (await fleet.limits.set("model", model, 2)).name == model
    for kind, name, number in (("queue", "a", 1), ("user", "", 1), ("user", "a", 0)):
        with pytest.raises(UsageError):
            await fleet.limits.set(kind, name, number)
    with pytest.raises(UsageError, match="no provider"):
        await fleet.limits.set("model", "nobody:x", 1)
    await fleet.limits.remove("model", EACH_NAME)
    with pytest.raises(UsageError, match="there is no limit"):
        await fleet.limits.remove("model", EACH_NAME)
    assert [one.name for one in await fleet.limits.list()] == ["ollama:small", "scripted"]


def test_a_person_limits_with_a_command(tmp_path: Path, postgres: Postgres) -> None:
    with make_team(tmp_path, postgres, "folder") as team:
        assert run(team, "limit", "user", "*", "4").stdout == "user *: 4 at a time\n"
        assert run(team, "limit", "user", "ann", "2").returncode == 0
        for refused in (("limit", "queue", "a", "1"), ("limit", "user", "ann", "0")):
            assert run(team, *refused).returncode == 2
        assert run(team, "limits").stdout == "user *: 4 at a time\nuser ann: 2 at a time\n"
        assert run(team, "limits", "remove", "user", "*").stderr == "removed\n"
        assert "there is no limit" in run(team, "limits", "remove", "user", "*").stderr
        told = json.loads(run(team, "limits", "--json").stdout)
        assert told["limits"] == [{"kind": "user", "name": "ann", "number": 2, "at_work": {}}]
