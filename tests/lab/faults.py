"""The suites in which calls fail: each call, once or for good, alone or with a crash after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random

from lab.checks import check_end
from lab.faulty_disk import CAN_FAIL, PARTS, Fault, FaultyDisk
from lab.model_disk import ModelDisk
from lab.script import lab_store, play, recover, small_snapshots
from lab.suites import Examiner, Recorder, Report
from lab.world import World
from treadle.errors import StoreError, TreadleError
from treadle.store.local_store import LocalStore

Work = Callable[[LocalStore, World], Coroutine[None, None, None]]
PART_KEPT = (None, 0.5, 1.0)
"""What a disk holds of contents whose sync failed: nothing, half, all."""


def all_faults() -> list[Fault]:
    """Every operation of the session, with every error it can fail with."""
    with small_snapshots():
        counting = FaultyDisk(ModelDisk())
        asyncio.run(play(lab_store(counting), World()))
    return [
        Fault(at, number, lasting, part)
        for at, operation in enumerate(counting.operations, 1)
        for number, failing in CAN_FAIL.items()
        if operation in failing
        for lasting in (False, True)
        for part in (PARTS if operation == "write" else (0.0,))
    ]


def fault_suite(
    faults: list[Fault],
    *,
    cut_count: int = 6,
    limit: int = 6,
    seed: int = 1,
    until: str = "",
) -> Report:
    """Each fault in turn: typed error, nothing lost, goes on afterwards, survives a power cut."""
    examiner = Examiner(0, seed, until)
    report = examiner.report
    random = Random(seed)
    with small_snapshots():
        for fault in faults:
            run = FaultRun(fault, random.choice(PART_KEPT))
            report.run_count += 1
            report.violations += run.violations
            cuts = run.cuts if len(run.cuts) <= cut_count else random.sample(run.cuts, cut_count)
            for cut in cuts:
                examiner.examine(cut, run.world.notes, limit, seed, f"{fault}, then ")
                if examiner.is_done:
                    return report
    return report


class FaultRun:
    """One session with one fault; afterwards the cause ends and the same process goes on.

    Args:
        fault: what fails.
        kept: how much a disk holds of contents whose sync failed; `None` if nothing.
    """

    def __init__(self, fault: Fault, kept: float | None) -> None:
        disk = ModelDisk(
            survival=lambda data: None if kept is None else data[: int(len(data) * kept)]
        )
        self.world = World()
        self.violations: list[str] = []
        recorder = Recorder(disk, self.world)
        faulty = FaultyDisk(disk, fault)
        self._work(faulty, play, first_id=1)
        faulty.lift()
        self._work(faulty, recover, first_id=3_000)
        self.violations += check_end(disk, lab_store(disk), self.world.notes)
        self.violations = [f"{fault}: {text}" for text in self.violations]
        self.cuts = [cut for cut in recorder.cuts if cut.change_count >= faulty.first_failure]

    def _work(self, faulty: FaultyDisk, work: Work, first_id: int) -> None:
        try:
            asyncio.run(work(lab_store(faulty, first_id=first_id), self.world))
        except StoreError as error:
            if faulty.fault is None:
                self.violations.append(f"stuck: {type(error).__name__}: {error}")
        except (TreadleError, OSError, AssertionError, LookupError, RuntimeError) as error:
            self.violations.append(f"untyped: {type(error).__name__}: {error}")
        if faulty.disk.handle_count:
            self.violations.append(f"leak: {faulty.disk.handle_count} handles were not given back")


def sampled_faults(count: int, seed: int) -> list[Fault]:
    """So many of all faults, in a random order."""
    return Random(seed).sample(all_faults(), count)
