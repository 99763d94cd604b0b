"""One thread's trouble is no other's, costs little, and is tried again if it can pass."""

from __future__ import annotations

from collections import Counter

import pytest

from core.samples import said
from store.shelf import CREATOR
from sync.desk import Desk, Machine
from sync.test_engine import TALK, machines, pair
from treadle.errors import RemoteBrokenError, RemoteRefusedError, StorageBusyError
from treadle.store.folders import StoreFolders
from treadle.store.local_store import LocalStore
from treadle.store.send_lock import hold_send_lock
from treadle.sync.sync_round import BROKEN_ANSWERS_MAX
from treadle.thread.facts import Annotated


@pytest.fixture
def desk() -> Desk:
    return Desk()


def failing(desk: Desk, threads: list[str], error: Exception) -> None:
    def fail(_what: str, thread_id: str) -> None:
        if thread_id in threads:
            raise error

    desk.before = fail


@pytest.mark.parametrize("error", [RemoteBrokenError("it broke off"), KeyError("a fault")])
def test_a_failure_about_one_thread_does_not_end_the_round(desk: Desk, error: Exception) -> None:
    one, two = machines(desk)
    bad, good = one.begin(*TALK), one.begin(*TALK)
    failing(desk, [bad], error)
    report = one.engine.sync()
    assert (report.sent, report.unreachable) == ((good,), "")
    assert [problem.thread_id for problem in report.waiting] == [bad]
    assert one.pending.entries()[bad].retry_count == 1
    desk.before = lambda _what, _thread: None
    assert one.engine.sync(is_wanted=False).sent == (bad,)
    failing(desk, [bad], error)
    assert two.engine.sync().received == (good,)
    desk.before = lambda _what, _thread: None
    assert two.engine.sync(is_wanted=False).received == (bad,)


def test_a_server_that_always_breaks_off_is_not_asked_for_every_thread(desk: Desk) -> None:
    one, _ = machines(desk)
    threads = [one.begin(*TALK) for _ in range(BROKEN_ANSWERS_MAX + 3)]
    failing(desk, threads, RemoteBrokenError("it broke off"))
    assert one.engine.sync().unreachable == "it broke off"
    assert len(desk.calls) == 1 + BROKEN_ANSWERS_MAX + 1


def test_what_was_busy_when_it_was_fetched_is_fetched_later_and_what_was_refused_is_not(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = machines(desk)
    busy, refused = one.begin(*TALK), one.begin(*TALK)
    one.engine.sync()
    failing(desk, [refused], RemoteRefusedError("no"))
    with monkeypatch.context() as patch:

        def hold(*_: object, **__: object) -> str:
            raise StorageBusyError("another process moves threads")

        patch.setattr(LocalStore, "adopt", hold)
        report = two.engine.sync(is_wanted=False)
    assert [problem.thread_id for problem in report.waiting] == [busy]
    assert [problem.thread_id for problem in report.refused] == [refused]
    desk.before = lambda _what, _thread: None
    assert two.engine.sync(is_wanted=False).received == (busy,)
    assert two.engine.sync().received == (refused,)


def test_that_somebody_else_sends_it_is_no_failure(desk: Desk) -> None:
    one, _ = machines(desk)
    thread = one.begin(*TALK)
    with hold_send_lock(one.store.folders, thread):
        report = one.engine.sync()
    assert [problem.thread_id for problem in report.waiting] == [thread]
    entry = one.pending.entries()[thread]
    assert (entry.retry_count, entry.last_error) == (0, "")


def test_two_sub_agents_of_one_thread_are_sent_at_the_same_time(desk: Desk) -> None:
    one, _, thread = pair(desk)
    children = []
    for place in range(2):
        child = one.store.create(CREATOR, parent=(thread, f"c{place}", 1))
        child.close()
        children.append(child.thread_id)
    reports = []

    def meanwhile(_what: str, thread_id: str) -> None:
        if thread_id == children[0]:
            desk.before = lambda _what, _thread: None
            reports.append(one.engine.send(children[1]))

    desk.before = meanwhile
    assert one.engine.send(children[0]).sent == (children[0],)
    assert [report.sent for report in reports] == [(children[1],)]


def counted(machine: Machine, name: str, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the disk is asked for something, by the file's name."""
    counts: Counter[str] = Counter()
    method = getattr(machine.disk, name)

    def count(path: str, *arguments: object) -> object:
        counts[path.rpartition("/")[2]] += 1
        return method(path, *arguments)

    monkeypatch.setattr(machine.disk, name, count)
    return counts


def test_what_was_refused_is_noted_at_once_however_many_they_are(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = machines(desk)
    threads = [one.begin((said("hello"),)) for _ in range(6)]
    failing(desk, threads, RemoteRefusedError("no"))
    reads = counted(one, "read_range", monkeypatch)
    assert len(one.engine.sync().refused) == 6
    assert {entry.retry_count for entry in one.pending.entries().values()} == {1}
    assert reads["pending.json"] < 10


def test_a_sync_with_nothing_to_do_lists_the_folders_as_often_for_many_as_for_few(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = machines(desk)
    asked: list[int] = []
    ids = StoreFolders.ids

    def listed(self: StoreFolders, *arguments: bool, **how: bool) -> list[str]:
        asked[-1] += 1
        return ids(self, *arguments, **how)

    monkeypatch.setattr(StoreFolders, "ids", listed)
    for _ in range(3):
        one.begin(*TALK)
        asked.append(0)
        one.engine.sync()
        asked[-1] = 0
        one.engine.sync()
    assert len({*asked}) == 1


def test_a_first_push_reads_the_whole_journal_three_times(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To see where it ends, to see what is durable, and to send it."""
    one, _ = machines(desk)
    thread = one.begin(*TALK, *((Annotated("x" * 200),) for _ in range(20)))
    size = len(one.journal(thread))
    sizes: list[int] = []
    read = one.disk.read_range

    def measured(path: str, offset: int, length: int) -> bytes:
        if path.endswith(".jsonl") and length > size // 2:
            sizes.append(length)
        return read(path, offset, length)

    monkeypatch.setattr(one.disk, "read_range", measured)
    assert one.engine.send(thread).sent == (thread,)
    assert sizes == [size] * 3


def test_a_merge_that_is_redone_before_it_was_sent_is_told_once(desk: Desk) -> None:
    one, two, thread = pair(desk)
    for number in range(2):
        one.go_on(thread, (Annotated(f"there {number}"),))
        one.engine.sync()
    two.go_on(thread, (said("here"),))

    def go_on(what: str, _thread: str) -> None:
        if what == "push" and len(two.engine.status().conflicts) == 1 and not one_more:
            one_more.append(0)
            one.go_on(thread, (Annotated("meanwhile"),))
            one.engine.sync()

    one_more: list[int] = []
    desk.before = go_on
    [conflict] = two.engine.sync().conflicts
    assert one_more
    assert two.engine.status().conflicts == (conflict,)
    branch = two.disk.read(conflict.kept)
    assert b"here" in branch
    assert b'"merged"' not in branch
    one.engine.sync()
    one.go_on(thread, (Annotated("one more"),))
    two.go_on(thread, (Annotated("another"),))
    one.engine.sync()
    assert len(two.engine.sync().conflicts) == 1
    assert len(two.engine.status().conflicts) == 2  # what was sent in between is another one
