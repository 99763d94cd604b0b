"""A move to the trash that was cut leaves a thread with two names; a sync leaves it with one."""

from __future__ import annotations

import pytest

from core.samples import answer, said
from lab.model_disk import ModelDisk
from sync.desk import Desk, Machine
from sync.test_engine import pair
from treadle.store.upkeep.scrub import scrub
from treadle.store.upkeep.trash import Trash
from treadle.thread.facts import Annotated


def stopped_anywhere(machine: Machine, thread: str, *, takes_back: bool) -> list[ModelDisk]:
    """The disk as it is found when the process that moves a thread dies, at every call."""
    found: list[ModelDisk] = []
    machine.disk.on_change = lambda _what, _path: found.append(machine.disk.after_kill())
    move = Trash(machine.store).restore if takes_back else Trash(machine.store).put
    move([thread])
    machine.disk.on_change = None
    assert any(len(names(disk, thread)) == 2 for disk in found)
    return found


def names(disk: ModelDisk, thread: str) -> list[str]:
    return [path for path in disk.files() if path.endswith(f"/{thread}.jsonl")]


def merge_with(desk: Desk, one: Machine, thread: str) -> None:
    one.go_on(thread, (said("mine"),), (answer("yes"),))


def many_writes(desk: Desk, one: Machine, thread: str) -> None:
    one.go_on(thread, *((Annotated(f"note {number}"),) for number in range(40)))


def take_out(desk: Desk, one: Machine, thread: str) -> None:
    scrub(one.store, [thread], lambda text: text.replace("first", "[REDACTED:x]"))


@pytest.mark.parametrize("what", [merge_with, many_writes, take_out])
@pytest.mark.parametrize("takes_back", [False, True])
def test_a_thread_has_one_name_after_a_sync_has_replaced_it(what, takes_back: bool) -> None:  # type: ignore[no-untyped-def]
    desk = Desk()
    one, two, thread = pair(desk)
    if takes_back:
        Trash(two.store).put([thread])
        two.engine.sync()
        one.engine.sync()
        Trash(one.store).restore([thread])
        one.engine.sync()
        two.engine.sync()
        Trash(two.store).put([thread])
    what(desk, one, thread)
    one.engine.sync()
    for disk in stopped_anywhere(two, thread, takes_back=takes_back):
        left = Machine(_copy(desk).remote(), 2, disk)
        left.engine.sync()
        with Trash(left.store).hold_lock():
            Trash(left.store).finish_moves()
        left.engine.sync()
        assert len(names(left.disk, thread)) == 1
        path, in_trash = left.store.folders.find(thread)
        assert in_trash == left.store.load(thread).fold.is_trashed, path
        left.store.open_including_trash(thread).close()


def _copy(desk: Desk) -> Desk:
    from copy import deepcopy

    found = Desk()
    found.kept, found.change = deepcopy(desk.kept), desk.change
    found.stamps = dict(desk.stamps)
    return found
