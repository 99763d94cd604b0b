"""A database that goes away for a while loses nothing and doubles nothing of what is appended."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, Thread

import pytest

from server.databases import Postgres
from server.journals.cutting_proxy import Cut, CuttingProxy
from server.journals.stores import OWNER, Writing, make_beginning, run_sql
from server.people import People
from server.proxies import open_before
from treadle import PostgresStore, StaleWriterError, StoreError
from treadle.thread.record import JournalCondition, scan_journal

LONG_S = 600.0


@pytest.fixture
def cut_store(url: str, people: People) -> Iterator[tuple[CuttingProxy, PostgresStore]]:
    """A store behind a proxy."""
    with (
        open_before(url, CuttingProxy) as (proxy, through),
        PostgresStore(through, OWNER, lease_s=LONG_S) as store,
    ):
        yield proxy, store


@pytest.mark.parametrize(
    "cuts",
    [
        ["question"],
        ["answer"],
        ["question", "answer"],
        ["answer", "answer"],
        ["answer", "question"],
    ],
    ids=" then ".join,
)
def test_an_append_without_an_answer_is_there_once(
    cuts: list[Cut], cut_store: tuple[CuttingProxy, PostgresStore]
) -> None:
    proxy, store = cut_store
    writing = Writing(store, "a key")
    writing.append("one")
    proxy.next = [*cuts]
    writing.append("two", "three")
    assert proxy.cuts == cuts
    writing.append("four")
    assert b"".join(store.read(writing.thread_id)) == writing.data


def test_an_append_without_an_answer_is_not_taken_for_that_of_another_one(
    url: str, cut_store: tuple[CuttingProxy, PostgresStore]
) -> None:
    proxy, store = cut_store
    writing = Writing(store)
    run_sql(url, "UPDATE writers SET lease_until = 0")
    with PostgresStore(url, OWNER, lease_s=LONG_S) as other:
        held = other.hold(writing.thread_id)
        data, head = writing.make_batch("theirs")
        held.append(data, writing.head.size)
        proxy.next = ["question", "answer"]
        with pytest.raises(StaleWriterError):
            writing.append("mine")
        assert b"".join(other.read(writing.thread_id)) == writing.data + data
        held.close()
        assert head.size == len(writing.data + data)


@pytest.mark.parametrize("what", ["question", "answer"])
def test_what_is_begun_or_held_without_an_answer_is_there_once(
    what: Cut, cut_store: tuple[CuttingProxy, PostgresStore]
) -> None:
    """Wherever the connection is cut in it: at the first thing that is said, the second, ..."""
    proxy, store = cut_store
    Writing(store).held.close()
    begun, nth, is_cut = 1, 0, True
    while is_cut:
        proxy.next, proxy.cuts = [""] * nth + [what], []
        writing = Writing(store, f"key {nth}")
        is_cut, proxy.next, nth, begun = what in proxy.cuts, [], nth + 1, begun + 1
        writing.append("one")
        assert store.find_key(f"key {nth - 1}") == writing.thread_id
        assert b"".join(store.read(writing.thread_id)) == writing.data
        assert len(store.ids()) == begun
    assert nth > 2
    nth, is_cut = 0, True
    while is_cut:
        proxy.next, proxy.cuts = [""] * nth + [what], []
        thread_id, data, _ = make_beginning()
        assert store.begin_unheld(thread_id, data, f"unheld {nth}")
        is_cut, proxy.next, nth, begun = what in proxy.cuts, [], nth + 1, begun + 1
        assert store.find_key(f"unheld {nth - 1}") == thread_id
        assert b"".join(store.read(thread_id)) == data
        assert len(store.ids()) == begun
    assert nth > 2
    proxy.next = [what]
    writing.held.close()
    nth, is_cut = 0, True
    while is_cut:
        proxy.next, proxy.cuts = [""] * nth + [what], []
        held = store.hold(writing.thread_id)
        is_cut, proxy.next, nth = what in proxy.cuts, [], nth + 1
        data, writing.head = writing.make_batch("two")
        held.append(data, len(writing.data))
        writing.data += data
        held.close()
        assert b"".join(store.read(writing.thread_id)) == writing.data
    assert nth > 1


def test_a_database_that_stays_away_is_told_with_the_next_step(
    url: str, people: People, postgres: Postgres
) -> None:
    with PostgresStore(url, OWNER, lease_s=LONG_S, patience_s=0.2) as store:
        writing = Writing(store)
        postgres.stop_immediately()
        try:
            with pytest.raises(StoreError, match="database") as found:
                writing.append("one")
            assert found.value.hint
            writing.held.close()
        finally:
            postgres.start()
        store._lease.renew()  # it frees what could not be freed
        with PostgresStore(url, OWNER, lease_s=LONG_S + 1) as other:
            other.hold(writing.thread_id).close()


@pytest.mark.parametrize("harm", ["cut", "stop", "kill"])
def test_a_database_that_comes_back_has_all_that_was_acknowledged_once(
    harm: str, url: str, people: People, postgres: Postgres
) -> None:
    name = url.partition("@/")[2].partition("?")[0]
    with PostgresStore(url, OWNER, lease_s=2.0) as store:
        writings = [Writing(store) for _ in range(3)]
        stop, faults = Event(), list[BaseException]()

        def work(writing: Writing) -> None:
            try:
                while not stop.is_set():
                    writing.append("more", "and more")
            except BaseException as error:  # noqa: BLE001  it is told below
                faults.append(error)

        working = [Thread(target=work, args=(writing,)) for writing in writings]
        for one in working:
            one.start()
        for _ in range(3):
            seen = [writing.head.seq for writing in writings]
            while any(
                writing.head.seq < least + 10 and not faults
                for writing, least in zip(writings, seen, strict=True)
            ):
                stop.wait(0.005)
            if harm == "cut":
                postgres.kill_backends(name)
            else:
                postgres.stop_immediately() if harm == "stop" else postgres.kill()
                postgres.start()
        stop.set()
        for one in working:
            one.join()
        assert faults == []
        for writing in writings:
            whole = b"".join(store.read(writing.thread_id))
            assert whole == writing.data
            assert scan_journal(whole).condition is JournalCondition.CLEAN
