"""What the stores of a process share on one database: its connections, and one lease.

A process has one lease for all threads that it holds, so that renewing it costs the database the
same whether these are one or a thousand. It is renewed by a thread of its own: whatever the program
is busy with, it lives as long as its process does, and is over when the process is stopped. Time is
that of the database.
"""

from __future__ import annotations

import os
import socket
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from random import random
from time import monotonic
from typing import Any, Final, TypeAlias, TypeVar

from psycopg import ClientCursor
from psycopg import Connection as Session
from psycopg import Error as PostgresError
from sqlalchemy.exc import SQLAlchemyError

from treadle.api.error_codes import ErrorCode
from treadle.errors import ConfigError, StoreError
from treadle.server.data.database import Database
from treadle.server.data.database_errors import convert_database_errors
from treadle.server.journals import statements
from treadle.server.refusals import Refusal

Result = TypeVar("Result")

POOL_SIZE: Final = 12
"""Connections that are kept; twice as many are opened at most. More than there are threads in which
stores are waited for, so that a lease is renewed whatever these wait for."""
RENEWALS: Final = 4
"""So often a lease is renewed before it would be over."""
FIRST_DELAY_S: Final = 0.02
DELAY_S_MAX: Final = 2.0
"""What is waited for after the first failure, and at most: twice as long each time."""

Hold: TypeAlias = tuple[int, str]
"""The owner and the id of a thread that is held."""


class WriterLease:
    """This process, to a database: what it is called there, and what it holds.

    Args:
        url: of the database.
        lease_s: seconds for which others believe that it is alive.
        patience_s: seconds for which a database that does not answer is tried again.

    Raises:
        ConfigError: the URL names no PostgreSQL.
    """

    def __init__(self, url: str, lease_s: float, patience_s: float) -> None:
        self.database = Database(url, pool_size=POOL_SIZE)
        if self.database.dialect != "postgresql":
            raise ConfigError(
                "a store for several machines is on PostgreSQL",
                hint='PostgresStore("postgresql://USER:PASSWORD@HOST/NAME", "OWNER")',
            )
        self.lease_s = lease_s
        self._patience_s = patience_s
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._lock = threading.Lock()
        self._is_prepared = False
        self._writer_id: int | None = None
        self._renewed_at = 0.0
        self._held: set[Hold] = set()
        self._to_free: list[Mapping[str, object]] = []
        self._stop = threading.Event()
        self._finalizer = weakref.finalize(self, _end, self._stop, self.database)
        self.user_count = 0

    # ---- calls --------------------------------------------------------------------------------

    def prepare(self) -> None:
        """See that the tables are there, once.

        Raises:
            ConfigError: the database would lose what it acknowledges, or its tables are of another
                version.
            StoreError: it cannot be reached.
        """
        with self._lock:
            if not self._is_prepared:
                self.database.prepare()
                self._is_prepared = True

    def execute(self, statement: str, values: Mapping[str, object]) -> int:
        """Execute a statement as a transaction; how many rows it has written.

        Raises:
            Refusal: unavailable; whether it was executed is not known.
        """
        with convert_database_errors(), self._borrow_session() as session:
            return session.execute(statement.encode(), values).rowcount

    def query(self, statement: str, values: Mapping[str, object]) -> Sequence[tuple[Any, ...]]:
        """The rows that a statement gives, which is a transaction. Raises as `execute`."""
        with convert_database_errors(), self._borrow_session() as session:
            return session.execute(statement.encode(), values).fetchall()

    def query_together(
        self, statements: Sequence[str], values: Mapping[str, object]
    ) -> list[Sequence[tuple[Any, ...]]]:
        """The rows of each of these statements, which are one transaction and go by one way.

        Raises as `execute`.
        """
        with (
            convert_database_errors(),
            self._borrow_session() as session,
            ClientCursor(session) as cursor,
        ):
            cursor.execute(";".join(statements).encode(), values)
            found = [cursor.fetchall()]
            while cursor.nextset():
                found.append(cursor.fetchall())
            return [*found]

    def repeat(self, work: Callable[[], Result]) -> Result:
        """Do this, which may be done again, until the database does its part.

        Raises:
            ConfigError: somebody has changed its settings: it would lose what it acknowledges.
            StoreError: it does not answer for too long, or has refused.
        """
        until_s, delay_s = monotonic() + self._patience_s, FIRST_DELAY_S
        while True:
            try:
                return work()
            except Refusal as refusal:
                if isinstance(refusal.__cause__, ConfigError):
                    raise refusal.__cause__ from None
                is_lasting = refusal.code is not ErrorCode.UNAVAILABLE
                if is_lasting or monotonic() + delay_s > until_s:
                    raise StoreError(str(refusal), hint=refusal.problem.hint) from refusal
            except (PostgresError, SQLAlchemyError) as error:
                raise StoreError(
                    f"the database has refused what it was asked: {type(error).__name__}",
                    hint="its log says more; this is a fault of the program",
                ) from error
            # Not all are to come back at once.
            threading.Event().wait(delay_s * (0.5 + random() / 2))  # noqa: S311
            delay_s = min(2 * delay_s, DELAY_S_MAX)

    @contextmanager
    def _borrow_session(self) -> Iterator[Session[tuple[Any, ...]]]:
        """A session for statements of which each is a transaction.

        It is not tried before it is used: a kept one may have broken since. One that has broken is
        not kept. A renewal may be at work while the lease ends: nobody else closes what it gives
        back to a pool that was disposed of.
        """
        pool = self.database.engine.pool
        kept = pool.connect()
        raw: Any = kept.dbapi_connection
        try:
            yield raw
        finally:
            if raw.closed:
                kept.invalidate()
            kept.close()
            if self._stop.is_set():
                pool.dispose()

    # ---- the lease ----------------------------------------------------------------------------

    def ensure_writer(self) -> int:
        """The number of this process, whose lease is good. Raises as `execute`."""
        with self._lock:
            if self._writer_id is None:
                for removal in (statements.REMOVE_DEAD_WRITERS, statements.REMOVE_COPIED_BLOBS):
                    self.execute(removal, {})
                values = {"name": self._name, "lease_ms": self._lease_ms}
                ((self._writer_id,),) = self.query(statements.REGISTER_WRITER, values)
                self._renewed_at = monotonic()
                thread = threading.Thread(
                    target=_keep_alive,
                    args=(weakref.ref(self), self._stop, self.lease_s / RENEWALS),
                    name="treadle-lease",
                    daemon=True,
                )
                thread.start()
            writer_id = self._writer_id
        if monotonic() - self._renewed_at > self.lease_s / 2:
            self.renew()
        return writer_id

    def renew(self) -> None:
        """Say that this process lives, and free what could not be freed. Raises as `execute`."""
        began = monotonic()
        values = {"id": self._writer_id, "name": self._name, "lease_ms": self._lease_ms}
        self.execute(statements.RENEW_LEASE, values)
        self._renewed_at = began
        for _ in range(len(self._to_free)):
            self.execute(statements.FREE_JOURNAL, self._to_free[0])
            self._to_free.pop(0)

    @property
    def _lease_ms(self) -> int:
        return int(self.lease_s * 1000)

    def reserve(self, hold: Hold) -> bool:
        """Whether a thread is not held here yet; from then on it is, until `forget` or `free`.

        What the database has down as ours and is not held here is what an answer that was lost, or
        a `close` that did not reach it, have left: that can be taken.
        """
        with self._lock:
            is_new = hold not in self._held
            self._held.add(hold)
            return is_new

    def forget(self, hold: Hold) -> None:
        """A thread was not had after all."""
        self._held.discard(hold)

    def free(self, hold: Hold, epoch: int) -> None:
        """Give a thread free: now, or as soon as the database can be reached."""
        values = {"owner": hold[0], "id": hold[1], "epoch": epoch}
        self._held.discard(hold)
        try:
            self.execute(statements.FREE_JOURNAL, values)
        except Refusal:
            self._to_free.append(values)  # the next renewal does it

    def close(self) -> None:
        """End the lease: whatever this process held is free, if the database can be told."""
        self._stop.set()
        if self._writer_id is not None:
            with suppress(Refusal):
                self.execute(statements.REMOVE_WRITER, {"id": self._writer_id})
        self._finalizer()


