"""Runs under the crash shim: imports everything once, then forks a process per task and per run.

Each run is a session from nothing in its own folder, killed or hindered at one file call, and after
it recoveries in processes of their own. What is told outside goes to a file that the shim leaves
alone. Each line of standard input is a `Task`, and one of standard output says what came of it:
a `Report`, `Counts` or nothing, all JSON.
"""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from lab.checks import check_folder
from lab.features import FEATURES, Feature, Work
from lab.mounts import cut_power
from lab.planted import plant
from lab.script import lab_store, play, recover, small_snapshots
from lab.shim import Arming, Shim
from lab.suites import Report
from lab.world import Note, World, encode_note, read_notes
from treadle.errors import StoreError
from treadle.store.disk import PosixDisk

SESSION = "the session"
SURVIVED, REFUSED, BROKEN, KILLED = 0, 75, 70, -9


class Run(Struct, frozen=True):
    """One run: how the session is armed, and then each recovery, in order.

    With `same_process` the cause of errors ends when the session has been refused, and the same
    process recovers.
    """

    session: Arming
    recoveries: tuple[Arming, ...] = ()
    same_process: bool = False
    has_person: bool = False
    power_cut: bool = False
    """After the session the power goes; the disk must be a mounted image then."""


class Task(Struct, frozen=True):
    """What a driver is to do: below `folder`, with the bug named `bug` planted, if any."""

    folder: str
    runs: tuple[Run, ...] = ()
    bug: str = ""
    trace: str = ""
    """Write down one undisturbed session here, and do nothing else."""
    until: str = ""
    feature: str = ""
    """Which of the `FEATURES` is used; without one it is the session."""


class Counts(Struct):
    """The calls of a session, and of the recovery of a killed one, a letter each."""

    session: str
    recovery: str


class Traced(World):
    """Its notes go into the trace of the calls."""

    def __init__(self, shim: Shim) -> None:
        super().__init__()
        self._shim = shim

    def note(self, note: Note) -> None:
        super().note(note)
        self._shim.note(encode_note(note))


class Driver:
    """Forks the runs.

    Args:
        shim: of this process.
        folder: where stores are made and removed again; nothing else may use it.
        feature: what is played, by name; empty for the session.
    """

    def __init__(self, shim: Shim, folder: Path, feature: str = "") -> None:
        self._shim = shim
        played = FEATURES[feature] if feature else Feature(play, recover)
        self._play, self._recover = played.play, played.recover
        self._disk = folder / "disk"
        self._root = self._disk / "store"
        self._notes = folder / "notes"
        self._log = folder / "log"

    def fresh(self) -> None:
        """Nothing is there."""
        if self._root.exists():
            shutil.rmtree(self._root)
        self._root.mkdir(parents=True)
        self._notes.write_bytes(b"")
        self._log.write_bytes(b"")

    def notes(self) -> list[Note]:
        """What the outside was told so far."""
        return read_notes(self._notes.read_bytes())

    def _world(self) -> World:
        return World(self.notes(), str(self._notes), str(self._root / "effects"))

    def fork(self, arming: Arming, *works: Work) -> int:
        """Do the works in a process of its own, all but the first without errors; how it ended."""
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        status = BROKEN
        try:
            world = self._world()
            self._shim.arm(str(self._root), arming)
            status = max([self._do(work, world) for work in works])
        except BaseException:  # noqa: BLE001  a child says what happened and ends
            self._shim.disarm()
            self._log.write_text(traceback.format_exc())
        finally:
            os._exit(status)

    def _do(self, work: Work, world: World) -> int:
        """Do it; a refusal must be typed, and due to a call that was let fail."""
        store = lab_store(PosixDisk(), str(self._root), first_id=1 + 1_000 * len(world.notes))
        try:
            with small_snapshots():
                asyncio.run(work(store, world))
        except StoreError:
            if not self._shim.is_failing or not self._shim.failures:
                raise
            return REFUSED
        finally:
            self._shim.stop_failing()
        return SURVIVED

    def count(self) -> Counts:
        """The calls of one whole session, and of a recovery of one that was killed."""
        self.fresh()
        session = self._counted(self._play)
        self.fresh()
        self.fork(Arming(at=len(session) * 2 // 3, mode="before"), self._play)
        return Counts(session, self._counted(self._recover))

    def play_once(self) -> None:
        """So that what is imported late is there before the runs are forked."""
        self.fresh()
        self._counted(self._play)

    def _counted(self, work: Work) -> str:
        self._shim.arm(str(self._root), Arming())
        self._do(work, self._world())
        kinds = self._shim.kinds
        self._shim.disarm()
        return kinds

    def trace(self, path: str) -> None:
        """One whole session, call by call, with the notes among the calls."""
        self.fresh()
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._shim.arm(str(self._root), Arming())
        self._shim.trace(handle)
        self._do(play, Traced(self._shim))
        self._shim.trace(-1)
        self._shim.disarm()

    def run(self, run: Run) -> list[str]:
        """One run; what it violated."""
        self.fresh()
        works: list[Work] = [self._play]
        works += [self._recover] * run.same_process
        found = self._judge(SESSION, self.fork(run.session, *works), run.session)
        if run.power_cut:
            cut_power(self._disk)
        for arming in (*run.recoveries, Arming()):
            status = self.fork(arming, _asking if run.has_person else self._recover)
            found += self._judge("the recovery", status, arming)
        found += check_folder(str(self._root), self.notes())
        return [f"{describe(run)}: {text}" for text in found]

    def _judge(self, who: str, status: int, arming: Arming) -> list[str]:
        expected = {SURVIVED}
        if arming.at and not arming.number and who == SESSION:
            expected = {KILLED}
        elif arming.at:
            expected.add(KILLED)
        if arming.number:
            expected.add(REFUSED)
        if status in expected:
            return []
        lines = self._log.read_text().strip().splitlines() or [""]
        return [f"{who} ended with {status}: {lines[-1]}"]


async def _asking(*arguments: Any) -> None:
    await recover(*arguments, has_person=True)


def describe(run: Run) -> str:
    """A run, in the message of a violation."""
    parts = [
        " ".join(f"{name}={value}" for name, value in _set(arming))
        for arming in (run.session, *run.recoveries)
    ]
    return " / ".join(parts) + (" same process" if run.same_process else "")


def _set(arming: Arming) -> list[tuple[str, Any]]:
    plain = Arming()
    names = Arming.__struct_fields__
    return [(n, getattr(arming, n)) for n in names if getattr(arming, n) != getattr(plain, n)]


def perform(task: Task) -> Counts | Report | None:
    """Do a task."""
    driver = Driver(Shim(), Path(task.folder), task.feature)
    if task.trace:
        driver.trace(task.trace)
        return None
    with plant(task.bug):
        if not task.runs:
            return driver.count()
        driver.play_once()
        report = Report()
        for run in task.runs:
            report.run_count += 1
            report.violations += driver.run(run)
            if report.has(task.until):
                break
        return report


def main() -> None:
    """Do each task in a process of its own, and answer with a line; an empty one if it failed."""
    gc.collect()
    gc.freeze()
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            status = BROKEN
            try:
                answer = msgspec.json.encode(perform(msgspec.json.decode(line, type=Task)))
                os.write(1, answer + b"\n")
                status = SURVIVED
            except BaseException:  # noqa: BLE001  a child says what happened and ends
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(status)
        if os.waitpid(child, 0)[1]:
            os.write(1, b"\n")


if __name__ == "__main__":
    main()
