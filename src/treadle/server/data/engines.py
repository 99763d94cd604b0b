"""SQLAlchemy's engines for SQLite and PostgreSQL, and the settings that keep what is written."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from threading import Lock
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool

from treadle.errors import ConfigError
from treadle.server.data import round_trips
from treadle.server.data.database_errors import make_unavailable_refusal
from treadle.store.sqlite_journal_mode import set_journal_mode

LOCK_TIMEOUT_S: Final = 10.0
"""So long a transaction waits for others, all its attempts together, and a request for a
connection."""

IS_WRITE_OPTION: Final = "treadle_writes"
WAIT_MS_OPTION: Final = "treadle_waits_ms"
QUERIES_OPTION: Final = "treadle_questions"

_FILE_CREATION_LOCK: Final = Lock()
"""Held while a file is made: no thread opens it before whoever made it has closed it."""

_SQLITE_VERSION_MIN: Final = (3, 35, 0)
"""The first one that answers `RETURNING`."""

_SQLITE_OPTIONS: Final = ("journal_mode", "synchronous")
"""What a URL may say; whatever it says is measured (`check_sqlite`)."""

_SQLITE_PAGE_SIZE: Final = 2048
"""Of a new file. A push changes some ten pages of which it needs a few bytes each, and all are
written twice; with smaller ones long threads are read slower."""

_DURABLE_SETTINGS: Final = {
    "synchronous_commit": ("on", "remote_write", "remote_apply"),
    "fsync": ("on",),
    "full_page_writes": ("on",),
}
"""The values with which PostgreSQL loses nothing that it has acknowledged."""


def parse_url(url: str) -> URL:
    """The parts of the URL of a database.

    Raises:
        ConfigError: it names none that Treadle works with.
    """
    try:
        parsed = make_url(url)
        parsed.port  # noqa: B018  it is read here or nowhere
    except (ArgumentError, ValueError):
        raise _make_url_error("the URL of the database cannot be read") from None
    name = parsed.drivername
    if name in ("postgresql", "postgres", "postgresql+psycopg"):
        return parsed.set(drivername="postgresql+psycopg")
    if name not in ("sqlite", "sqlite+pysqlite"):
        raise _make_url_error(f"{name} is no database that Treadle works with")
    if not parsed.database or parsed.database == ":memory:" or parsed.host:
        raise _make_url_error("the URL names no file for SQLite")
    unknown = sorted(set(parsed.query) - set(_SQLITE_OPTIONS))
    if unknown:
        raise _make_url_error(f"the URL has the option {unknown[0]!r}, which SQLite has not got")
    return parsed


def _make_url_error(why: str) -> ConfigError:
    return ConfigError(
        why,
        hint="postgresql://USER:PASSWORD@HOST/NAME, or sqlite:////srv/treadle/server.sqlite",
    )


def _ensure_file(path: Path) -> None:
    """See that there is a file that can be used.

    Only a file that nobody can have opened is closed again: with it go all the locks that SQLite
    holds on that file for this process (https://sqlite.org/howtocorrupt.html, 2.2).

    Raises:
        OSError: there is none, and cannot be.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with _FILE_CREATION_LOCK:
        try:
            os.close(os.open(path.resolve(), flags, 0o600))
        except FileExistsError:
            if path.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)) from None
            if not os.access(path, os.R_OK | os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None


def make_sqlite_engine(url: URL, pool_size: int) -> Engine:
    """A pool of connections to one file, which is made with the first of them.

    Raises:
        ConfigError: an option of the URL cannot be a value.
    """
    path = Path(url.database or "").absolute()
    mode = str(url.query.get("journal_mode", "WAL"))
    synchronous = str(url.query.get("synchronous", "FULL"))
    for value in (mode, synchronous):
        if not value.isalnum():
            raise _make_url_error("an option of the URL has a value that SQLite has not got")

    def connect() -> sqlite3.Connection:
        # 0600 from the first byte: the log beside it takes its mode from it.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _ensure_file(path)
        connection = sqlite3.connect(
            path,
            timeout=LOCK_TIMEOUT_S,
            isolation_level=None,  # transactions begin in the listener below
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            connection.execute(f"PRAGMA page_size={_SQLITE_PAGE_SIZE}").fetchall()
            set_journal_mode(connection, mode, wait_s=LOCK_TIMEOUT_S)
            for pragma in (
                f"synchronous={synchronous}",
                "foreign_keys=ON",
                "secure_delete=ON",
                "journal_size_limit=67108864",
            ):
                connection.execute(f"PRAGMA {pragma}").fetchall()
        except BaseException:  # what is no database is found here, with the file open already
            connection.close()
            raise
        return connection

    def connect_or_tell() -> sqlite3.Connection:
        try:
            return connect()
        except OSError as error:
            raise make_unavailable_refusal(
                f"the database file cannot be opened: {error.strerror}"
            ) from error

    engine = create_engine(
        "sqlite+pysqlite://",
        creator=connect_or_tell,
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_timeout=LOCK_TIMEOUT_S,
        poolclass=QueuePool,
    )

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        is_write = options.get(IS_WRITE_OPTION, False)
        connection.exec_driver_sql(f"PRAGMA busy_timeout={options.get(WAIT_MS_OPTION, 0)}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_write else "BEGIN")

    return engine


def make_postgresql_engine(url: URL, pool_size: int) -> Engine:
    """A pool of sessions, each of which is refused if its settings lose data."""
    engine = create_engine(
        url,
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_timeout=LOCK_TIMEOUT_S,
        pool_recycle=1800,
        pool_use_lifo=True,  # a session knows its statements: few that are busy, not all in turn
        connect_args={
            "connect_timeout": int(LOCK_TIMEOUT_S),
            "client_encoding": "UTF8",
            # A machine that is gone without a word is noticed: another one may have its database.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 25_000,
        },
    )

    @event.listens_for(engine, "connect")
    def prepare_session(raw: Any, _: Any) -> None:
        """An operator may change what holds for new sessions while the server runs."""
        raw.autocommit = True  # transactions begin in the listener below
        row = raw.execute("SELECT current_setting('synchronous_commit')").fetchone()
        raw.execute(f"SET lock_timeout = '{LOCK_TIMEOUT_S * 1000:.0f}ms'")
        raw.execute("SET idle_in_transaction_session_timeout = '60s'")
        problem = _find_setting_error("synchronous_commit", row[0])
        if problem is not None:
            raw.close()
            raise problem

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        """What every session has is said again only where a transaction has less time left."""
        options = connection.get_execution_options()
        waits_ms = options.get(WAIT_MS_OPTION, LOCK_TIMEOUT_S * 1000)
        is_read = options.get(IS_WRITE_OPTION) is False
        first = f"BEGIN ISOLATION LEVEL {'REPEATABLE READ' if is_read else 'READ COMMITTED'}"
        if options.get(IS_WRITE_OPTION) and waits_ms < LOCK_TIMEOUT_S * 900:
            first += f"; SET LOCAL lock_timeout = '{waits_ms}ms'"
        round_trips.begin_transaction(connection, first, options.get(QUERIES_OPTION, ()))

    @event.listens_for(engine, "before_cursor_execute")
    def before(connection: Connection, *_: Any) -> None:
        round_trips.send_queued(connection)

    event.listen(engine, "commit", round_trips.send_queued)
    return engine


def check_sqlite(connection: Connection) -> None:
    """See that the database keeps what it acknowledges.

    Raises:
        ConfigError: this SQLite is too old, or its settings lose data.
    """

    def pragma(name: str) -> str:
        return str(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()).lower()

    if sqlite3.sqlite_version_info < _SQLITE_VERSION_MIN:
        raise ConfigError(
            f"SQLite {sqlite3.sqlite_version} is too old; the server needs 3.35",
            hint="use a newer Python, or PostgreSQL",
        )
    if (mode := pragma("journal_mode")) != "wal":
        raise _make_durability_error(
            "journal_mode", mode, "leave it out of the URL, and use a local disk"
        )
    if int(level := pragma("synchronous")) < 2:
        raise _make_durability_error("synchronous", level, "leave it out of the URL, or say FULL")


def check_postgresql(connection: Connection) -> None:
    """See that the database keeps what it acknowledges.

    Raises:
        ConfigError: the settings lose data, or its encoding cannot hold every text.
    """
    for name in _DURABLE_SETTINGS:
        query = f"SELECT current_setting('{name}', true)"
        problem = _find_setting_error(name, connection.exec_driver_sql(query).scalar_one())
        if problem is not None:
            raise problem
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    if encoding != "UTF8":
        raise ConfigError(
            f"the database has the encoding {encoding}; not every text could be kept",
            hint="CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0",
        )


def _find_setting_error(name: str, value: str | None) -> ConfigError | None:
    if value is None or value in _DURABLE_SETTINGS[name]:
        return None
    mend = f"say {name} = on in postgresql.conf; ALTER ROLE and ALTER DATABASE may say it too"
    return _make_durability_error(name, value, mend)


def _make_durability_error(name: str, value: str, hint: str) -> ConfigError:
    return ConfigError(
        f"the database has {name} = {value}: a power cut would lose what was acknowledged",
        hint=hint,
    )
