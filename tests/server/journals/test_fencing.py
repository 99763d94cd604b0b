"""One process at a time appends to a thread, whatever the clocks say and whoever sleeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from threading import Thread

import psycopg
import pytest

from server.journals.stores import OWNER, Writing, run_sql
from server.people import People
from treadle import PostgresStore, StaleWriterError, StoreError, ThreadBusyError, UnknownThreadError
from treadle.errors import ConfigError
from treadle.store_conformance.workers import Desk, start_worker
from treadle.thread.record import JournalCondition, scan_journal

LONG_S = 600.0
"""A lease that is renewed by nobody while a test runs."""

NO_TIME = "UPDATE writers SET lease_until = 0"
"""As if the time of all leases had passed."""


@pytest.fixture
def stores(url: str, people: People) -> Iterator[tuple[PostgresStore, PostgresStore]]:
    """Two that have a lease each, as those of two processes have."""
    with (
        PostgresStore(url, OWNER, lease_s=LONG_S) as one,
        PostgresStore(url, OWNER, lease_s=LONG_S + 1) as other,
    ):
        yield one, other


def test_who_has_slept_appends_nothing_and_frees_nothing(
    url: str, stores: tuple[PostgresStore, PostgresStore]
) -> None:
    one, other = stores
    writing = Writing(one)
    writing.append("one")
    with pytest.raises(ThreadBusyError, match=":"):  # it says who
        other.hold(writing.thread_id)
    run_sql(url, NO_TIME)
    other._lease.renew()
    held = other.hold(writing.thread_id)
    data, head = writing.make_batch("two")
    one._lease.renew()  # it is awake again
    with pytest.raises(StaleWriterError):
        writing.held.append(data, writing.head.size)
    writing.held.close()
    with pytest.raises(ThreadBusyError):
        one.hold(writing.thread_id)
    held.append(data, writing.head.size)
    with pytest.raises(StoreError):
        writing.held.append(data, head.size)
    held.close()
    assert b"".join(one.read(writing.thread_id)) == writing.data + data


def test_a_lease_that_nobody_has_used_goes_on(
    url: str, stores: tuple[PostgresStore, PostgresStore]
) -> None:
    """As when the database was away for longer than it lasts: nobody else was there either."""
    one, other = stores
    writing = Writing(one)
    run_sql(url, NO_TIME)
    writing.append("two")
    one._lease.renew()
    with pytest.raises(ThreadBusyError):
        other.hold(writing.thread_id)
    run_sql(url, "DELETE FROM writers")  # as old ones are removed
    one._lease.renew()
    with pytest.raises(ThreadBusyError):
        other.hold(writing.thread_id)
    writing.append("three")
    writing.held.close()
    other.hold(writing.thread_id).close()


def test_a_lease_is_renewed_while_its_process_is_busy(url: str, people: People) -> None:
    with (
        PostgresStore(url, OWNER, lease_s=0.4) as store,
        psycopg.connect(url, autocommit=True) as db,
    ):
        Writing(store)
        found = set[int]()
        while len(found) < 3:
            found |= {row[0] for row in db.execute("SELECT lease_until FROM writers")}


def test_the_time_of_a_lease_is_that_of_the_database(
    url: str, stores: tuple[PostgresStore, PostgresStore]
) -> None:
    one, other = stores
    writing, others = Writing(one), Writing(other)
    left = "SELECT lease_until - extract(epoch from clock_timestamp()) * 1000 FROM writers"
    with psycopg.connect(url) as connection:
        found = [float(row[0]) / 1000 for row in connection.execute(left)]
    assert all(0 < seconds <= LONG_S + 1 for seconds in found)
    assert len(found) == 2
    writing.held.close(), others.held.close()


def test_a_store_that_is_closed_holds_nothing(
    url: str, stores: tuple[PostgresStore, PostgresStore]
) -> None:
    _, other = stores
    with PostgresStore(url, OWNER, lease_s=LONG_S + 2) as third:
        writing = Writing(third)
        with pytest.raises(ThreadBusyError):
            other.hold(writing.thread_id)
    other.hold(writing.thread_id).close()
    with pytest.raises(StoreError, match="closed"):
        third.ids()


def test_a_renewal_that_a_closed_store_did_not_wait_for_leaves_no_connection(
    url: str, people: People
) -> None:
    with PostgresStore(url, OWNER, lease_s=LONG_S) as store, ExitStack() as renewal:
        store.ids()
        sessions = [renewal.enter_context(store._lease._borrow_session())]
        store.close()
        sessions.append(renewal.enter_context(store._lease._borrow_session()))
    assert [session.closed for session in sessions] == [True, True]


def test_records_are_taken_as_a_whole_and_in_their_order(
    stores: tuple[PostgresStore, PostgresStore],
) -> None:
    one, other = stores
    writing = Writing(one)
    data, _ = writing.make_batch("one", "two", "three")
    for wrong in (data[1:], data[:-1], data + b"x", data * 2, b"\n", data.replace(b"two", b"too")):
        with pytest.raises(StoreError, match="no records"):
            writing.held.append(wrong, writing.head.size)
    writing.append("one", "two", "three")
    with pytest.raises(StaleWriterError):
        writing.held.append(data, writing.head.size - len(data))
    with pytest.raises(StoreError, match="whole"):
        writing.held.cut(writing.head.size - 1)
    assert writing.held.cut(writing.head.size) == ""
    for start in (0, 1, writing.head.size - len(data), writing.head.size - 1, writing.head.size):
        assert b"".join(other.read(writing.thread_id, start)) == writing.data[start:]
    assert b"".join(one.read(writing.thread_id, writing.head.size)) == b""


def test_who_follows_reads_what_is_new_and_sees_what_was_rewritten(
    url: str, stores: tuple[PostgresStore, PostgresStore]
) -> None:
    one, other = stores
    writing = Writing(one)
    seen = b""
    for nth in range(5):
        if nth % 2:
            writing.append(f"tag {nth}", "more")
        new = b"".join(other.read(writing.thread_id, len(seen)))
        assert seen + new == writing.data
        seen += new
    # Another chain of the same size stands there now, as a scrub of one may leave it.
    run_sql(url, "UPDATE records SET hash = 'another' WHERE seq > 1")
    assert b"".join(other.read(writing.thread_id, len(seen))) == b""
    assert b"".join(other.read(writing.thread_id, len(seen) - 1)) == b"\n"
    run_sql(url, "UPDATE threads SET purged_at = 'now'")
    with pytest.raises(UnknownThreadError):
        other.read(writing.thread_id, len(seen))


def test_what_the_database_refuses_is_an_error_of_the_store(
    url: str, stores: tuple[PostgresStore, PostgresStore]
) -> None:
    writing = Writing(stores[0])
    run_sql(url, "INSERT INTO records SELECT thread_id, 2, hash, at, line FROM records")
    with pytest.raises(StoreError, match="refused"):
        writing.append("one")


def test_a_database_that_would_lose_what_it_acknowledges_is_refused(url: str) -> None:
    name = url.partition("@/")[2].partition("?")[0]
    run_sql(url, f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    with (
        PostgresStore(url, OWNER, lease_s=LONG_S) as store,
        pytest.raises(ConfigError, match="synchronous_commit = off") as found,
    ):
        store.ids()
    assert "synchronous_commit = on" in found.value.hint


def test_who_the_owner_is_must_be_known(url: str, people: People) -> None:
    with (
        PostgresStore(url, "nobody") as store,
        pytest.raises(ConfigError, match="no user 'nobody'"),
    ):
        store.ids()
    with pytest.raises(ConfigError, match="PostgreSQL"):
        PostgresStore("sqlite:////tmp/x", OWNER)


def test_a_new_thread_follows_what_an_admin_changes_of_its_owner(url: str, people: People) -> None:
    """Within a minute, in processes that go on for weeks."""
    moved = "UPDATE users SET organization_id = (SELECT id FROM organizations WHERE name = 'b')"
    counted = "SELECT count(*) FROM threads GROUP BY organization_id ORDER BY 1"
    with PostgresStore(url, OWNER, lease_s=LONG_S) as store, psycopg.connect(url) as db:
        writings = [Writing(store) for _ in range(2)]
        run_sql(url, "INSERT INTO organizations (name, created_at) VALUES ('b', '')")
        run_sql(url, f"{moved} WHERE name = '{OWNER}'")
        Writing(store)  # it is not looked for each time
        store._principal_at -= 60
        Writing(store)
        assert store.find_organization() == "b"
        assert db.execute(counted).fetchall() == [(1,), (3,)]
        run_sql(url, f"UPDATE users SET disabled_at = '' WHERE name = '{OWNER}'")
        store._principal_at -= 60
        with pytest.raises(ConfigError, match="disabled"):
            Writing(store)
        writings[0].append("what is at work goes on")


# ---- real processes ---------------------------------------------------------------------------


def _begin_writing(desk: Desk) -> str:
    """Begin a thread of records."""
    assert isinstance(desk.store, PostgresStore)
    writing = Writing(desk.store)
    desk.held["its"] = writing.held
    desk.writing = writing  # type: ignore[attr-defined]
    return writing.thread_id


def _write(desk: Desk, tag: str) -> bool:
    """Whether one more record could be appended."""
    try:
        desk.writing.append(tag)  # type: ignore[attr-defined]
    except StaleWriterError:
        return False
    return True


def test_a_process_that_was_stopped_appends_nothing_beside_another_one(
    url: str, people: People
) -> None:
    from functools import partial

    from treadle.store_conformance.workers import hold_when_free

    open_it = partial(PostgresStore, url, OWNER, lease_s=1.0)
    with start_worker(open_it) as sleeper, open_it() as store:
        thread_id = sleeper.do(_begin_writing)
        assert sleeper.do(_write, "one")
        sleeper.pause()
        held = hold_when_free(store, thread_id)
        sleeper.wake()
        assert not sleeper.do(_write, "two")
        with PostgresStore(url, OWNER, lease_s=LONG_S) as third, pytest.raises(ThreadBusyError):
            third.hold(thread_id)
        held.close()
        whole = b"".join(store.read(thread_id))
        assert scan_journal(whole).condition is JournalCondition.CLEAN
        assert whole.count(b"\n") == 2


def test_many_who_want_a_thread_at_once_are_one(url: str, people: People) -> None:
    stores = [PostgresStore(url, OWNER, lease_s=LONG_S + nth) for nth in range(4)]
    writing = Writing(stores[0])
    writing.held.close()
    had: list[int] = []

    def want(nth: int) -> None:
        try:
            stores[nth].hold(writing.thread_id)
        except ThreadBusyError:
            return
        had.append(nth)

    wanting = [Thread(target=want, args=(nth,)) for nth in range(4)]
    for one in wanting:
        one.start()
    for one in wanting:
        one.join()
    assert len(had) == 1
    for store in stores:
        store.close()
