"""Killed, or cut off from power, at any call to the disk: nothing is lost, and again ends it.

The server stays as it is: it is told the same again, as by a client whose answer was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy

import pytest

from core.samples import answer, said
from lab.model_disk import ModelDisk
from sync.desk import Desk, Machine
from treadle.errors import PrivateThreadError
from treadle.store.send_lock import set_private
from treadle.store.upkeep.scrub import scrub
from treadle.store.upkeep.trash import Trash
from treadle.sync.shareable_thread import open_shareable
from treadle.thread.branches import collect_record_ids
from treadle.thread.record import JournalCondition, scan_journal

TALK = ((said("one"),), (answer("first"),))
STATE_COUNT_MAX = 3
"""States looked at after each power cut; the oldest and the newest are among them."""


def crashes(
    machine: Machine, desk: Desk, act: Callable[[], object]
) -> Iterator[tuple[str, Machine, Desk]]:
    """The machine as it may be found after any change of its disk, and the server of that time."""
    found: list[tuple[str, ModelDisk, Desk]] = []

    def cut(operation: str, path: str) -> None:
        where = f"after {operation} of {path} ({len(found)})"
        server = Desk()
        server.kept, server.change = deepcopy(desk.kept), desk.change
        server.stamps = dict(desk.stamps)
        found.append((f"killed {where}", machine.disk.after_kill(), server))
        if "/state/" in path:
            return
        states = machine.disk.crash_states(STATE_COUNT_MAX, seed=len(found))
        found.extend((f"power cut {where}", state, server) for state in states)

    machine.disk.on_change = cut
    try:
        act()
    finally:
        machine.disk.on_change = None
    assert len(found) > 10
    for where, disk, server in found:
        copy = Desk()
        copy.kept, copy.change = deepcopy(server.kept), server.change
        copy.stamps = dict(server.stamps)
        yield where, Machine(copy.remote(), machine.number, disk), copy


def diverged() -> tuple[Desk, Machine, str, set[str]]:
    desk = Desk()
    one, two = Machine(desk.remote(), 1), Machine(desk.remote(), 2)
    thread = one.begin(*TALK)
    one.engine.sync()
    two.engine.sync()
    one.go_on(thread, (said("mine"),), (answer("yes"),))
    one.engine.sync()
    two.go_on(thread, (said("other"),), (answer("no"),))
    return desk, two, thread, two.hashes(thread)


@pytest.mark.parametrize("how", ["merge", "fork"])
def test_two_branches_are_brought_together_whatever_happens_on_the_way(how: str) -> None:
    desk, machine, thread, hashes = diverged()
    act = lambda: machine.engine.sync(on_conflict=how)  # type: ignore[arg-type]  # noqa: E731
    count = 0
    for where, left, server in crashes(machine, desk, act):
        count += 1
        branches = [left.journal(thread), *_kept(left)]
        assert any(hashes <= _all(data) for data in branches), where
        left.store.open(thread).close()
        left.engine.sync(on_conflict=how)  # type: ignore[arg-type]
        assert left.engine.sync().is_complete, where
        assert server.kept[thread].data == left.journal(thread), where
        said_there = [left.said(one) for one in server.kept]
        assert len(server.kept) == (1 if how == "merge" else 2), where
        assert sorted(map(len, said_there)) == ([6] if how == "merge" else [4, 4]), where
        assert any(hashes <= _all(data) for data in _kept(left)), where
    assert count > 50, "there is little to be cut"


def _kept(machine: Machine) -> list[bytes]:
    return [data for path, data in machine.disk.files().items() if "/branches/T-" in path]


def _all(data: bytes) -> set[str]:
    return collect_record_ids(scan_journal(data).records)


def test_what_another_machine_did_is_taken_in_whatever_happens_on_the_way() -> None:
    desk = Desk()
    one, two = Machine(desk.remote(), 1), Machine(desk.remote(), 2)
    thread = one.begin(*TALK)
    one.engine.sync()
    two.engine.sync()
    one.go_on(thread, (said("a"),), (answer("b"),), (said("c"),))
    other = one.begin(*TALK)
    Trash(one.store).put([thread])
    one.engine.sync()
    before = two.journal(thread)
    whole = one.journal(thread)
    for where, left, _ in crashes(two, desk, two.engine.sync):
        found = scan_journal(left.journal(thread))
        assert found.condition is not JournalCondition.CORRUPT, where
        assert whole.startswith(left.journal(thread)[: found.head.size]), where
        assert found.head.size >= len(before), where
        left.engine.sync()
        assert left.journal(thread) == whole, where
        assert left.journal(other) == one.journal(other), where
        assert Trash(left.store).ids() == [thread], where
        assert left.store.adopted.is_foreign(other), where
        assert left.engine.sync().sent == (), where


def test_what_is_sent_is_sent_whole_and_once_whatever_happens_on_the_way() -> None:
    desk = Desk()
    one = Machine(desk.remote(), 1)
    thread = one.begin(*TALK)
    whole = one.journal(thread)
    for where, left, server in crashes(one, desk, one.engine.sync):
        left.engine.sync()
        assert server.kept[thread].data == left.journal(thread) == whole, where
        assert left.pending.entries() == {}, where


def test_a_thread_that_is_private_on_disk_never_leaves_whatever_happens_on_the_way() -> None:
    desk = Desk()
    one = Machine(desk.remote(), 1)
    thread = one.begin(*TALK)
    one.engine.sync()

    def act() -> None:
        set_private(one.store, thread)
        one.engine.sync()

    seen = set()
    for where, left, server in crashes(one, desk, act):
        is_private = left.store.load(thread).fold.is_private
        seen.add(is_private)
        if not is_private:
            continue
        with pytest.raises(PrivateThreadError), open_shareable(left.store, thread):
            pytest.fail(where)
        left.engine.sync()
        assert server.kept[thread].data == b"", where
        assert left.cursors.get(thread) is None, where
        assert left.pending.entries() == {}, where
        left.engine.sync()
        assert not any(call.startswith("push") for call in server.calls), where
    assert seen == {False, True}


def test_a_scrub_gets_to_the_server_whatever_happens_on_the_way() -> None:
    desk = Desk()
    one, two = Machine(desk.remote(), 1), Machine(desk.remote(), 2)
    thread = one.begin((said("the word is hunter2"),), (answer("I see"),))
    one.engine.sync()
    two.engine.sync()
    two.go_on(thread, (said("later"),))
    two.engine.sync()
    scrub(one.store, [thread], lambda text: text.replace("hunter2", "[REDACTED:x]"))
    for where, left, server in crashes(one, desk, one.engine.sync):
        left.engine.sync()
        assert b"hunter2" not in server.kept[thread].data, where
        assert left.journal(thread) == server.kept[thread].data, where
        assert left.said(thread) == ["the word is [REDACTED:x]", "I see", "later"], where
