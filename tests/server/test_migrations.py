"""The tables: made once, by one process, the same as the schema says, and never by a newer one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, text

from server.databases import Postgres
from treadle.errors import ConfigError
from treadle.server.data.database import Database
from treadle.server.data.schema import metadata


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, fast_place: Path, templates: object) -> Iterator[str]:
    """The URL of a database without tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{fast_place}/empty.sqlite"
        return
    postgres: Postgres = templates.postgres  # type: ignore[attr-defined]
    name = postgres.create()
    yield postgres.url(name)
    postgres.drop(name)


def test_the_migrations_make_what_the_schema_says(database: Database) -> None:
    with database.read() as db:
        options = {"include_name": _is_ours, "compare_type": True}
        context = MigrationContext.configure(db, opts=options)
        assert compare_metadata(context, metadata) == []
        assert {*metadata.tables} < {*inspect(db).get_table_names()}


def _is_ours(name: str | None, kind: str, _: object) -> bool:
    return kind != "table" or not str(name).startswith("search_")


def test_the_comparison_sees_what_is_missing(database: Database) -> None:
    with database.write() as db:
        db.execute(text("ALTER TABLE changes ADD COLUMN more TEXT"))
        db.execute(text("DROP INDEX ix_audit_thread_id"))
        context = MigrationContext.configure(db, opts={"include_name": _is_ours})
        found = [entry[0] for entry in compare_metadata(context, metadata)]
    assert sorted(found) == ["add_index", "remove_column"]


def test_an_empty_database_is_made_ready_by_itself(empty: str) -> None:
    database = Database(empty)
    assert database.state() == "empty"
    assert not database.is_current()
    database.prepare()
    assert database.is_current()
    database.prepare()
    database.migrate()
    assert database.is_current()
    database.dispose()


def test_several_at_once_make_the_tables_once(empty: str) -> None:
    databases = [Database(empty) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(Database.prepare, databases))
    for database in databases:
        assert database.is_current()
        database.dispose()


def test_older_tables_wait_for_the_word_of_who_runs_the_server(database: Database) -> None:
    """As if a step had been added: there is none yet that could be undone."""
    _set_revision(database, None)
    with database.write() as db:
        db.execute(text("ALTER TABLE threads RENAME TO threads_of_before"))
    assert database.state() == "empty"
    _set_revision(database, "9999")
    with pytest.raises(ConfigError, match="newer"):
        database.prepare(is_migrating=True)


def test_the_tables_of_another_program_are_left_alone(database: Database) -> None:
    _set_revision(database, None)
    for step in (database.prepare, database.migrate, database.state):
        with pytest.raises(ConfigError, match="another program"):
            step()


def _set_revision(database: Database, revision: str | None) -> None:
    with database.write() as db:
        db.execute(text("DELETE FROM alembic_version"))
        if revision is not None:
            db.execute(text("INSERT INTO alembic_version VALUES (:it)"), {"it": revision})
