"""The database of the server: connections for threads, and transactions on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import Any, Final, Literal, TypeVar

from psycopg import OperationalError
from sqlalchemy import Connection
from sqlalchemy.engine import RootTransaction

from treadle.errors import ConfigError, StoreError
from treadle.server.data import round_trips
from treadle.server.data.database_errors import (
    TransactionConflictError,
    convert_database_errors,
    make_unavailable_refusal,
)
from treadle.server.data.engines import (
    IS_WRITE_OPTION,
    LOCK_TIMEOUT_S,
    QUERIES_OPTION,
    WAIT_MS_OPTION,
    check_postgresql,
    check_sqlite,
    make_postgresql_engine,
    make_sqlite_engine,
    parse_url,
)
from treadle.server.data.round_trips import PreliminaryQuery
from treadle.server.data.schema_migration import get_schema_state, migrate
from treadle.server.refusals import Refusal

Result = TypeVar("Result")

ATTEMPT_COUNT_MAX: Final = 8
"""So often a transaction is begun that others stand in the way of."""

_TRUNCATE_LOG_KEY: Final = "treadle_truncates"


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
        parsed = parse_url(url)
        self._lock_timeout_s = lock_timeout_s
        self._connection_count_max = 2 * pool_size
        self.dialect: Literal["sqlite", "postgresql"]
        self._write_lock = Lock()
        self._dispose_count = 0
        if parsed.get_backend_name() == "sqlite":
            self.dialect = "sqlite"
            self.engine = make_sqlite_engine(parsed, pool_size)
        else:
            self.dialect = "postgresql"
            self.engine = make_postgresql_engine(parsed, pool_size)
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
                        IS_WRITE_OPTION: writes,
                        WAIT_MS_OPTION: waits_ms,
                        QUERIES_OPTION: queries,
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
                check_sqlite(connection)
            else:
                check_postgresql(connection)

    def get_schema_state(self) -> Literal["empty", "older", "current"]:
        """What the tables are to this version.

        Raises:
            ConfigError: a newer Treadle has made them.
            StoreError: the database cannot be reached.
        """
        with self._startup_transaction() as connection:
            return get_schema_state(connection)

    def has_current_schema(self) -> bool:
        """Whether the tables are those of this version. Raises as `get_schema_state`."""
        return self.get_schema_state() == "current"

    def migrate(self) -> None:
        """Make the tables, or bring them up to this version; one process at a time does it.

        Raises: as `get_schema_state`; nothing was changed.
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
