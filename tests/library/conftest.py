"""Stores of a test's own: every promise of the library holds on each kind of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from store_conformance.example import SqliteStore
from treadle import LocalStore, Threads
from treadle.store.threads import AnyThreads


@pytest.fixture(params=["folder", "database"])
def open_store(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], AnyThreads]:
    """Opens the threads of one store, as each process does for itself."""
    if request.param == "folder":
        return lambda: LocalStore(tmp_path / "store")
    return lambda: Threads(SqliteStore(str(tmp_path / "threads.db")))


@pytest.fixture
def store(open_store: Callable[[], AnyThreads]) -> AnyThreads:
    """The threads of that store."""
    return open_store()
