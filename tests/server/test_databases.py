"""The databases that tests are given: fresh, up to date, the same on both, and really there."""

from __future__ import annotations

import pytest
import sqlalchemy
from sqlalchemy import func, select, text

from server.databases import Postgres
from server.people import ROLES, People, populate
from treadle.server import schema
from treadle.server.database import Database


def test_a_test_has_an_up_to_date_database_of_its_own(database: Database) -> None:
    assert database.is_current()
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
