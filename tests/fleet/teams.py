"""Fleets of processes for tests, each with its database, its ledger and its part in the test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import warm_process
from server.databases import Postgres
from server.people import populate
from treadle import SubmittedTask
from treadle.fleet.port import JobStatus
from treadle.server.data.database import Database

PROGRAM = Path(__file__).with_name("clerks.py")
WRONG_CLOCK = Path(__file__).with_name("wrong_clock.py")


class Team:
    """A fleet of processes, with its database, its ledger, and this process' part in it."""

    def __init__(self, folder: Path, url: str, kind: str, bug: str = "", deaths: int = 5) -> None:
        self.folder = folder
        told = {
            "FOLDER": str(folder),
            "URL": url,
            "STORE": kind,
            "BUG": bug,
            "DEATHS": str(deaths),
        }
        self.told = {f"FLEET_{name}": value for name, value in told.items()}
        self.environment = {**os.environ, **self.told}
        self.workers: list[subprocess.Popen[str]] = []
        self.program = self._load()

    def _load(self) -> ModuleType:
        spec = util.spec_from_file_location("clerks_of_test", PROGRAM)
        assert spec is not None
        assert spec.loader is not None
        module = util.module_from_spec(spec)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.told.items():
                patch.setenv(name, value)
            spec.loader.exec_module(module)
        return module

    def start(self, *options: str, url: str = "", ahead_s: float = 0) -> subprocess.Popen[str]:
        """A worker, which has said that it works.

        Args:
            options: of `treadle worker`.
            url: how it reaches the database; as all others do if not said.
            ahead_s: how far its clock is ahead.
        """
        program = [str(WRONG_CLOCK), str(ahead_s)] if ahead_s else ["-m", "treadle"]
        command = [sys.executable, *program, "worker", f"{PROGRAM}:fleet", *options]
        environment = {**self.environment, "FLEET_URL": url or self.told["FLEET_URL"]}
        worker = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        self.workers.append(worker)
        assert worker.stderr is not None
        self.said = worker.stderr.readline()
        assert "a worker of" in self.said, self.said + worker.stderr.read()
        return worker

    def set_pace(self, count: int) -> None:
        """Let workers pay so many bills; those that pay at the same moment may be more."""
        draft = self.folder / "pace.new"
        draft.write_text(str(count))
        draft.replace(self.folder / "pace")

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

    def read_effects(self) -> list[tuple[str, str]]:
        """The thread and the call of each payment."""
        lines = (self.folder / "ledger").read_text().splitlines()
        return [(line.split()[1], line.split()[2]) for line in lines]

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
        """How often a call is told as uncertain, of a task that is over."""
        records = [bytes(one.event) async for one in submitted.follow()]
        return sum(b'"tool_uncertain"' in one for one in records)

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
            worker.communicate()


def run_fleet_command(
    team: Team, *arguments: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """`treadle fleet`, as a person types it."""
    command = ["fleet", "--in", f"{PROGRAM}:fleet", *arguments]
    return warm_process.run(command, team.folder, team.environment, stdin, 100.0)


@contextmanager
def make_team(
    folder: Path, postgres: Postgres, kind: str, bug: str = "", deaths: int = 5
) -> Iterator[Team]:
    """A fleet on a database of its own; `bug` is what is planted in its workers."""
    name = postgres.create()
    url = postgres.url(name)
    if kind == "database":
        database = Database(url)
        database.prepare(is_migrating=True)
        populate(database)
        database.dispose()
    found = Team(folder, url, kind, bug, deaths)
    try:
        yield found
    finally:
        found.close()
        if kind == "database":
            found.program.store.close()
        postgres.drop(name)
