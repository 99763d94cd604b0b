"""A store on a database of its own, for each test."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from server.databases import Templates
from server.journals.stores import LEASE_S, OWNER
from server.people import People, populate
from treadle import PostgresStore
from treadle.server.data.database import Database


@pytest.fixture
def url(templates: Templates, fast_place: Path) -> Iterator[str]:
    """A database of a server."""
    found = templates.copy("postgresql", fast_place)
    yield found
    templates.remove(found)


@pytest.fixture
def people(url: str) -> Iterator[People]:
    """Who there is in it."""
    database = Database(url)
    yield populate(database)
    database.dispose()


@pytest.fixture
def open_store(url: str, people: People) -> Iterator[partial[PostgresStore]]:
    """Opens the store of one of them, as each process does for itself."""
    open_it = partial(PostgresStore, url, OWNER, lease_s=LEASE_S)
    kept = open_it()
    yield open_it
    kept.close()
