"""What a call may change decides what becomes of it when its process dies while it runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any
from unittest.mock import patch

from lab.agent import ACCESS
from lab.approval_checks import list_doubts
from lab.checks import check_end, read_chain
from lab.features import FEATURES, PLANNING
from lab.model_disk import ModelDisk
from lab.planted import plant
from lab.script import Desk, journal_path, lab_store
from lab.suites import Recorder
from lab.world import Begun, World
from treadle.core.tools import Access
from treadle.store.local_store import LocalStore

FEATURE = FEATURES["round"]
Work = Callable[[LocalStore, World], Coroutine[Any, Any, None]]


def count_uncertain_calls(bug: str = "") -> tuple[int, Counter[str]]:
    """Kills, one at each change of the disk and in each effect; calls told as uncertain, by tool.

    After each the next process takes up what was left.
    """
    disk, world, told = ModelDisk(), World(), Counter[str]()
    recorder = Recorder(disk, world)
    with plant(bug):
        asyncio.run(FEATURE.play(lab_store(disk), world))
        for cut in recorder.cuts:
            left = World(world.notes[: cut.note_count])
            store = lab_store(cut.disk, first_id=1_000)
            asyncio.run(FEATURE.recover(store, left))
            for thread in store.ids():
                records, _ = read_chain(cut.disk.read(journal_path(thread)))
                doubts = dict(list_doubts(record.event for record in records))
                told.update(name for names in doubts.values() for name in names)
    return len(recorder.cuts), told


def kill_in_effect(call: str, disk: ModelDisk, world: World, work: Work) -> tuple[ModelDisk, World]:
    """Do the work up to the effect of this call; what is left then."""
    recorder = Recorder(disk, world)
    asyncio.run(work(lab_store(disk, first_id=1 + 1_000 * len(world.notes)), world))
    cut = next(cut for cut in recorder.cuts if call in cut.after)
    return cut.disk, World(world.notes[: cut.note_count])


def list_violations(disk: ModelDisk, world: World) -> list[str]:
    return check_end(disk, lab_store(disk), world.notes)


def test_a_call_that_could_only_read_and_may_write_now_is_uncertain_after_another_crash() -> None:
    left, world = kill_in_effect("c7-0", ModelDisk(), World(), FEATURE.play)
    with patch.dict(ACCESS, {"peek": Access.WRITE}):
        left, world = kill_in_effect("c7-0", left, world, FEATURE.recover)
        asyncio.run(FEATURE.recover(lab_store(left, first_id=90_000), world))
        runs = [note for note in world.notes if isinstance(note, Begun) and note.call == "c7-0"]
        assert len(runs) == 2  # once as one that could only read, once as one that may write


def test_of_a_call_that_had_begun_nobody_is_told_that_it_did_not_run() -> None:
    async def play(store: LocalStore, world: World) -> None:
        async with Desk(store.create("lab 1"), world) as desk:
            await desk.turn("idem; say done")

    async def plan(store: LocalStore, world: World) -> None:
        [thread] = store.ids()
        async with Desk(store.open(thread), world, config=PLANNING) as desk:
            await desk.resume()

    left, world = kill_in_effect("c1-0", ModelDisk(), World(), play)
    asyncio.run(plan(lab_store(left, first_id=2), world))
    assert list_violations(left, world) == []


def test_a_call_that_could_only_read_is_never_told_as_uncertain(
    record_property: Callable[[str, object], None],
) -> None:
    kills, told = count_uncertain_calls()
    kills_before, told_before = count_uncertain_calls("reading call told as uncertain")
    line = (
        f"calls told as uncertain after {kills} kills: {told.total()} {dict(told)}; without the "
        f"access of calls: {told_before.total()} {dict(told_before)}"
    )
    print(line)  # noqa: T201  shown when the test fails, or with -rP
    record_property("lab", line)
    assert kills == kills_before
    assert told["peek"] == 0
    assert told_before["peek"] > 0
    assert {**told_before, "peek": 0} == {**told, "peek": 0}  # nothing else is told less
