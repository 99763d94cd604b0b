"""What a start does before the person is heard, and before a request leaves: what it must."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from cli.conftest import Run
from cli.test_start import begun
from started_programs import StartRecord
from terminal.harness import Screen
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places


@pytest.fixture
def record(tmp_path: Path) -> StartRecord:
    folder = tmp_path / "recorder"
    folder.mkdir()
    return StartRecord(folder)


@pytest.fixture
def store(environment: dict[str, str], repository: Path) -> LocalStore:
    """Threads of this folder and of another; work on one here was stopped."""
    store = LocalStore(Places.find(environment))
    for folder in (repository, repository.parent):
        begun(store, folder)
    return store


def test_a_turn_looks_once_at_the_threads(
    fresh_treadle: Run, store: LocalStore, repository: Path, record: StartRecord, model: str
) -> None:
    done = fresh_treadle("-p", "hello", "-m", model, cwd=repository, **record.environment)
    assert (done.returncode, done.stdout) == (0, "Hello there.\n")
    assert "is unfinished here" in done.stderr
    assert record.count_listings(Path(store.folders.threads)) == 1
    assert record.count_listings(Path(store.folders.trash)) == 0


def test_a_chat_looks_once_at_the_threads(
    environment: dict[str, str],
    store: LocalStore,
    repository: Path,
    record: StartRecord,
    model: str,
) -> None:
    command = [sys.executable, "-P", "-m", "treadle", "-m", model]
    with Screen(command, cwd=repository, env={**environment, **record.environment}) as screen:
        screen.wait_for("unfinished here")
        screen.type("\x04")
        assert screen.wait_for_end() == 0
    assert record.count_listings(Path(store.folders.threads)) == 1
    assert record.count_listings(Path(store.folders.trash)) == 0
