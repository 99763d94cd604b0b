"""The databases that tests are given: fresh, up to date, the same on both, and really there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from sqlalchemy import func, select, text

from server.databases import PLACE, Postgres, clean_up, new_folder
from server.people import ROLES, People, populate
from treadle.server.data import schema
from treadle.server.data.database import Database


def test_a_test_has_an_up_to_date_database_of_its_own(database: Database) -> None:
    assert database.has_current_schema()
    with database.read() as connection:
        assert connection.execute(select(func.count()).select_from(schema.users)).scalar() == 0
    populate(database)


def test_nothing_of_the_test_before_is_in_it(database: Database) -> None:
    test_a_test_has_an_up_to_date_database_of_its_own(database)


def test_there_is_somebody_of_every_kind(people: People) -> None:
    with people.reading() as context:
        found = context.db.execute(select(schema.users.c.name)).scalars().all()
    assert sorted(found) == sorted(ROLES)
    assert people[""].user_id is None
    assert len({people[name].user_id for name in ROLES}) == len(ROLES)


def test_what_is_committed_survives_that_postgresql_stops_at_once(postgres: Postgres) -> None:
    name = postgres.create()
    engine = sqlalchemy.create_engine(
        postgres.url(name).replace("postgresql:", "postgresql+psycopg:")
    )
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE kept (n int)"))
        connection.execute(text("INSERT INTO kept VALUES (7)"))
    postgres.stop_immediately()
    with pytest.raises(sqlalchemy.exc.OperationalError), engine.connect() as connection:
        connection.execute(text("SELECT n FROM kept"))
    postgres.start()
    with engine.connect() as connection:
        assert connection.execute(text("SELECT n FROM kept")).scalar() == 7
    engine.dispose()
    postgres.drop(name)


@pytest.fixture
def place() -> Iterator[Path]:
    """Where nobody else cleans up; every user may pass, as PostgreSQL has one of its own."""
    folder = Path(tempfile.mkdtemp(prefix="treadle-test-", dir=PLACE))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_what_a_killed_run_has_left_is_removed_and_what_is_in_use_stays(place: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    mine = new_folder(place)
    left = mine.with_name(f"treadle-db-{dead.pid}-left")
    left.mkdir()
    (left / "file").write_text("x")
    assert clean_up(place) == [left]
    assert not left.exists()
    assert mine.exists()


def test_the_postgresql_of_a_killed_run_is_stopped(place: Path) -> None:
    program = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from server.databases import Postgres, new_folder\n"
        "print(Postgres(new_folder(Path(sys.argv[1]))).folder, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program, place],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        stdout=subprocess.PIPE,
    )
    folder = Path(killed.stdout.decode().strip())
    main = int((folder / "pg" / "postmaster.pid").read_text().split("\n")[0])
    assert is_running(main)
    clean_up(place)
    assert not folder.exists()
    while is_running(main):
        continue


def is_running(process: int) -> bool:
    """Whether it is there, and no dead one that nobody has asked about."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
