"""The tables: made once, by one process, the same as the schema says, and never by a newer one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, select, text
from sqlalchemy.exc import IntegrityError

from server.databases import Postgres
from server.people import at
from thread.journals import ID
from treadle.api.marks import Mark
from treadle.errors import ConfigError
from treadle.server.context import ANONYMOUS, Context
from treadle.server.data.database import Database
from treadle.server.data.migrations import versions
from treadle.server.data.schema import counters, metadata, records, threads
from treadle.server.data.schema_migration import migrate
from treadle.server.threads.change_feed import find_newest_change, publish_change


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
    assert database.get_schema_state() == "empty"
    assert not database.has_current_schema()
    database.prepare()
    assert database.has_current_schema()
    database.prepare()
    database.migrate()
    assert database.has_current_schema()
    database.dispose()


def test_several_at_once_make_the_tables_once(empty: str) -> None:
    databases = [Database(empty) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(Database.prepare, databases))
    for database in databases:
        assert database.has_current_schema()
        database.dispose()


def test_older_tables_wait_for_the_word_of_who_runs_the_server(database: Database) -> None:
    """As if a step had been added: there is none yet that could be undone."""
    _set_revision(database, None)
    with database.write() as db:
        db.execute(text("ALTER TABLE threads RENAME TO threads_of_before"))
    assert database.get_schema_state() == "empty"
    _set_revision(database, "9999")
    with pytest.raises(ConfigError, match="newer"):
        database.prepare(is_migrating=True)


def test_the_tables_of_another_program_are_left_alone(database: Database) -> None:
    _set_revision(database, None)
    for step in (database.prepare, database.migrate, database.get_schema_state):
        with pytest.raises(ConfigError, match="another program"):
            step()


def _set_revision(database: Database, revision: str | None) -> None:
    with database.write() as db:
        db.execute(text("DELETE FROM alembic_version"))
        if revision is not None:
            db.execute(text("INSERT INTO alembic_version VALUES (:it)"), {"it": revision})


@pytest.fixture
def older(empty: str) -> Iterator[Database]:
    """The tables of the first version, with a thread and what stands beside it."""
    database = Database(empty)
    with database.write() as db:
        migrate(db, "0001")
        db.execute(text("INSERT INTO organizations VALUES (1, 'acme', 'then')"))
        for number, name in enumerate(("ada", "bob"), 1):
            db.execute(
                text("INSERT INTO users VALUES (:id, :name, 1, 'member', :no, :no, 'then', NULL)"),
                {"id": number, "name": name, "no": False},
            )
        db.execute(
            text("INSERT INTO tokens VALUES (1, 1, 'mine', 'hash', 'then', NULL, NULL, NULL)")
        )
        db.execute(text(_OLD_THREAD), {"id": ID, "no": False})
        line = {"id": ID, "line": "{}"}
        db.execute(text("INSERT INTO records VALUES (:id, 1, 'hash', 'then', :line)"), line)
        db.execute(
            text("INSERT INTO shares VALUES (1, :id, 'x', 1, 'then', 'later', NULL)"), {"id": ID}
        )
        db.execute(text("INSERT INTO changes VALUES (1, :id, 1, 'hash', 'records', 'then')"), line)
        db.execute(text("UPDATE counters SET value = 1"))
    yield database
    database.dispose()


_OLD_THREAD = """
    INSERT INTO threads (id, owner_id, organization_id, kind, version, hash, change, created_at,
        updated_at, last_activity_at, visibility, is_shared_with_support, tags, is_pinned, machine,
        agent_state_kind, message_count, summary)
    VALUES (:id, 1, 1, 'records', 1, 'hash', 1, 'then', 'then', 'then', 'organization', :no, '[]',
        :no, 'chat', 'idle', 0, '{}')
