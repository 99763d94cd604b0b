"""Real processes, sockets and databases: everything is killed, and nothing is lost or doubled.

Three clients say things in the same threads and sync through a network that fails; clients and the
server die by SIGKILL, and PostgreSQL stops at once, over and over. The progress of the clients says
when, no clock does. A run in which too little was broken is void, and fails: every run counts what
it has killed and broken, and asks for a share of it per round. Each time there are a few rounds, in
`torture` many.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from server.databases import Templates, new_folder
from server.serving import Served
from sync import checker
from sync.proxy import FAULTS, Fault, Proxy, proxied
from sync.simulated_machine import Saying

NAMES: Final = "abc"
SAID_PER_LIFE: Final = 14
"""What a client is to say before it ends by itself; most are killed before that."""

ROUNDS: Final = 2
ROUNDS_MANY: Final = 20
"""Each round kills the server once, and of three clients at least one."""

FAULT_EVERY: Final = 3
"""So many requests have one fault between them, each kind in its turn."""
FAULTS_PER_ROUND_MIN: Final = 3

SETTLE_ROUNDS: Final = 4
TESTS: Final = Path(__file__).parent.parent


@pytest.fixture
def place() -> Iterator[tuple[Templates, Path]]:
    templates, folder = Templates(), new_folder()
    yield templates, folder
    templates.close()
    shutil.rmtree(folder, ignore_errors=True)


class Clients:
    """Three homes, and what was acknowledged in them."""

    def __init__(self, folder: Path, proxy: Proxy, token: str) -> None:
        self.homes = {name: folder / name for name in NAMES}
        self.said: dict[str, list[Saying]] = {name: [] for name in NAMES}
        self.kill_count = 0
        self._proxy = proxy
        self._token = token
        self._numbers = count(1, 100)

    def begin(self, name: str, number_count: int = SAID_PER_LIFE) -> subprocess.Popen[bytes]:
        """A life of a client."""
        first = next(self._numbers)
        return subprocess.Popen(
            [
                *(sys.executable, str(TESTS / "sync" / "client_program.py")),
                *(str(self.homes[name]), self._proxy.url, self._token, name),
                *(str(first), str(number_count)),
            ],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def end(self, name: str, process: subprocess.Popen[bytes], *, after: int) -> None:
        """Kill a client after it has said so much, or wait for its end; keep what it told."""
        assert process.stdout is not None
        lines: list[bytes] = []
        for line in process.stdout:
            lines.append(line)
            if len(lines) == after:
                process.kill()
                self.kill_count += 1
        _, problem = process.communicate(timeout=120)
        assert process.returncode in (0, -signal.SIGKILL), problem.decode()
        for line in lines:
            if line.endswith(b"\n"):
                number, thread = line.decode().split()
                self.said[name].append(Saying(int(number), thread))

    def journals(self) -> dict[str, dict[str, bytes]]:
        """Every journal of every home."""
        return {
            name: {
                path.stem: path.read_bytes()
                for path in sorted((home / "data" / "threads").glob("*.jsonl"))
            }
            for name, home in self.homes.items()
        }


@pytest.mark.timeout(600)  # of a machine that does ten other things
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_nothing_is_lost_or_doubled_whatever_is_killed(
    dialect: str, place: tuple[Templates, Path]
) -> None:
    kill_everything(dialect, *place, rounds=ROUNDS)


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_nothing_is_lost_or_doubled_however_often_it_is_killed(
    dialect: str, place: tuple[Templates, Path]
) -> None:
    kill_everything(dialect, *place, rounds=ROUNDS_MANY)


def kill_everything(dialect: str, templates: Templates, folder: Path, *, rounds: int) -> None:
    """Work in rounds, kill in each of them, come together, and look at what there is."""
    is_calm = False

    def plan(number: int) -> Fault:
        if is_calm or number % FAULT_EVERY:
            return Fault.NOTHING
        return FAULTS[number // FAULT_EVERY % len(FAULTS)]

    served = Served(templates.copy(dialect, folder), folder / "home", "--rate", "0")
    server_kills = database_stops = 0
    try:
        served.start()
        with proxied(served.port, plan) as proxy:
            clients = Clients(folder, proxy, served.owner_token())
            for number in range(rounds):
                lives = {name: clients.begin(name) for name in NAMES}
                clients.end("a", lives["a"], after=5 + number % 5)
                served.kill()
                server_kills += 1
                if dialect == "postgresql" and number % 2:
                    templates.postgres.stop_immediately()
                    templates.postgres.start()
                    database_stops += 1
                proxy.target = served.start().port
                for name in NAMES[1:]:
                    clients.end(name, lives[name], after=7 + number % 5)
            faults = proxy.fault_count
            is_calm = True
            for _ in range(SETTLE_ROUNDS):
                for name in NAMES:
                    clients.end(name, clients.begin(name, 0), after=0)
                a, *others = clients.journals().values()
                if all(one == a for one in others):
                    break
        journals = clients.journals()
    finally:
        served.kill()
    assert server_kills == rounds
    assert database_stops == (rounds // 2 if dialect == "postgresql" else 0)
    assert clients.kill_count >= rounds
    assert faults >= FAULTS_PER_ROUND_MIN * rounds, faults
    checker.check_same(journals, set())
    records = {
        name: {thread: checker.records_of(name, thread, data) for thread, data in held.items()}
        for name, held in journals.items()
    }
    checker.check_numbers(records, clients.said, set())
    assert sum(map(len, clients.said.values())) > 3 * rounds
