"""Stores of a test's own: every promise of the library holds on each kind of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from server.databases import Templates
from server.people import populate
from store_conformance.example import SqliteStore
from treadle import LocalStore, PostgresStore, Threads
from treadle.server.data.database import Database
from treadle.store.threads import AnyThreads


@pytest.fixture(scope="session")
def templates() -> Iterator[Templates]:
    """What databases are copied from; PostgreSQL is started when a test first needs it."""
    found = Templates()
    yield found
    found.close()


@pytest.fixture(params=["folder", "database", "postgresql"])
def open_store(
    tmp_path: Path, request: pytest.FixtureRequest, templates: Templates
) -> Iterator[Callable[[], AnyThreads]]:
    """Opens the threads of one store, as each process does for itself."""
    if request.param == "folder":
        yield lambda: LocalStore(tmp_path / "store")
    elif request.param == "database":
        yield lambda: Threads(SqliteStore(str(tmp_path / "threads.db")))
    else:
        url = templates.copy("postgresql", tmp_path)
        database = Database(url)
        populate(database)
        database.dispose()
        open_it = partial(PostgresStore, url, "owner")
        with open_it():
            yield lambda: Threads(open_it())
        templates.remove(url)


@pytest.fixture
def store(open_store: Callable[[], AnyThreads]) -> AnyThreads:
    """The threads of that store."""
    return open_store()
