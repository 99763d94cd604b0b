"""Sending beside a session: it comes, it is never in the way, and it ends in time."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from core.samples import said
from store.shelf import CREATOR, Shelf, fill
from sync.desk import URL, USER, Desk, unreachable
from treadle.errors import NotLoggedInError
from treadle.store.local_store import LocalStore
from treadle.sync.background_sender import BackgroundSender
from treadle.sync.cursors import Cursors
from treadle.sync.engine import SyncEngine
from treadle.sync.send_queue import PendingSyncStore

WAIT_S = 60.0


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def engine(shelf: Shelf, desk: Desk) -> SyncEngine:
    disk = shelf.disk
    store = LocalStore(shelf.places, disk=disk, now=shelf.clock)
    return SyncEngine(
        store,
        desk.remote(),
        Cursors(disk, shelf.places, URL, USER),
        PendingSyncStore(disk, shelf.places),
        now=shelf.clock,
        random=lambda: 0.5,
        host="here",
    )


def test_what_a_session_records_arrives_while_it_is_open_and_when_it_ends(shelf: Shelf) -> None:
    desk = Desk()
    arrived, ended = threading.Event(), threading.Event()
    desk.after = lambda what, _: arrived.set() if what == "push" else None
    writer = shelf.store.create(CREATOR)
    sync = BackgroundSender(lambda: engine(shelf, desk), writer.thread_id, ended.set)
    fill(writer, (said("one"),))
    sync.notify_change()
    assert arrived.wait(WAIT_S)
    fill(writer, (said("two"),), (said("three"),))
    sync.notify_change()
    sync.notify_change()
    assert sync.close(WAIT_S)
    assert ended.is_set()
    writer.close()
    assert desk.kept[writer.thread_id].data == shelf.journal(writer.thread_id).read_bytes()
    sync.notify_change()
    assert sync.close(WAIT_S)


def test_who_was_never_poked_starts_nothing(shelf: Shelf) -> None:
    made: list[int] = []

    def make() -> SyncEngine:
        made.append(1)
        raise AssertionError

    assert BackgroundSender(make, shelf.next_id()).close(0.0)
    assert made == []


def test_a_server_that_hangs_is_waited_for_no_longer_than_was_said(shelf: Shelf) -> None:
    desk = Desk()
    asked, go_on = threading.Event(), threading.Event()

    def hang(_what: str, _thread: str) -> None:
        asked.set()
        go_on.wait()

    desk.before = hang
    thread = shelf.create((said("one"),))
    sync = BackgroundSender(lambda: engine(shelf, desk), thread)
    sync.notify_change()
    assert asked.wait(WAIT_S)
    assert not sync.close(0.01)
    go_on.set()
    assert sync.close(WAIT_S)


@pytest.mark.parametrize("error", [NotLoggedInError("who?"), ZeroDivisionError("a bug")])
def test_no_trouble_reaches_the_session(shelf: Shelf, error: Exception) -> None:
    desk = Desk()

    def fail(_what: str, _thread: str) -> None:
        raise error

    desk.before = fail
    sync = BackgroundSender(lambda: engine(shelf, desk), shelf.create((said("one"),)))
    sync.notify_change()
    assert not sync.close(WAIT_S)
    told = sync.problem or (sync.report is not None and sync.report.waiting[0].why)
    assert str(error) in str(told)


def test_what_could_not_be_sent_is_told_and_noted(shelf: Shelf) -> None:
    desk = Desk()
    desk.before = unreachable
    thread = shelf.create((said("one"),))
    sync = BackgroundSender(lambda: engine(shelf, desk), thread)
    sync.notify_change()
    assert not sync.close(WAIT_S)
    assert sync.report is not None
    assert sync.report.unreachable == "no network"
    assert list(PendingSyncStore(shelf.disk, shelf.places).entries()) == [thread]
