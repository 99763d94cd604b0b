"""Every test of the server runs on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.databases import Postgres, Templates, new_folder
from server.people import People, populate
from server.running import PATIENCE_S
from treadle.server.data.database import Database

DIALECTS = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def templates() -> Iterator[Templates]:
    """What databases are copied from; PostgreSQL is started when a test first needs it."""
    found = Templates()
    yield found
    found.close()


@pytest.fixture
def postgres(templates: Templates) -> Postgres:
    """The PostgreSQL server of this process."""
    return templates.postgres


@pytest.fixture(params=DIALECTS)
def database_url(
    request: pytest.FixtureRequest, templates: Templates, fast_place: Path
) -> Iterator[str]:
    """A migrated, empty database."""
    url = templates.copy(request.param, fast_place)
    yield url
    templates.remove(url)


@pytest.fixture
def fast_place() -> Iterator[Path]:
    """A folder in memory."""
    import shutil

    folder = new_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """A migrated, empty database, opened."""
    opened = Database(database_url, lock_timeout_s=PATIENCE_S)
    yield opened
    opened.dispose()


@pytest.fixture
def people(database: Database) -> People:
    """Who there is in it."""
    return populate(database)
