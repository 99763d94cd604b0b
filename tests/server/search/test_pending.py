"""Texts are taken in behind the pushes: in order, once, in time, and none of what was scrubbed."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock
from typing import Any

import pytest
from sqlalchemy import Connection, select, text

from core.samples import answer, said
from server.chains import Chain, chain, index_all, push, send, thread_id
from server.databases import Templates
from server.people import People, populate
from server.running import PATIENCE_S, Running
from server.serving import Served
from treadle.server import search
from treadle.server.data.database import Database
from treadle.server.search import pending_texts
from treadle.server.search.text_index import search_texts
from treadle.server.threads import threads
from treadle.thread.facts import Scrubbed
from treadle.thread.record import scan_journal

SECRET = "zyzzyva"


@pytest.fixture
def of_postgresql(templates: Templates, tmp_path: Path) -> Iterator[People]:
    """People of PostgreSQL: SQLite has one writer at a time."""
    url = templates.copy("postgresql", tmp_path)
    database = Database(url)
    yield populate(database)
    database.dispose()
    templates.remove(url)


def journal(number: int = 1, *words: str) -> Chain:
    return chain(number, [(said(word), answer(f"{word}s are well")) for word in words])


def rows(people: People) -> list[Any]:
    """What the search keeps, in the order of its ids."""
    with people.database.read() as db:
        columns = (
            search_texts.c.thread_id,
            search_texts.c.place,
            search_texts.c.kind,
            search_texts.c.text,
        )
        return [tuple(row) for row in db.execute(select(*columns).order_by(search_texts.c.id))]


def hits(people: People, query: str) -> list[str]:
    with people.reading() as context:
        return [hit.thread.summary.id for hit in search.search_threads(context, query).hits]


def scrubbed(one: Chain) -> Chain:
    first = one.upto(1)
    return first.more((said("nothing"),), (Scrubbed(2, one.head.hash),))


def test_what_is_taken_in_later_is_what_would_have_been_with_the_push(people: People) -> None:
    made = [journal(number, "rose", "tulip", "aster") for number in range(3)]
    for end in range(3, made[0].head.seq + 1):
        for one in made:
            before = one.upto(end - 1) if end > 3 else None
            send(people, one.upto(end), *([] if before is None else [before.mark]))
    assert rows(people) == []
    index_all(people.database)
    later = rows(people)
    for one in made:
        own = [row for row in later if row[0] == one.thread]
        with people.database.write() as db:
            search.erase_texts(db, one.thread)
            search.index_records(db, one.thread, scan_journal(one.data).records)
        assert own == [row for row in rows(people) if row[0] == one.thread] != []
    assert index_all(people.database) == 0


def test_a_long_push_is_taken_in_by_pieces(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"flower{number}" for number in range(12)]
    one = journal(1, *words)
    send(people, one)
    monkeypatch.setattr(pending_texts, "SIZE_MAX", len(one.data) // 5)
    assert index_all(people.database) > 4
    send(people, journal(2, *words).upto(9))
    send(people, journal(2, *words), journal(2, *words).upto(9).mark)
    assert index_all(people.database) > 4
    with people.database.write() as db:
        search.erase_texts(db, thread_id(2))
    assert [hits(people, word) for word in words] == [[one.thread]] * len(words)
    places = [row[1] for row in rows(people)]
    assert places == sorted(set(places))


def test_who_finds_another_at_work_takes_what_is_free_and_keeps_the_order(
    of_postgresql: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = of_postgresql
    monkeypatch.setattr(pending_texts, "ROW_COUNT", 1)
    one, other = journal(1, "rose", "tulip"), journal(2, "aster")
    send(people, one.upto(3))
    send(people, one, one.upto(3).mark)
    send(people, other)
    with people.database.write() as first:
        assert search.index_oldest_pending(first)
        monkeypatch.setattr(pending_texts, "ROW_COUNT", 10)
        assert people.database.run(search.index_oldest_pending, is_write=True)
        assert not people.database.run(search.index_oldest_pending, is_write=True)
        assert {row[0] for row in rows(people)} == {other.thread}
    index_all(people.database)
    places = [row[1] for row in rows(people) if row[0] == one.thread]
    assert places == sorted(places)
    assert hits(people, "tulip") == [one.thread]


def test_a_scrub_takes_with_it_what_is_just_being_taken_in(of_postgresql: People) -> None:
    people = of_postgresql
    one = journal(1, SECRET)
    send(people, one)

    def replace() -> None:
        with people.writing() as context:
            threads.replace_records(context, one.thread, one.mark, scrubbed(one).data)

    with ThreadPoolExecutor(1) as pool:
        with people.database.write() as taking:
            assert search.index_oldest_pending(taking)
            done = pool.submit(replace)
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            while not done.done():
                with people.database.read() as db:
                    if db.execute(text(waits)).scalar_one():
                        break
            assert not done.done()
        done.result(PATIENCE_S)
    index_all(people.database)
    assert SECRET not in str(rows(people))
    assert hits(people, SECRET) == []


@pytest.mark.parametrize("how", ["scrub", "purge"])
def test_of_what_was_taken_away_nothing_is_taken_in(people: People, how: str) -> None:
    one = journal(1, SECRET)
    send(people, one)
    with people.writing() as context:
        if how == "scrub":
            threads.replace_records(context, one.thread, one.mark, scrubbed(one).data)
        else:
            threads.purge_thread(context, one.thread)
    index_all(people.database)
    assert SECRET not in str(rows(people))
    assert len(rows(people)) == len({*rows(people)})
    if how == "scrub":
        assert hits(people, "nothing") == [one.thread]
    else:
        push(people, journal(1, "rose"))
        assert hits(people, "rose") == [one.thread]


def test_a_search_finds_what_was_pushed_before_it_and_a_failed_step_stops_none(
    people: People, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = people.token("owner")
    index_step, at_work, broken = search.index_oldest_pending, Lock(), Event()

    def work_or_fail(db: Connection) -> bool:
        with at_work:
            if broken.is_set():
                raise RuntimeError("a fault")
            return index_step(db)

    monkeypatch.setattr(search, "index_oldest_pending", work_or_fail)
    with Running(database_url, rate=0) as server:

        def found(query: str) -> tuple[int, list[str]]:
            reply = server.ask("GET", f"/api/threads/search?q={query}", token)
            return reply.status, [hit["thread"]["summary"]["id"] for hit in reply.json["hits"]]

        for number, word in enumerate(("rose", "tulip", "aster")):
            send(people, journal(number, word))
            assert found(word) == (200, [thread_id(number)])

        with at_work:  # no step that began before is still reading
            broken.set()
        send(people, journal(7, "daisy"))
        assert found("daisy") == (200, [])
        assert found("rose") == (200, [thread_id(0)])
        broken.clear()
        assert found("daisy") == (200, [thread_id(7)])


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_what_a_server_that_was_killed_has_left_the_next_one_takes_in(
    dialect: str, templates: Templates, tmp_path: Path
) -> None:
    url = templates.copy(dialect, tmp_path)
    database = Database(url)
    people = populate(database)
    served = Served(url, tmp_path / "home").start()
    send(people, journal(1, "rose"))  # as a process does that dies right after it
    served.end(signal.SIGKILL)
    assert rows(people) == []
    served = Served(url, tmp_path / "home").start()
    until_s = time.monotonic() + PATIENCE_S
    while not rows(people):
        assert time.monotonic() < until_s
    served.end()
    assert hits(people, "rose") == [thread_id(1)]
    database.dispose()
    templates.remove(url)