"""


ADDED: Final[dict[str, Any]] = {
    "threads.key": ID,
    "threads.id": ID,
    "search_pending": 0,
    "tokens.kind": "access",
    "tokens.made_with": None,
    "organizations.threads_max": None,
    "organizations.storage_max": None,
    "users.threads_max": None,
    "users.storage_max": None,
    "threads.size": 3,
    "invitations": 0,
    "settings": 0,
    "threads.has_journal": False,
    "writers": 0,
    "journals": 0,
    "journal_pieces": 0,
    "journal_blobs": 0,
    "identities": 0,
    "tokens.identity_id": None,
    "remote_requests": 0,
    "tokens.scope": "all",
    "tokens.machine": None,
    "tokens.listened_at": None,
    "webhooks": 0,
    "webhook_deliveries": 0,
    "thread_reads": 0,
    "legal_holds": 0,
    "retention_rules": 0,
    "threads.is_usage_counted": False,
    "model_usage": 0,
    "counters": {"sqlite": 0, "postgresql": 1},
}
"""What migrations have added, with what stands there for the rows of `older`: of a column its value
in each row, of a table how many rows it has; by database where they differ."""


def test_each_column_that_a_migration_adds_has_a_case(tmp_path: Path) -> None:
    """Read off the tables themselves, before and after each step."""
    database = Database(f"sqlite:///{tmp_path}/steps.sqlite")
    found = set[str]()
    before: dict[str, set[str]] = {}
    for revision in sorted(one.name[1:5] for one in Path(versions.__path__[0]).glob("m*.py")):
        with database.write() as db:
            migrate(db, revision)
        with database.read() as db:
            look = inspect(db)
            now = {
                table: {column["name"] for column in look.get_columns(table)}
                for table in look.get_table_names()
            }
        for table, columns in now.items() if before else ():
            known = before.get(table)
            found |= {table} if known is None else {f"{table}.{one}" for one in columns - known}
        before = now
    database.dispose()
    lacking = sorted(found - ADDED.keys())
    assert lacking == [], "say in ADDED of this file what stands there for the rows of before"
    assert {one.partition(".")[0] for one in ADDED} <= before.keys()


def test_what_a_migration_adds_holds_for_the_rows_of_before(older: Database) -> None:
    older.prepare(is_migrating=True)
    with older.read() as db:
        for name, wanted in ADDED.items():
            table, _, column = name.partition(".")
            found = db.execute(text(f"SELECT {column or 'count(*)'} FROM {table}")).scalars().all()
            if isinstance(wanted, dict):
                wanted = wanted[db.dialect.name]
            assert {*found} == {wanted}, name


def test_a_thread_of_before_keeps_all_that_stands_beside_it(older: Database) -> None:
    """It waits for the word of who runs the server; then others may have a thread of its id."""
    with pytest.raises(ConfigError, match="older"):
        older.prepare()
    older.prepare(is_migrating=True)
    with older.write() as db:
        options = {"include_name": _is_ours, "compare_type": True}
        assert compare_metadata(MigrationContext.configure(db, opts=options), metadata) == []
        for query, found in (
            ("SELECT owner_id FROM threads", (1,)),
            ("SELECT thread_id, line FROM records", (ID, "{}")),
            ("SELECT thread_id, hash FROM shares", (ID, "x")),
            ("SELECT thread_id, change FROM changes", (ID, 1)),
        ):
            assert tuple(db.execute(text(query)).one()) == found
        counted = db.execute(select(counters)).all()
        is_postgresql = db.dialect.name == "postgresql"
        assert counted == ([("change", 1)] if is_postgresql else [])
        assert find_newest_change(Context(db, ANONYMOUS, at())) == 1
        copied = {**db.execute(select(threads)).one()._mapping, "key": f"{ID}@bob", "owner_id": 2}
        db.execute(threads.insert().values(copied))
        db.execute(records.insert().values(
            thread_id=f"{ID}@bob", seq=1, hash="other", at="now", line="{}"
        ))  # fmt: skip
        db.execute(threads.delete().where(threads.c.key == ID))
        assert db.execute(select(records.c.thread_id)).scalars().all() == [f"{ID}@bob"]
        copied["key"] = "a third"
        with pytest.raises(IntegrityError), db.begin_nested():
            db.execute(threads.insert().values(copied))
        published = publish_change(
            Context(db, ANONYMOUS, at()), f"{ID}@bob", Mark(2, "next"), "records", {"title": "new"}
        )
    with older.read() as db:
        row = db.execute(select(threads)).one()
        assert (published.change, row.change, row.title) == (2, 2, "new")
