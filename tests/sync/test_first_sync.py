"""A new machine fetches many threads at a time, and is killed again and again meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import count
from pathlib import Path
from random import Random
from threading import Barrier, Event, get_ident
from typing import Any, Final

import pytest

from core.samples import CONFIG, answer, said
from server.databases import Templates, new_folder
from server.serving import Served
from sync.desk import Desk, Machine
from sync.engines import USER, engine_of
from treadle.errors import RemoteUnavailableError
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.store.upkeep.trash import Trash
from treadle.sync.client import HttpRemote
from treadle.sync.context import SyncReport
from treadle.sync.credentials import Account
from treadle.sync.cursors import Cursors
from treadle.sync.read_ahead import RESULTS_AHEAD_MAX, ReadAhead
from treadle.sync.send_queue import PendingSyncStore
from treadle.thread.facts import Configured
from treadle.thread.record import scan_journal

TESTS: Final = Path(__file__).parent.parent
THREAD_COUNT: Final = 50
FORK_COUNT: Final = 7
"""They come right after what they go on from, so that all are fetched at the same time."""
TRASHED_EVERY: Final = 10

LAST_CALLS: Final = (200, 340, 480, 483, 650, 800)
"""In which call to its disk a life of the new machine ends; it makes some 300 before it fetches."""


@pytest.fixture
def place() -> Iterator[tuple[Templates, Path]]:
    templates, folder = Templates(), new_folder()
    yield templates, folder
    templates.close()
    shutil.rmtree(folder, ignore_errors=True)


def store_in(home: Path) -> LocalStore:
    return LocalStore(Places(home / "data", home / "state", home / "config"))


def plant(store: LocalStore, send: Callable[[], SyncReport]) -> dict[str, bytes]:
    """Threads, several forks of one among them, and some in the trash; and their journals."""
    base, trashed = "", list[str]()
    for number in range(THREAD_COUNT):
        first = (Configured(CONFIG, "scripted"),)
        is_fork = 0 < number <= FORK_COUNT
        writer = (
            store.fork(base, creator="program")
            if is_fork
            else store.create("program", workspace="/w", first=first)
        )
        base = base or writer.thread_id
        for entry in (said(f"question {number}"), answer(f"answer {number}")):
            writer.stage(entry)
            writer.commit()
        writer.close()
        if number % TRASHED_EVERY == 1:
            trashed.append(writer.thread_id)
    assert send().is_complete
    Trash(store).put(trashed)
    assert send().is_complete
    return journals(store)


def journals(store: LocalStore) -> dict[str, bytes]:
    ids = [*store.ids(), *store.folders.ids(in_trash=True)]
    return {one: Path(store.folders.find(one)[0]).read_bytes() for one in ids}


def live(home: Path, served: Served, last_call: int = 0) -> str:
    """A life of the new machine; what it said at its end."""
    ended = subprocess.run(
        [
            *(sys.executable, str(TESTS / "sync" / "first_sync_program.py")),
            *(str(home), served.url, served.owner_token(), str(last_call)),
        ],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == (-signal.SIGKILL if last_call else 0)
    return ended.stdout


@pytest.mark.timeout(300)
def test_a_first_sync_that_is_killed_again_and_again_loses_nothing_and_goes_on(
    place: tuple[Templates, Path],
) -> None:
    templates, folder = place
    served = Served(templates.copy("sqlite", folder), folder / "server", "--rate", "0").start()
    try:
        one = store_in(folder / "one")
        with HttpRemote(Account(url=served.url, token=served.owner_token())) as remote:
            there = plant(one, engine_of(one, remote, Random(1)).sync)
        home = folder / "two"
        two = store_in(home)
        cursors = Cursors(two.folders.disk, two.places, served.url, USER)
        here: set[str] = set()
        for last_call in LAST_CALLS:
            live(home, served, last_call)
            found = journals(two)
            assert here <= set(found), "what had come is there still"
            here = set(found)
            for thread, data in found.items():
                assert data == there[thread], "a thread comes whole, or not at all"
                assert two.adopted.is_foreign(thread), "what was allowed elsewhere would count here"
                two.load(thread)
            for thread in cursors.ids():
                cursor = cursors.get(thread)
                assert cursor is not None
                assert thread in found, "a cursor may not say of what is missing that it is here"
                assert cursor.hash == scan_journal(found[thread]).head.hash
            assert not PendingSyncStore(two.folders.disk, two.places).state().change, (
                "what the server said of threads that are not here yet would not be asked again"
            )
        assert 0 < len(here) < THREAD_COUNT, "it was killed in the middle"
        received_count, is_complete = live(home, served).split()
        assert is_complete == "True"
        assert int(received_count) >= THREAD_COUNT - len(here)
        assert journals(two) == there
        assert two.folders.ids(in_trash=True) == one.folders.ids(in_trash=True)
        assert sorted(cursors.ids()) == sorted(there)
        assert live(home, served) == "0 True", "nothing is fetched twice"
        assert live(folder / "three", served) == f"{THREAD_COUNT} True", "at one go, every fork too"
    finally:
        served.kill()


def test_several_forks_take_in_at_the_same_time_what_they_go_on_from(tmp_path: Path) -> None:
    desk = Desk()
    one = Machine(desk.remote())
    base = one.begin((said("one"),), (answer("first"),))
    for _ in range(3):
        one.store.fork(base, creator="program").close()
    assert one.engine.sync().is_complete
    asked = Barrier(4)  # nobody has it before everybody has asked for it

    def wait_for_all(what: str, thread_id: str) -> None:
        if (what, thread_id) == ("records", base):
            asked.wait(30)

    desk.after = wait_for_all
    two = store_in(tmp_path)
    report = engine_of(two, desk.remote(), Random(1), fetches_at_a_time=4).sync()
    assert (sorted(report.received), report.waiting) == (sorted(two.ids()), ())
    assert journals(two) == {thread: kept.data for thread, kept in desk.kept.items()}


def test_results_come_in_order_and_several_jobs_are_under_way() -> None:
    workers: set[int] = set()
    both = [Event(), Event()]
    begun = count(1)
    names = [str(number) for number in range(50)]

    def job(name: str) -> str:
        workers.add(get_ident())
        next(begun)
        if name in "01":  # each ends only if the other one has begun
            both[int(name)].set()
            assert both[1 - int(name)].wait(30)
        if name == "7":
            raise KeyError(name)
        return sha256(name.encode()).hexdigest()

    with ReadAhead(job, names, 3) as ahead:
        assert not workers, "nothing begins before it is asked for"
        for name in names:
            if name == "7":
                with pytest.raises(KeyError):
                    ahead.get_result(name)
            else:
                assert ahead.get_result(name) == job(name)
            ahead.wait_for_jobs()
    assert 2 <= len(workers - {get_ident()}) <= 3


def test_no_more_is_begun_after_a_failure_and_what_has_begun_ends_first() -> None:
    done: list[str] = []

    def job(name: str) -> None:
        if name == "0":
            raise RemoteUnavailableError("away")
        done.append(name)

    with pytest.raises(RemoteUnavailableError), ReadAhead(job, map(str, range(999)), 2) as ahead:
        ahead.get_result("0")
    ended = len(done)
    assert ended < 2 * RESULTS_AHEAD_MAX
    assert len(done) == ended


def test_a_server_that_asks_for_a_moment_gets_it() -> None:
    tries: dict[str, int] = {}

    def job(name: str) -> Any:
        tries[name] = tries.get(name, 0) + 1
        if tries[name] < 3:
            raise RemoteUnavailableError("too many requests", retry_after_s=0.0)
        if name == "long":
            raise RemoteUnavailableError("closed for the night", retry_after_s=3600.0)
        return name

    with ReadAhead(job, ["a", "b", "long"], 2) as ahead:
        assert (ahead.get_result("a"), ahead.get_result("b")) == ("a", "b")
        with pytest.raises(RemoteUnavailableError, match="night"):
            ahead.get_result("long")
    assert tries == {"a": 3, "b": 3, "long": 3}
