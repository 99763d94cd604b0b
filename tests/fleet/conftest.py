"""Databases for fleets: a PostgreSQL of this process, a new database for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from server.databases import Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server, started when a test first needs it."""
    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def queue_url(postgres: Postgres) -> Iterator[str]:
    """An empty database."""
    name = postgres.create()
    yield postgres.url(name)
    postgres.drop(name)
