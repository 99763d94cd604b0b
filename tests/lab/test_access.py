"""What it is good for that a call says what it may change: one that could only read runs again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from lab.approval_checks import list_doubts
from lab.checks import read_chain
from lab.features import FEATURES
from lab.model_disk import ModelDisk
from lab.planted import plant
from lab.script import journal_path, lab_store
from lab.suites import Recorder
from lab.world import World

FEATURE = FEATURES["round"]


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
