"""The commands of docs/server.md for backups, as they stand there, on a real PostgreSQL."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psycopg
import pytest

from core.samples import said
from server.chains import chain, kept, push, thread_id
from server.databases import Postgres, new_folder
from server.people import People, populate
from server.test_server_docs import TEXT
from treadle.server.data.database import Database
from treadle.server.data.fold_cache import FOLD_CACHE

NAME: Final = "treadle"
"""The database, as the commands name it."""


def documented(pattern: str) -> str:
    """What the only place in the document that looks like this says."""
    (found,) = re.findall(pattern, TEXT, re.MULTILINE)
    return str(found)


class Keeper:
    """Who backs a server up: runs commands of PostgreSQL as its user, in a folder of his."""

    def __init__(self, postgres: Postgres, folder: Path) -> None:
        self.folder = folder
        self._user = postgres._server.system_user
        self._environment = {
            "PATH": f"{postgres._server.bin_path}:{os.environ['PATH']}",
            "PGHOST": postgres._socket_folder,
            "PGUSER": "postgres",
        }
        if self._user is not None:
            shutil.chown(folder, self._user)

    def run(self, command: str) -> None:
        """Run it; `/backups` is the folder."""
        command = command.replace("/backups", str(self.folder))
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self._environment,
            user=self._user,
            group=self._user,
            extra_groups=[] if self._user else None,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert done.returncode == 0, done.stderr


@pytest.fixture
def postgres_of_its_own() -> Iterator[Postgres]:
    found = Postgres()
    yield found
    found.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    made = new_folder()
    yield made
    shutil.rmtree(made, ignore_errors=True)


def people_of(postgres: Postgres) -> People:
    """Those of an empty database of the documented name."""
    url = postgres.url(postgres.create())
    database = Database(url)
    database.prepare()
    database.dispose()
    made = url.partition("@/")[2].partition("?")[0]
    postgres.do(f'ALTER DATABASE "{made}" RENAME TO {NAME}')
    return populate(Database(postgres.url(NAME)))


def test_a_dump_that_was_put_back_serves_the_threads_and_takes_more(
    postgres: Postgres, folder: Path
) -> None:
    people, keeper = people_of(postgres), Keeper(postgres, folder)
    one = chain()
    push(people, one)
    keeper.run(documented(r"`(pg_dump [^`]+)`"))
    push(people, chain(2))
    people.database.dispose()
    postgres.drop(NAME)
    keeper.run(documented(r"`(createdb [^`]+)`"))
    FOLD_CACHE.clear()  # the server was stopped meanwhile
    people.database.check_settings()
    assert people.database.has_current_schema()
    assert kept(people, thread_id(1)) == one.data
    assert kept(people, thread_id(2)) == b""
    more = one.more((said("after it"),))
    assert push(people, more, one.mark).version == more.head.seq
    people.database.dispose()
    postgres.drop(NAME)


def test_a_base_and_the_archived_log_bring_back_the_moment_that_is_named(
    postgres_of_its_own: Postgres, folder: Path
) -> None:
    postgres = postgres_of_its_own
    keeper, data = Keeper(postgres, folder), postgres.folder / "pg"
    keeper.run("mkdir /backups/wal")
    settings = documented(r"^archive_mode = .*$"), documented(r"^archive_command = .*$")
    set_up(data, folder, *settings)
    postgres._control("restart")
    people = people_of(postgres)
    push(people, chain(1))
    keeper.run(documented(r"^pg_basebackup .*$"))
    push(people, chain(2))
    with psycopg.connect(postgres.url(NAME)) as connection:
        (moment,) = connection.execute("SELECT clock_timestamp()::text").fetchone() or ("",)
    push(people, chain(3))
    people.database.dispose()
    postgres._control("stop", "-m", "fast")  # what is not archived yet is, before it ends

    keeper.run(f"find {data} -mindepth 1 -delete")
    keeper.run(f"tar -xf /backups/base-*/base.tar.gz -C {data} && touch {data}/recovery.signal")
    restore = documented(r"^restore_command = .*$"), documented(r"^recovery_target_action = .*$")
    set_up(data, folder, *restore, f"recovery_target_time = '{moment}'")
    postgres.start()
    wait_until_it_is_recovered(postgres)
    FOLD_CACHE.clear()
    assert [bool(kept(people, thread_id(number))) for number in (1, 2, 3)] == [True, True, False]
    push(people, chain(3))
    people.database.dispose()


def set_up(data: Path, backups: Path, *settings: str) -> None:
    """Add to the settings of a PostgreSQL that is not running."""
    with (data / "postgresql.conf").open("a") as file:
        file.writelines(f"{one}\n".replace("/backups", str(backups)) for one in settings)


def wait_until_it_is_recovered(postgres: Postgres) -> None:
    """It answers before that, and can only be read; one that has stopped at its target stays so."""
    state = "SELECT pg_get_wal_replay_pause_state() = 'paused'"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        while connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,):
            with suppress(psycopg.errors.ObjectNotInPrerequisiteState):  # it has just ended
                assert connection.execute(state).fetchone() == (False,)
