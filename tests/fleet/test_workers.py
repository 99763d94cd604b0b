"""Workers as processes: killed in the middle, told to stop, one after the other on one task."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fleet.queue_checks import until
from server.databases import Postgres
from server.people import populate
from treadle import ApprovalNeeded, SubmittedTask
from treadle.fleet.port import JobStatus
from treadle.server.data.database import Database

PROGRAM = Path(__file__).with_name("clerks.py")
PATIENCE_S = 60.0


class Team:
    """A fleet of processes, with its database, its ledger, and this process' part in it."""

    def __init__(self, folder: Path, url: str, kind: str) -> None:
        self.folder = folder
        self.environment = {
            **os.environ, "FLEET_FOLDER": str(folder), "FLEET_URL": url, "FLEET_STORE": kind
        }  # fmt: skip
        self.workers: list[subprocess.Popen[str]] = []
        self.program = self._load()

    def _load(self) -> ModuleType:
        spec = util.spec_from_file_location("clerks_of_test", PROGRAM)
        assert spec is not None
        assert spec.loader is not None
        module = util.module_from_spec(spec)
        with pytest.MonkeyPatch.context() as patch:
            for name in ("FLEET_FOLDER", "FLEET_URL", "FLEET_STORE"):
                patch.setenv(name, self.environment[name])
            spec.loader.exec_module(module)
        return module

    def start(self, *options: str) -> subprocess.Popen[str]:
        """A worker, which has said that it works."""
        command = [sys.executable, "-m", "treadle", "worker", f"{PROGRAM}:fleet", *options]
        worker = subprocess.Popen(command, env=self.environment, stderr=subprocess.PIPE, text=True)
        self.workers.append(worker)
        assert worker.stderr is not None
        self.said = worker.stderr.readline()
        assert "a worker of" in self.said, self.said + worker.stderr.read()
        return worker

    @property
    def hold(self) -> Path:
        return self.folder / "hold"

    def read_ledger(self) -> list[str]:
        """The numbers of the bills that were paid."""
        try:
            lines = (self.folder / "ledger").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [line.split()[0] for line in lines]

    async def has_paid(self, count: int) -> bool:
        return len(self.read_ledger()) == count

    async def status(self, submitted: SubmittedTask[Any]) -> JobStatus:
        [found] = [
            one.status for one in await self.program.fleet.jobs() if one.job.thread == submitted.id
        ]
        return JobStatus(found)

    async def is_left_as(self, submitted: SubmittedTask[Any], status: JobStatus) -> bool:
        return await self.status(submitted) is status

    async def count_uncertain(self, submitted: SubmittedTask[Any]) -> int:
        records = [bytes(one.event) async for one in submitted.follow()]
        return sum(b'"tool_uncertain"' in one for one in records)

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.communicate()


@pytest.fixture(params=["folder", "database"])
def team(request: pytest.FixtureRequest, tmp_path: Path, postgres: Postgres) -> Iterator[Team]:
    """A fleet on each kind of store."""
    with make_team(tmp_path, postgres, request.param) as found:
        yield found


@contextmanager
def make_team(folder: Path, postgres: Postgres, kind: str) -> Iterator[Team]:
    name = postgres.create()
    url = postgres.url(name)
    if kind == "database":
        database = Database(url)
        database.prepare(is_migrating=True)
        populate(database)
        database.dispose()
    found = Team(folder, url, kind)
    try:
        yield found
    finally:
        found.close()
        if kind == "database":
            found.program.store.close()
        postgres.drop(name)


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