def _keep_alive(lease: weakref.ref[WriterLease], stop: threading.Event, interval_s: float) -> None:
    """Renew a lease until it is ended, or nobody has it any more."""
    while not stop.wait(interval_s):
        found = lease()
        if found is None:
            return
        with suppress(Exception):  # the database may be back the next time; nothing ends this here
            found.renew()
        del found


def _end(stop: threading.Event, database: Database) -> None:
    stop.set()
    database.dispose()


_SHARED: Final[weakref.WeakValueDictionary[tuple[object, ...], WriterLease]] = (
    weakref.WeakValueDictionary()
)
_SHARED_LOCK: Final = threading.Lock()


def share_lease(url: str, lease_s: float, patience_s: float) -> WriterLease:
    """The lease of this process on a database; give it back with `return_lease`.

    Raises:
        ConfigError: the URL names no PostgreSQL.
    """
    place = (url, lease_s, patience_s, os.getpid())
    with _SHARED_LOCK:
        lease = _SHARED.get(place)
        if lease is None:
            lease = _SHARED[place] = WriterLease(url, lease_s, patience_s)
        lease.user_count += 1
        return lease


def return_lease(lease: WriterLease) -> None:
    """Who uses a lease needs it no longer; the last one ends it."""
    with _SHARED_LOCK:
        lease.user_count -= 1
        if lease.user_count:
            return
        for place in [place for place, one in _SHARED.items() if one is lease]:
            del _SHARED[place]
    lease.close()
