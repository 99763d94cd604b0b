"""Several processes of one home sync at the same time, and beside sessions: nothing is doubled."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.teams import Machine, Team, machine
from sync.checker import records_of

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("TREADLE_")}
THREAD_COUNT = 4


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    found = Team(tmp_path)
    yield found
    found.stop()


@pytest.fixture
def laptop(tmp_path: Path, team: Team) -> Machine:
    found = machine(tmp_path, ENVIRONMENT, "laptop")
    found.login(team, team.token())
    return found


def begin(laptop: Machine, *arguments: str) -> subprocess.Popen[str]:
    """The command, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "treadle", *arguments],
        env={**laptop.environment, "TREADLE_HOME": str(laptop.home)},
        cwd=laptop.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(*processes: subprocess.Popen[str]) -> None:
    """All of them end well, or say that something was busy and is tried later."""
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert process.returncode in (0, 75), (out, err)
        assert "Traceback" not in err


def stored(team: Team, laptop: Machine, thread: str) -> bytes:
    from treadle.api.marks import Mark
    from treadle.store.local_store import LocalStore
    from treadle.store.paths import Places
    from treadle.sync.client import HttpRemote
    from treadle.sync.credentials import find_account

    home = laptop.home
    places = Places(home / "data", home / "state", home / "config")
    account = find_account(LocalStore(places).places, {**ENVIRONMENT, "TREADLE_HOME": str(home)})
    assert account is not None
    with HttpRemote(account) as remote:
        return b"".join(remote.records(thread, Mark()))


def test_processes_that_sync_at_once_and_sessions_beside_them_send_all_of_it_once(
    team: Team, laptop: Machine
) -> None:
    threads = [laptop.say(f"hello {number}", "--private") for number in range(THREAD_COUNT)]
    for thread in threads:
        laptop.ok("private", thread, "--off", "--yes")
    script = laptop.folder / "script.toml"
    sessions = [
        begin(laptop, "-p", f"and {number}", "-m", f"scripted:{script}") for number in range(2)
    ]
    end(begin(laptop, "sync", "--yes"), begin(laptop, "sync", "--yes"), *sessions)
    assert laptop.ok("sync", "--yes")
    found = [one["id"] for one in laptop.threads()]
    assert len(found) == THREAD_COUNT + 2
    for thread in found:
        data = laptop.journal(thread)
        assert stored(team, laptop, thread) == data
        records_of("laptop", thread, data)
        assert data.count(b'"user_input"') == 1
    assert laptop.ok("sync", "--status").splitlines()[-1] == "nothing waits"
