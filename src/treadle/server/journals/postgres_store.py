"""A store on the tables of a team's server, for agents on many machines: `PostgresStore`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from math import inf
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self

from msgspec import Struct

from treadle.errors import ConfigError, StoreError, ThreadBusyError, UnknownThreadError
from treadle.server.accounts.accounts import find_principal
from treadle.server.context import Principal
from treadle.server.journals import statements
from treadle.server.journals.holds import NewJournal, begin_journal, take_journal
from treadle.server.journals.postgres_journal import JournalPlace, PostgresJournal
from treadle.server.journals.writer_lease import WriterLease, return_lease, share_lease
from treadle.store.local_store import utc_now

LEASE_S: Final = 10.0
PATIENCE_S: Final = 60.0
OWNER_AGE_S_MAX: Final = 60.0
"""A new thread counts for the organization and the limits that its owner had so long ago."""
READ_COUNT: Final = 200
"""So many records are read at a time."""
KNOWN_END_COUNT: Final = 4096
"""Of so many threads it is known where the last reader has stopped."""


class _KnownEnd(Struct, frozen=True):
    """Where a record ends, so that who goes on reading there need not measure all before it."""

    key: str
    seq: int
    hash: str


class PostgresStore:
    """Threads on PostgreSQL, for agents that run on any number of machines (`treadle.Store`).

    The database is that of a team's server, and its threads are the owner's there: in lists, in the
    search and on pages a moment later. One process at a time appends to a thread. It has a lease
    for all that it holds, which it renews by itself; when it dies or is stopped, others get its
    threads when the lease is over, and it appends nothing to these any more.

    Nothing is opened before it is needed. The stores of one process on one database share
    connections and lease.

    Args:
        url: `postgresql://USER:PASSWORD@HOST/NAME`.
        owner: the name of a user of the server, whose threads these are.
        lease_s: for so many seconds others wait for a process that has died or was stopped.
        patience_s: for so many seconds a database that cannot be reached is tried again.

    Raises:
        ConfigError: the URL names no PostgreSQL.
    """

    def __init__(
        self, url: str, owner: str, *, lease_s: float = LEASE_S, patience_s: float = PATIENCE_S
    ) -> None:
        self.lease_s = lease_s
        self.owner = owner
        self._lease: WriterLease = share_lease(url, lease_s, patience_s)
        self._principal: Principal | None = None
        self._principal_at = 0.0
        self._known_ends: OrderedDict[tuple[str, int], _KnownEnd] = OrderedDict()
        self._ends_lock = Lock()
        self._is_closed = False

    # ---- the life of it -----------------------------------------------------------------------

    def close(self) -> None:
        """Give the connections back; the last store of a process ends its lease."""
        if not self._is_closed:
            self._is_closed = True
            return_lease(self._lease)

    def __enter__(self) -> Self:
        """Opens nothing yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """See `close`."""
        self.close()

    async def __aenter__(self) -> Self:
        """Opens nothing yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """See `close`."""
        self.close()

    def _open(self, age_s_max: float = inf) -> Principal:
        """The owner as the database knew it so long ago; it is looked at before.

        Raises:
            ConfigError: it loses what it acknowledges, is of another version, or has no such user.
            StoreError: it cannot be reached; the store was closed.
        """
        if self._is_closed:
            raise StoreError("this store was closed", hint="make another one")
        if self._principal is not None and monotonic() - self._principal_at <= age_s_max:
            return self._principal
        self._lease.prepare()
        began = monotonic()
        found = self._lease.repeat(
            lambda: self._lease.database.run(
                lambda db: find_principal(db, self.owner), is_write=False
            )
        )
        if found is None:
            raise ConfigError(
                f"the server has no user {self.owner!r}, or that user is disabled",
                hint=f"an admin makes it: treadle admin users add {self.owner} --organization NAME "
                "--database URL",
            )
        self._principal, self._principal_at = found, began
        return found

    def find_organization(self) -> str:
        """The one of the owner, in the server. Raises `ConfigError` and `StoreError`."""
        return self._open(OWNER_AGE_S_MAX).organization

    def _query(self, statement: str, **values: object) -> Sequence[tuple[Any, ...]]:
        values["owner"] = self._open().user_id
        return self._lease.repeat(lambda: self._lease.query(statement, values))

    # ---- the port -----------------------------------------------------------------------------

    def now(self) -> str:
        """See `Store.now`; the clock of this machine. What a lease takes is not measured by it."""
        return utc_now()

    def begin(self, thread_id: str, data: bytes, key: str = "") -> PostgresJournal | None:
        """See `Store.begin`. A thread that says that it is private is refused."""
        new = NewJournal.of(thread_id, data, key)
        owner, place = self._open(OWNER_AGE_S_MAX), None
        hold = (_get_id(owner), thread_id)
        is_new = self._lease.reserve(hold)
        try:
            place = self._begin(owner, new, is_held=True) if is_new else None
        finally:
            if is_new and place is None:
                self._lease.forget(hold)
        if place is not None:
            return PostgresJournal(self._lease, place, new.head)
        if self._query(statements.FIND_THREAD, id=thread_id):
            raise StoreError(f"there is a thread {thread_id} already", hint="hold it")
        return None

    def begin_unheld(self, thread_id: str, data: bytes, key: str = "") -> bool:
        """`begin`, held by nobody; whether no other thread has the key."""
        owner, new = self._open(OWNER_AGE_S_MAX), NewJournal.of(thread_id, data, key)
        return self._begin(owner, new, is_held=False) is not None

    def _begin(self, owner: Principal, new: NewJournal, *, is_held: bool) -> JournalPlace | None:
        is_repeated = False

        def attempt() -> JournalPlace | None:
            nonlocal is_repeated
            was_tried, is_repeated = is_repeated, True
            writer_id = self._lease.ensure_writer() if is_held else None
            return self._lease.database.run(
                lambda db: begin_journal(db, owner, writer_id, new, was_tried=was_tried),
                is_write=True,
                queries=[new.make_query(owner, writer_id)],
            )

        return self._lease.repeat(attempt)

    def hold(self, thread_id: str) -> PostgresJournal:
        """See `Store.hold`."""
        owner = self._open()
        hold = (_get_id(owner), thread_id)
        if not self._lease.reserve(hold):
            raise ThreadBusyError(thread_id, is_own=True)
        try:
            place, head = self._lease.repeat(lambda: take_journal(self._lease, hold))
        except BaseException:
            self._lease.forget(hold)
            raise
        return PostgresJournal(self._lease, place, head)

    def read(self, thread_id: str, start: int = 0) -> Iterator[bytes]:
        """See `Store.read`. To look where the last reader has stopped costs one small query."""
        known = self._known_ends.get((thread_id, start))
        if known is not None:
            rows = self._query(
                statements.READ_NEW_RECORDS,
                id=thread_id,
                seq=known.seq,
                hash=known.hash,
                count=READ_COUNT,
            )
            if rows:
                new = [row for row in rows if row[0] is not None]
                return self._read_on(thread_id, known.key, start, start, new)
        rows = self._query(statements.READ_FROM_START, id=thread_id, count=READ_COUNT)
        if rows:
            return self._read_on(thread_id, rows[0][3], start, 0, rows)
        if not self._query(statements.FIND_THREAD, id=thread_id):
            raise UnknownThreadError(f"there is no thread {thread_id}")
        return self._read_pieces(thread_id, start)

    def _read_records(self, key: str, first: int) -> Sequence[tuple[Any, ...]]:
        return self._query(statements.READ_RECORDS, thread_key=key, first=first, count=READ_COUNT)

    def _read_on(
        self, thread_id: str, key: str, start: int, at: int, rows: Sequence[tuple[Any, ...]]
    ) -> Iterator[bytes]:
        """The bytes of these records, of which the first begins at `at`, and all behind them."""
        while rows:
            data = b"".join(row[2].encode() + b"\n" for row in rows)
            yield data[max(0, start - at) :]
            at += len(data)
            seq, chain_hash = rows[-1][:2]
            self._remember_end(thread_id, at, _KnownEnd(key, seq, chain_hash))
            rows = self._read_records(key, seq + 1) if len(rows) == READ_COUNT else ()

    def _remember_end(self, thread_id: str, at: int, end: _KnownEnd) -> None:
        with self._ends_lock:
            self._known_ends[thread_id, at] = end
            if len(self._known_ends) > KNOWN_END_COUNT:
                self._known_ends.popitem(last=False)

    def _read_pieces(self, thread_id: str, start: int) -> Iterator[bytes]:
        while rows := self._query(statements.READ_PIECE, id=thread_id, start=start):
            ((at, body),) = rows
            yield bytes(body)[max(0, start - at) :]
            start = at + len(body)

    def ids(self) -> Sequence[str]:
        """See `Store.ids`; without those in the trash."""
        return [row[0] for row in self._query(statements.LIST_IDS)]

    def find_key(self, key: str) -> str | None:
        """See `Store.find_key`."""
        found = self._query(statements.FIND_KEY, key=key.encode())
        return found[0][0] if found else None

    def keep_blob(self, name: str, data: bytes) -> None:
        """See `Store.keep_blob`."""
        values = {"owner": self._open().user_id, "name": name, "body": data}
        self._lease.repeat(lambda: self._lease.execute(statements.KEEP_BLOB, values))

    def load_blob(self, name: str) -> bytes | None:
        """See `Store.load_blob`."""
        found = self._query(statements.LOAD_BLOB, name=name)
        return bytes(found[0][0]) if found else None


def _get_id(owner: Principal) -> int:
    assert owner.user_id is not None
    return owner.user_id
