"""Transactions of both databases: many at once, cut off, restarted, full, and set to lose data."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from sqlite3 import ProgrammingError
from threading import Barrier
from typing import Any

import pytest
from psycopg import OperationalError
from sqlalchemy import Connection, event, insert, select, text, update

from case_tables import for_every_row
from core.samples import answer, said
from server import pushing_process
from server.chains import chain, kept, push, row, rows_of
from server.databases import Postgres
from server.people import People, at, populate
from server.pushing_process import HEADER, race
from server.running import PATIENCE_S
from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.errors import ConfigError, StoreError
from treadle.server.data import schema
from treadle.server.data.database import ATTEMPT_COUNT_MAX, Database
from treadle.server.data.database_errors import TransactionConflictError
from treadle.server.refusals import Refusal
from treadle.thread.record import scan_journal

TESTS = Path(__file__).parent.parent


def test_of_a_thousand_racing_pushes_each_win_is_one_version(people: People) -> None:
    """Four writers compare and set 250 times each."""
    push(people, HEADER)
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda name: race(people.database, name, 250), "abcd")
        made = [version for versions in found for version in versions]
    assert sorted(made) == list(range(2, 2 + len(made)))
    assert len(made) >= 250
    assert row(people, schema.threads).version == 1 + len(made)
    assert len(scan_journal(kept(people, HEADER.thread)).records) == 1 + len(made)
    changes = [change.change for change in rows_of(people, schema.changes)]
    assert changes == list(range(1, 2 + len(made)))


def start(url: str) -> subprocess.Popen[str]:
    """A process that pushes until it is killed."""
    return subprocess.Popen(
        [sys.executable, "-m", "server.pushing_process", url],
        cwd=TESTS,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_for_the_end_of_others(database: Database) -> None:
    """PostgreSQL ends what a process has begun that is gone; SQLite ends with its process."""
    query = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND state <> 'idle'"
    )
    is_over = database.dialect == "sqlite"
    while not is_over:
        with database.read() as db:
            is_over = db.execute(query).scalar_one() == 0


def test_what_was_acknowledged_survives_a_kill_in_the_middle(
    people: People, database_url: str
) -> None:
    """Killed at any point of a push; what is there is the chain up to there or one push more."""
    push(people, HEADER)
    for round_number in range(2):
        process = start(database_url)
        assert process.stdout is not None
        last = Mark()
        with process:
            for _ in range(5 + 7 * round_number):
                seq, chain_hash = process.stdout.readline().split()
                last = Mark(int(seq), chain_hash)
            process.send_signal(signal.SIGKILL)
            for line in process.stdout.read().splitlines():
                if len(line.split()) == 2 and len(line.split()[1]) == 32:
                    last = Mark(int(line.split()[0]), line.split()[1])
        wait_for_the_end_of_others(people.database)
        found = scan_journal(kept(people, HEADER.thread)).records
        assert found[last.seq - 1].hash == last.hash
        assert last.seq <= len(found) <= last.seq + 2
        head = row(people, schema.threads)
        assert (head.version, head.hash) == (len(found), found[-1].hash)


def test_writers_of_several_processes_exclude_each_other(people: People, database_url: str) -> None:
    push(people, HEADER)
    program = (
        "import sys; from server.pushing_process import *\n"
        "database = Database(sys.argv[1], lock_timeout_s=60)\n"
        "print(*race(database, sys.argv[2], 30))"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, database_url, name],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    told = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    made = sorted(int(version) for line in told for version in line.split())
    assert made == list(range(2, 2 + len(made)))
    assert row(people, schema.threads).version == 1 + len(made)


def test_an_error_undoes_all_of_a_transaction(people: People) -> None:
    with pytest.raises(ZeroDivisionError), people.database.write() as db:
        _add_a_repo_and_fail(db)
    assert rows_of(people, schema.repos) == []


def _add_a_repo_and_fail(db: Connection) -> None:
    db.execute(insert(schema.repos).values(slug="a", created_at=at()))
    raise ZeroDivisionError


def test_a_reading_transaction_sees_one_state_throughout(people: People) -> None:
    query = select(schema.repos.c.slug)
    with people.database.read() as reader:
        assert reader.execute(query).all() == []
        with people.database.write() as db:
            db.execute(insert(schema.repos).values(slug="a", created_at=at()))
        assert reader.execute(query).all() == []
    with people.database.read() as reader:
        assert reader.execute(query).scalars().all() == ["a"]


def test_a_transaction_that_others_ended_is_begun_anew(database: Database) -> None:
    tries = []

    def twice(_: object) -> str:
        tries.append(1)
        if len(tries) < ATTEMPT_COUNT_MAX:
            raise TransactionConflictError
        return "done"

    assert database.run(twice, is_write=True) == "done"
    assert len(tries) == ATTEMPT_COUNT_MAX
    with pytest.raises(Refusal) as caught:
        database.run(lambda _: _raise(TransactionConflictError()), is_write=False)
    assert caught.value.code is ErrorCode.UNAVAILABLE


def test_all_attempts_together_wait_no_longer_than_one(
    database: Database, database_url: str
) -> None:
    """Another process holds what is wanted, longer than anybody waits."""
    impatient = Database(database_url, lock_timeout_s=0.2)
    populate(database)
    begun: list[Connection] = []
    event.listen(impatient.engine, "begin", begun.append, insert=True)
    try:
        with database.write() as holder:
            holder.execute(update(schema.users).values(role="member"))
            for wait_s in (None, 0):
                begun.clear()
                with pytest.raises(Refusal) as caught:
                    impatient.run(
                        lambda db: db.execute(update(schema.users).values(role="member")),
                        is_write=True,
                        wait_s=wait_s,
                    )
                assert caught.value.code is ErrorCode.UNAVAILABLE
                assert len(begun) <= 2
        with impatient.write() as db:
            db.execute(update(schema.users).values(role="member"))
    finally:
        impatient.dispose()


def _raise(error: Exception) -> None:
    raise error


def test_of_two_that_wait_for_each_other_postgresql_ends_one_that_begins_anew(
    postgres: Postgres,
) -> None:
    database = Database(postgres.url(postgres.create()), lock_timeout_s=PATIENCE_S)
    with database.write() as db:
        db.execute(text("CREATE TABLE rows (name TEXT, count INTEGER)"))
        db.execute(text("INSERT INTO rows VALUES ('a', 0), ('b', 0)"))
    both_hold_one = Barrier(2)
    tries: list[str] = []

    def swap(names: str) -> None:
        def work(db: Connection) -> None:
            tries.append(names)
            for name in names:
                update = text("UPDATE rows SET count = count + 1 WHERE name = :name")
                db.execute(update, {"name": name})
                if len(tries) <= 2 and name == names[0]:
                    both_hold_one.wait()

        database.run(work, is_write=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(swap, ("ab", "ba")))
    with database.read() as db:
        assert db.execute(text("SELECT count FROM rows")).scalars().all() == [2, 2]
    assert len(tries) >= 3
    database.dispose()


def test_a_restarted_postgresql_is_used_again(
    postgres: Postgres, templates: object, fast_place: Path
) -> None:
    url = templates.copy("postgresql", fast_place)  # type: ignore[attr-defined]
    database = Database(url)
    try:
        people = populate(database)
        push(people, HEADER)
        with ExitStack() as several:  # all that are kept break
            for _ in range(5):
                several.enter_context(database.read())
        postgres.kill_backends(url.rpartition("/")[2].partition("?")[0])
        assert kept(people, HEADER.thread) == HEADER.data
        postgres.stop_immediately()
        try:
            for work in (kept, lambda people, _: push(people, chain(2))):
                with pytest.raises(Refusal) as caught:
                    work(people, HEADER.thread)
                assert caught.value.code is ErrorCode.UNAVAILABLE
                assert "Retry-After" in caught.value.headers
            with pytest.raises(StoreError):
                database.check_settings()
        finally:
            postgres.start()
        assert kept(people, HEADER.thread) == HEADER.data
        push(people, chain(2))
    finally:
        database.dispose()
        templates.remove(url)  # type: ignore[attr-defined]


@pytest.mark.parametrize("setting", ["synchronous_commit=off", "synchronous_commit=local"])
def test_a_postgresql_that_loses_what_it_acknowledged_is_refused(
    postgres: Postgres, setting: str
) -> None:
    """Set for the session, and for the database while connections are open."""
    database = Database(f"{postgres.url()}&options=-c%20{setting}")
    with pytest.raises(ConfigError, match="synchronous_commit"):
        database.check_settings()
    database.dispose()
    name = postgres.create()
    database = Database(postgres.url(name))
    try:
        database.check_settings()
        database.dispose()
        postgres.do(f'ALTER DATABASE "{name}" SET {setting}')
        with pytest.raises(Refusal, match="synchronous_commit") as caught, database.read():
            raise AssertionError("a connection that loses data was handed out")
        assert caught.value.code is ErrorCode.UNAVAILABLE
        with pytest.raises(ConfigError, match="synchronous_commit"):
            database.prepare()
    finally:
        database.dispose()
        postgres.drop(name)


def test_a_postgresql_without_utf8_is_refused(postgres: Postgres) -> None:
    name = f"latin_{os.getpid()}"
    postgres.do(
        f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' "
        "TEMPLATE template0"
    )
    database = Database(postgres.url(name))
    try:
        with pytest.raises(ConfigError, match="encoding"):
            database.check_settings()
    finally:
        database.dispose()
        postgres.drop(name)


@pytest.mark.parametrize(
    ("options", "is_good"),
    [
        ("", True),
        ("?synchronous=EXTRA", True),
        ("?synchronous=FULL&journal_mode=WAL", True),
        ("?synchronous=NORMAL", False),
        ("?synchronous=OFF", False),
        ("?journal_mode=DELETE", False),
        ("?journal_mode=MEMORY", False),
        ("?journal_mode=OFF&synchronous=OFF", False),
    ],
)
def test_a_sqlite_that_loses_what_it_acknowledged_is_refused(
    fast_place: Path, options: str, is_good: bool
) -> None:
    database = Database(f"sqlite:///{fast_place}/new.sqlite{options}")
    if is_good:
        database.prepare()
        assert database.has_current_schema()
    else:
        with pytest.raises(ConfigError, match=r"synchronous|journal_mode"):
            database.prepare()
    database.dispose()


@for_every_row(
    "url",
    [
        "",
        "x",
        "mysql://host/name",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///x?mode=ro",
        "sqlite:///x?synchronous=FULL;DROP",
        "sqlite://host/x",
        "postgresql://host:port/name",
    ],
)
def test_a_url_of_no_database_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        Database(url)


def test_nobody_is_told_the_password() -> None:
    database = Database("postgres://loom:hunter2@127.0.0.1:1/weave?connect_timeout=1")
    with pytest.raises(StoreError) as caught:
        database.check_settings()
    assert "hunter2" not in database.name + str(caught.value)
    database.dispose()


def test_the_files_of_sqlite_are_for_their_owner_alone(fast_place: Path) -> None:
    folder = fast_place / "state" / "server"
    before = os.umask(0)
    try:
        database = Database(f"sqlite:///{folder}/server.sqlite")
        database.prepare()
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert len(modes) == 3
    assert set(modes.values()) == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    database.dispose()


def test_a_link_to_where_the_file_will_be_makes_it_for_its_owner_alone(fast_place: Path) -> None:
    (fast_place / "link.sqlite").symlink_to(fast_place / "there.sqlite")
    database = Database(f"sqlite:///{fast_place}/link.sqlite")
    database.prepare()
    made = {path.name: stat.S_IMODE(path.stat().st_mode) for path in fast_place.glob("there*")}
    database.dispose()
    assert made == dict.fromkeys(("there.sqlite", "there.sqlite-wal", "there.sqlite-shm"), 0o600)


def test_a_new_file_has_small_pages_and_an_older_one_keeps_its_own(fast_place: Path) -> None:
    older = sqlite3.connect(fast_place / "older.sqlite")
    older.executescript("PRAGMA page_size=4096; PRAGMA journal_mode=WAL; CREATE TABLE a (b)")
    older.execute("DROP TABLE a")
    older.close()
    for name, wanted in (("older", 4096), ("new", 2048)):
        database = Database(f"sqlite:///{fast_place}/{name}.sqlite")
        database.prepare()
        people = populate(database)
        push(people, HEADER)
        with database.read() as db:
            assert db.exec_driver_sql("PRAGMA page_size").scalar_one() == wanted
        assert kept(people, HEADER.thread) == HEADER.data
        database.dispose()


def test_a_folder_in_the_place_of_the_file_is_told(fast_place: Path) -> None:
    with pytest.raises(StoreError, match="Is a directory"):
        Database(f"sqlite:///{fast_place}").prepare()


def test_a_further_connection_leaves_the_locks_of_the_others(fast_place: Path) -> None:
    """Without its lock, another process that ends takes the log away under this one."""
    path = fast_place / "locks.sqlite"
    database = Database(f"sqlite:///{path}")
    database.prepare()

    def locks() -> list[str]:
        # Lines of who waits for a lock have an arrow more, and may be of any process.
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        mine, file = str(os.getpid()), f":{path.stat().st_ino}"
        return [it[3] for it in lines if it[4] == mine and it[5].endswith(file)]

    with database.read() as one:
        one.execute(text("SELECT 1 FROM threads")).all()
        assert locks() == ["READ"]
        with database.read() as other:
            other.execute(text("SELECT 1 FROM threads")).all()
            assert locks() == ["READ"]
    database.dispose()


def test_a_full_sqlite_acknowledges_nothing_and_works_again(fast_place: Path) -> None:
    database = Database(f"sqlite:///{fast_place}/full.sqlite")
    database.prepare()
    people = populate(database)
    push(people, HEADER)
    big = chain(2, [(pushing_process.said("x" * 3_000_000),)])
    with database.write() as db:
        count = db.exec_driver_sql("PRAGMA page_count").scalar_one()
        db.exec_driver_sql(f"PRAGMA max_page_count={count + 20}")
    with pytest.raises(Refusal) as caught:
        push(people, big)
    assert caught.value.code is ErrorCode.UNAVAILABLE
    assert "full" in str(caught.value)
    assert kept(people, HEADER.thread) == HEADER.data
    database.dispose()
    assert push(people, big).version == 2
    database.dispose()


def test_a_file_that_is_no_database_is_told(fast_place: Path) -> None:
    (fast_place / "x.sqlite").write_bytes(b"no database at all" * 100)
    for path in (fast_place / "x.sqlite", fast_place):
        database = Database(f"sqlite:///{path}")
        with pytest.raises(StoreError):
            database.check_settings()
        database.dispose()


def test_a_connection_at_work_when_all_are_closed_is_closed_when_it_ends(
    people: People,
) -> None:
    database = people.database

    def close_all(db: Connection) -> Any:
        database.dispose()
        assert db.scalar(select(1)) == 1
        return db.connection.dbapi_connection

    for is_write in (False, True):
        raw = database.run(close_all, is_write=is_write)
        with pytest.raises((ProgrammingError, OperationalError), match="closed"):
            raw.execute("SELECT 1")
        database.run(lambda db: db.scalar(select(1)), is_write=is_write)


def test_a_push_is_durable_when_it_is_answered_though_its_locks_were_given_back_before(
    postgres: Postgres, templates: object, fast_place: Path
) -> None:
    """PostgreSQL is stopped at once after each answer, before it flushes anything by itself."""
    url = templates.copy("postgresql", fast_place)  # type: ignore[attr-defined]
    database = Database(url)
    try:
        people = populate(database)
        one = HEADER
        push(people, one)
        for number in range(3):
            before, one = one.mark, one.more((said(f"{number}"), answer("yes")))
            head = push(people, one, before)
            postgres.stop_immediately()
            postgres.start()
            assert kept(people, one.thread) == one.data
            assert len(rows_of(people, schema.changes)) == head.change == number + 2
        with database.write() as db:
            setting = db.execute(text("SELECT current_setting('synchronous_commit')"))
            assert setting.scalar_one() == "on"
    finally:
        database.dispose()
        templates.remove(url)  # type: ignore[attr-defined]
