"""Tasks on which nobody will go on: `result()` and `watch` end, and say why and what to do."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from fleet.queue_checks import PATIENCE_S, until
from fleet.teams import PROGRAM, Team, make_team, run_fleet_command
from server.databases import Postgres
from server.journals.test_fencing import run_sql
from treadle import AgentError, SubmittedTask, UnknownThreadError
from treadle.fleet.job_mark import CANCELLED_TAG
from treadle.fleet.port import JobStatus
from treadle.store.upkeep.trash import Trash
from treadle.thread.facts import Tagged


async def check_dead_end(team: Team, submitted: SubmittedTask[str], why: str) -> None:
    """A program that waits and a person that watches are told the same, and what to do."""
    with pytest.raises(AgentError, match=why) as found:
        async with asyncio.timeout(PATIENCE_S):
            await submitted.result()
    assert f"treadle fleet retry {submitted.id}" in str(found.value.hint)
    watched = await asyncio.to_thread(run_fleet_command, team, "watch", submitted.id)
    assert watched.returncode == 1, watched
    assert why in watched.stderr
    assert f"treadle fleet retry {submitted.id}" in watched.stderr
    assert json.loads(watched.stdout.splitlines()[0])["type"] == "thread_created"


async def test_who_waits_is_told_that_nobody_goes_on(tmp_path: Path, postgres: Postgres) -> None:
    with make_team(tmp_path, postgres, "database") as team:
        fleet, clerk = team.program.fleet, team.program.clerk
        # Somebody holds it, and is gone before a worker is there.
        pending = await clerk.submit("Pay.")
        held = team.program.store.hold(pending.id)
        assert await fleet.cancel(pending.id)
        held.close()
        await check_dead_end(team, pending, "cancelled, and no worker has recorded that yet")
        # Who sets it aside does not open its thread, so nothing there says so.
        deadly = await team.program.deadly.submit("Drop it.")
        for _ in range(2):
            assert await asyncio.to_thread(team.start().wait, 60) == -9
        team.environment["FLEET_DEATHS"] = "1"
        team.start()
        await until(lambda: team.is_left_as(deadly, JobStatus.FAILED))
        assert fleet.load(deadly.id).metadata.extra.keys() == {"fleet"}
        await check_dead_end(team, deadly, "its worker died 2 times")
        assert "(deadly, its worker died 2 times)" in run_fleet_command(team).stdout
        # Who had it tried again has died between the thread and the queue.
        half = await clerk.submit("Pay.", queue="other")
        died = "UPDATE procrastinate_jobs SET args = args || '{\"deaths\": 1}'"
        run_sql(team.told["FLEET_URL"], f"{died} WHERE lock = '{half.id}'")
        assert await fleet.cancel(half.id)
        await fleet._record(half.id, Tagged((), (CANCELLED_TAG,)))
        await check_dead_end(team, half, "the queue has it as cancelled")
        for one in (half, pending):
            assert run_fleet_command(team, "retry", one.id).stderr == "queued\n"
        assert (await pending.result()).output == "It is paid."
        await fleet.scheduler.close()


async def test_who_watches_is_told_why_nobody_works_on_it(
    tmp_path: Path, postgres: Postgres
) -> None:
    """There is a prospect, so it is waited for: until somebody removes the thread."""
    with make_team(tmp_path, postgres, "folder") as team:
        submitted = await team.program.asking.submit("Pay.", queue="rare")
        await watch_until(team, submitted, "no worker takes tasks of its queue")
        team.start("--queues", "rare")
        await watch_until(team, submitted, f"treadle fleet approve {submitted.id}")
        await team.program.fleet.scheduler.close()


async def watch_until(team: Team, submitted: SubmittedTask[str], told: str) -> None:
    """Watch it until this is said."""
    watching = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "treadle", "fleet", "--in", f"{PROGRAM}:fleet"),
        *("watch", submitted.id),
        env=team.environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert watching.stderr is not None
    async with asyncio.timeout(PATIENCE_S):
        while told not in (line := await watching.stderr.readline()).decode():
            assert line, told
    watching.kill()
    await watching.wait()


@pytest.mark.parametrize("kind", ["database", "folder"])
async def test_who_waits_for_a_thread_that_is_removed_is_told(
    tmp_path: Path, postgres: Postgres, kind: str
) -> None:
    with make_team(tmp_path, postgres, kind) as team:
        submitted = await team.program.clerk.submit("Pay.")
        watching = submitted.follow()
        seen = asyncio.Event()

        async def watch() -> None:
            async for _ in watching:
                seen.set()

        followers = [asyncio.create_task(watch()), asyncio.create_task(submitted.result())]
        await seen.wait()
        if kind == "folder":
            Trash(team.program.store).put([submitted.id])
        else:
            run_sql(team.told["FLEET_URL"], "UPDATE threads SET purged_at = 'now'")
        for one in followers:
            with pytest.raises(UnknownThreadError):
                async with asyncio.timeout(PATIENCE_S):
                    await one
        await team.program.fleet.scheduler.close()
