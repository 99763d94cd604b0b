"""The database: SQLite or PostgreSQL, its transactions, and what is asked of its settings."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, Final, Literal, TypeVar

from psycopg import OperationalError
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import RootTransaction
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool

from treadle.errors import ConfigError, StoreError
from treadle.server.data import round_trips
from treadle.server.data.database_errors import (
    TransactionConflictError,
    convert_database_errors,
    make_unavailable_refusal,
)
from treadle.server.data.round_trips import PreliminaryQuery
from treadle.server.data.schema_migration import get_schema_state, migrate
from treadle.server.refusals import Refusal
from treadle.store.sqlite_journal_mode import set_journal_mode

Result = TypeVar("Result")

ATTEMPT_COUNT_MAX: Final = 8
"""So often a transaction is begun that others stand in the way of."""

LOCK_TIMEOUT_S: Final = 10.0
"""So long a transaction waits for others, all its attempts together, and a request for a
connection."""

_IS_WRITE_OPTION: Final = "treadle_writes"
_WAIT_MS_OPTION: Final = "treadle_waits_ms"
_TRUNCATE_LOG_KEY: Final = "treadle_truncates"
_QUERIES_OPTION: Final = "treadle_questions"

_FILE_CREATION_LOCK: Final = Lock()
"""Held while a file is made: no thread opens it before whoever made it has closed it."""

_SQLITE_VERSION_MIN: Final = (3, 35, 0)
"""The first one that answers `RETURNING`."""

_SQLITE_OPTIONS: Final = ("journal_mode", "synchronous")
"""What a URL may say; whatever it says is measured (`Database.check`)."""

_DURABLE_SETTINGS: Final = {
    "synchronous_commit": ("on", "remote_write", "remote_apply"),
    "fsync": ("on",),
    "full_page_writes": ("on",),
}
"""The values with which PostgreSQL loses nothing that it has acknowledged."""


class Database:
    """A pool of connections for threads.

    Nothing is opened before it is needed. Times out, refuses and comes back by itself: a database
    that was restarted is used again with the next request.

    Args:
        url: `postgresql://...`, `postgres://...` or `sqlite:///PATH`.
        pool_size: how many connections are kept; twice as many are opened at most.
        lock_timeout_s: how long a transaction waits for others.

    Raises:
        ConfigError: the URL names no database that can be used.
    """

    def __init__(
        self, url: str, *, pool_size: int = 8, lock_timeout_s: float = LOCK_TIMEOUT_S
    ) -> None:
        parsed = _parse_url(url)
        self._lock_timeout_s = lock_timeout_s
        self._connection_count_max = 2 * pool_size
        self.dialect: Literal["sqlite", "postgresql"]
        self._write_lock = Lock()
        self._dispose_count = 0
        if parsed.get_backend_name() == "sqlite":
            self.dialect = "sqlite"
            self.engine = _make_sqlite_engine(parsed, pool_size)
        else:
            self.dialect = "postgresql"
            self.engine = _make_postgresql_engine(parsed, pool_size)
        self.name: str = parsed.render_as_string(hide_password=True)
        """The URL without its password, for people."""

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database throughout.

        Raises:
            Refusal: unavailable.
        """
        with self._transaction(False) as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is committed at the end, and undone if an error leaves the block.

        When the block has been left without an error, what was written is durable. After
        `unavailable` it may be durable or not: ask again, every change can be repeated.

        Raises:
            Refusal: unavailable.
        """
        with self._transaction(True) as connection:
            yield connection

    def run(
        self,
        work: Callable[[Connection], Result],
        *,
        is_write: bool,
        wait_s: float | None = None,
        queries: Sequence[PreliminaryQuery] = (),
    ) -> Result:
        """One transaction, begun anew when the database ended it because of others.

        Args:
            work: what is done; may be called several times, each time in a new transaction.
            is_write: whether it writes.
            wait_s: how long it waits for others, all attempts together; by default as long as any.
            queries: what PostgreSQL is asked as it begins; SQLite, which is near, is not.

        Raises:
            Refusal: unavailable, or what `work` raises.
        """
        until = monotonic() + (self._lock_timeout_s if wait_s is None else wait_s)
        for _ in range(ATTEMPT_COUNT_MAX - 1):
            try:
                with self._transaction(is_write, until, queries) as connection:
                    return work(connection)
            except TransactionConflictError:
                if monotonic() >= until:
                    raise
        with self._transaction(is_write, until, queries) as connection:
            return work(connection)

    @contextmanager
    def _transaction(
        self, writes: bool, until: float | None = None, queries: Sequence[PreliminaryQuery] = ()
    ) -> Iterator[Connection]:
        if until is None:
            until = monotonic() + self._lock_timeout_s
        with (
            convert_database_errors(),
            self._hold_write_lock(until, writes=writes),
            self._connect_and_begin(writes, until, queries) as (
                connection,
                transaction,
            ),
        ):
            try:
                with transaction:
                    yield connection
            finally:
                if not connection.invalidated:
                    round_trips.clear_state(connection)
                truncates = not connection.invalidated and connection.info.pop(
                    _TRUNCATE_LOG_KEY, False
                )
            if truncates and self.dialect == "sqlite":
                _truncate_log(connection)

    @contextmanager
    def _connect_and_begin(
        self, writes: bool, until: float, queries: Sequence[PreliminaryQuery]
    ) -> Iterator[tuple[Connection, RootTransaction]]:
        """A connection at the beginning of a transaction.

        A kept one may have broken since: PostgreSQL was started anew, or somebody between has cut
        it. That its transaction cannot begin tells so, and asking before would be one more way to
        the database and back. All that are kept may have broken.
        """
        for attempt in range(self._connection_count_max + 1):
            with self._connect() as connection:
                waits_ms = max(1, int((until - monotonic()) * 1000))
                connection.execution_options(
                    **{
                        _IS_WRITE_OPTION: writes,
                        _WAIT_MS_OPTION: waits_ms,
                        _QUERIES_OPTION: queries,
                    }
                )
                try:
                    transaction = connection.begin()
                except OperationalError as error:
                    raw: Any = connection.connection.dbapi_connection
                    if attempt == self._connection_count_max or not raw.closed:
                        raise
                    connection.invalidate(error)
                    continue
                yield connection, transaction
                return

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        """A connection of the pool.

        One that is given back after `dispose` (a thread that nobody waited for) would lie in a pool
        that nobody closes.
        """
        dispose_count, pool = self._dispose_count, self.engine.pool
        try:
            with self.engine.connect() as connection:
                yield connection
        finally:
            if self._dispose_count != dispose_count:
                pool.dispose()

    @contextmanager
    def _hold_write_lock(self, until: float, *, writes: bool) -> Iterator[None]:
        """SQLite has one writer at a time: threads of this process queue up instead of polling."""
        if not writes or self.dialect != "sqlite":
            yield
            return
        if not self._write_lock.acquire(timeout=max(0.0, until - monotonic())):
            raise make_unavailable_refusal("the database is busy")
        try:
            yield
        finally:
            self._write_lock.release()

    def check_settings(self) -> None:
        """Look whether the database keeps what it acknowledges.

        Raises:
            ConfigError: it does not; the message names the setting.
            StoreError: it cannot be reached.
        """
        with self._startup_transaction() as connection:
            if self.dialect == "sqlite":
                _check_sqlite(connection)
            else:
                _check_postgresql(connection)

    def get_schema_state(self) -> Literal["empty", "older", "current"]:
        """What the tables are to this version.

        Raises:
            ConfigError: a newer Treadle has made them.
            StoreError: the database cannot be reached.
        """
        with self._startup_transaction() as connection:
            return get_schema_state(connection)

    def has_current_schema(self) -> bool:
        """Whether the tables are those of this version. Raises as `state`."""
        return self.get_schema_state() == "current"

    def migrate(self) -> None:
        """Make the tables, or bring them up to this version; one process at a time does it.

        Raises: as `state`; nothing was changed.
        """
        with self._startup_transaction(writes=True) as connection:
            migrate(connection)

    def prepare(self, *, is_migrating: bool = False) -> None:
        """What a server does first: check the settings, make the tables of an empty database.

        Args:
            is_migrating: whether older tables may be brought up to this version.

        Raises:
            ConfigError: a setting loses data, or the tables are of another version.
            StoreError: the database cannot be reached.
        """
        self.check_settings()
        state = self.get_schema_state()
        if state == "older" and not is_migrating:
            raise ConfigError(
                f"the tables in {self.name} are of an older Treadle",
                hint="back the database up, then run `treadle serve --migrate` once",
            )
        if state != "current":
            self.migrate()

    @contextmanager
    def _startup_transaction(self, *, writes: bool = False) -> Iterator[Connection]:
        """A transaction at start: errors are for who starts the server."""
        try:
            with self._transaction(writes) as connection:
                yield connection
        except Refusal as refusal:
            if isinstance(refusal.__cause__, ConfigError):
                raise refusal.__cause__ from None
            raise StoreError(
                f"the database {self.name} cannot be used: {refusal}",
                hint="start it, or name another one with --database",
            ) from refusal

    def dispose(self) -> None:
        """Close all connections, those at work when they end; the database can be used again."""
        self._dispose_count += 1  # first: who gives one back now closes it, or has it closed below
        self.engine.dispose()


def request_log_truncation(connection: Connection) -> None:
    """Let no old bytes stay in the write-ahead log of SQLite once this transaction is committed.

    PostgreSQL removes them by itself with its next vacuum.
    """
    connection.info[_TRUNCATE_LOG_KEY] = True


def _truncate_log(connection: Connection) -> None:
    """Best effort: readers that see an older state keep the log, and the next one tries again."""
    raw = connection.connection.dbapi_connection
    if raw is not None:
        cursor = raw.cursor()
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        cursor.close()


def _parse_url(url: str) -> URL:
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


def _make_sqlite_engine(url: URL, pool_size: int) -> Engine:
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
            isolation_level=None,  # transactions begin where this module says so
            check_same_thread=False,
            cached_statements=256,
        )
        try:
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
        is_write = options.get(_IS_WRITE_OPTION, False)
        connection.exec_driver_sql(f"PRAGMA busy_timeout={options.get(_WAIT_MS_OPTION, 0)}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_write else "BEGIN")

    return engine


def _make_postgresql_engine(url: URL, pool_size: int) -> Engine:
    engine = create_engine(
        url,
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_timeout=LOCK_TIMEOUT_S,
        pool_recycle=1800,
        connect_args={"connect_timeout": int(LOCK_TIMEOUT_S), "client_encoding": "UTF8"},
    )

    @event.listens_for(engine, "connect")
    def prepare_session(raw: Any, _: Any) -> None:
        """An operator may change what holds for new sessions while the server runs."""
        raw.autocommit = True  # transactions begin where this module says so
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
        waits_ms = options.get(_WAIT_MS_OPTION, LOCK_TIMEOUT_S * 1000)
        is_read = options.get(_IS_WRITE_OPTION) is False
        first = f"BEGIN ISOLATION LEVEL {'REPEATABLE READ' if is_read else 'READ COMMITTED'}"
        if options.get(_IS_WRITE_OPTION) and waits_ms < LOCK_TIMEOUT_S * 900:
            first += f"; SET LOCAL lock_timeout = '{waits_ms}ms'"
        round_trips.begin_transaction(connection, first, options.get(_QUERIES_OPTION, ()))

    @event.listens_for(engine, "before_cursor_execute")
    def before(connection: Connection, *_: Any) -> None:
        round_trips.send_queued(connection)

    event.listen(engine, "commit", round_trips.send_queued)
    return engine


def _check_sqlite(connection: Connection) -> None:
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


def _check_postgresql(connection: Connection) -> None:
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
