"""Leases are those of the database's clock: what a worker's own says counts for nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fleet.blows import HOUR_S
from fleet.queue_checks import until
from fleet.teams import make_team
from server.databases import Postgres
from treadle import ThreadBusyError
from treadle.fleet.port import JobStatus


@pytest.mark.parametrize("ahead_s", [HOUR_S, -HOUR_S])
async def test_a_worker_with_a_wrong_clock_is_believed_as_long_as_others(
    tmp_path: Path, postgres: Postgres, ahead_s: float
) -> None:
    """It has what it holds while it lives, and no longer."""
    with make_team(tmp_path, postgres, "database") as team:
        team.hold.touch()
        submitted = await team.program.clerk.submit("Pay bills 1 and 2.")
        worker = team.start(ahead_s=ahead_s)
        await until(lambda: team.has_paid(1))
        with pytest.raises(ThreadBusyError):
            await asyncio.to_thread(team.program.store.hold, submitted.id)
        worker.kill()
        team.hold.unlink()
        team.start()
        await until(lambda: team.is_left_as(submitted, JobStatus.DONE))
        assert await team.count_uncertain(submitted) == 1
        await team.program.fleet.scheduler.close()
