"""Workers as processes: killed in the middle, told to stop, one after the other on one task."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.queue_checks import until
from fleet.teams import Team, make_team
from server.databases import Postgres
from treadle import ApprovalNeeded
from treadle.fleet.port import JobStatus

PATIENCE_S = 60.0


@pytest.fixture(params=["folder", "database"])
def team(request: pytest.FixtureRequest, tmp_path: Path, postgres: Postgres) -> Iterator[Team]:
    """A fleet on each kind of store."""
    with make_team(tmp_path, postgres, request.param) as found:
        yield found


async def test_a_worker_that_is_killed_in_a_payment_leaves_it_told_as_uncertain(
    team: Team,
) -> None:
    team.hold.touch()
    submitted = await team.program.clerk.submit("Pay bills 1 and 2.", key="bills")
    first = team.start()
    await until(lambda: team.has_paid(1))
    team.start()
    first.kill()
    team.hold.unlink()
    assert (await submitted.result()).output == "It is paid."
    await until(lambda: team.is_left_as(submitted, JobStatus.DONE))
    assert team.read_ledger() == ["1", "2"]
    assert await team.count_uncertain(submitted) == 1
    await team.program.fleet.scheduler.close()


async def test_a_worker_that_is_told_to_stop_hands_its_task_over(team: Team) -> None:
    team.hold.touch()
    submitted = await team.program.clerk.submit("Pay bills 1 and 2.")
    first = team.start("--health", "0")
    await until(lambda: team.has_paid(1))
    port = int(team.said.rpartition(" ")[2])
    told = ask_health(port)
    assert (told["running"], told["draining"]) == ([submitted.id], False)
    first.terminate()
    await until(lambda: is_draining(port))
    team.hold.unlink()
    assert first.wait(PATIENCE_S) == 0
    assert team.read_ledger() == ["1"]
    assert await team.status(submitted) is JobStatus.QUEUED
    team.start()
    assert (await submitted.result()).output == "It is paid."
    assert (team.read_ledger(), await team.count_uncertain(submitted)) == (["1", "2"], 0)
    await team.program.fleet.scheduler.close()


def ask_health(port: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE_S) as answer:
        told: dict[str, Any] = json.load(answer)
    return told


async def is_draining(port: int) -> bool:
    try:
        ask_health(port)
    except urllib.error.HTTPError as error:
        return error.code == 503 and bool(json.load(error)["draining"])
    return False


async def test_a_task_that_waits_for_a_person_is_gone_on_with_by_another_worker(
    team: Team,
) -> None:
    submitted = await team.program.asking.submit("Pay bill 1.")
    first = team.start()
    with pytest.raises(ApprovalNeeded):
        await submitted.result()
    await until(lambda: team.is_left_as(submitted, JobStatus.WAITING))
    first.terminate()
    assert first.wait(PATIENCE_S) == 0
    await team.program.asking.submitted(thread_id=submitted.id).approve()
    team.start()
    assert (await submitted.result()).output == "It is paid."
    assert (team.read_ledger(), await team.count_uncertain(submitted)) == (["1"], 0)
    await team.program.fleet.scheduler.close()


async def test_a_worker_that_slept_through_its_lease_records_nothing(
    tmp_path: Path, postgres: Postgres
) -> None:
    """It wakes in the middle of a payment, when another one has told it as uncertain."""
    with make_team(tmp_path, postgres, "database") as team:
        team.hold.touch()
        submitted = await team.program.clerk.submit("Pay bills 1 and 2.")
        sleeper = team.start()
        await until(lambda: team.has_paid(1))
        sleeper.send_signal(signal.SIGSTOP)
        team.hold.unlink()
        team.start()
        assert (await submitted.result()).output == "It is paid."
        sleeper.send_signal(signal.SIGCONT)
        sleeper.terminate()
        assert sleeper.wait(PATIENCE_S) == 0
        assert await team.status(submitted) is JobStatus.DONE
        assert team.read_ledger() == ["1", "2"]
        assert await team.count_uncertain(submitted) == 1
        await team.program.fleet.scheduler.close()
