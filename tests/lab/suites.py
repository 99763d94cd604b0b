"""The suites that run on the model disk: each returns the violations it found.

They are plain functions, so that they can be run on a system with a bug planted in it, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from hashlib import sha256
from random import Random

from msgspec import Struct

from lab.checks import check_recovery, check_state
from lab.features import FEATURES
from lab.model_disk import STATE_COUNT_MAX, ModelDisk
from lab.script import go_on, lab_store, play, small_snapshots
from lab.world import Note, World


class Cut(Struct, frozen=True):
    """A moment at which the power may go: the disk, and how many notes the world had."""

    disk: ModelDisk
    note_count: int
    after: str
    change_count: int = 0
    """How often the disk had changed."""


class Report(Struct):
    """What a suite did and found."""

    run_count: int = 0
    cut_count: int = 0
    state_count: int = 0
    checked_count: int = 0
    recovered_count: int = 0
    pending_count_max: int = 0
    violations: list[str] = []

    def has(self, kind: str) -> bool:
        """Whether a violation of this kind was found; no kind is never found."""
        return bool(kind) and any(f"{kind}:" in text for text in self.violations)

    def say(self, name: str) -> str:
        """One line for people."""
        return (
            f"{name}: {self.run_count} runs, {self.cut_count} cuts, {self.state_count} states, "
            f"{self.checked_count} different ones opened, {self.recovered_count} recovered, "
            f"at most {self.pending_count_max} operations pending, "
            f"{len(self.violations)} violations"
        )


class Recorder:
    """Keeps a cut after every change of a disk, and in the middle of every effect of a tool."""

    def __init__(self, disk: ModelDisk, world: World) -> None:
        self.cuts: list[Cut] = []
        self._disk = disk
        self._world = world
        disk.on_change = lambda operation, path: self._cut(f"{operation} {path}")
        world.on_effect = self._cut

    def _cut(self, after: str) -> None:
        disk, count = self._disk, len(self._world.notes)
        self.cuts.append(Cut(disk.after_kill(), count, after, disk.change_count))


def record_play() -> tuple[ModelDisk, World, list[Cut]]:
    """The whole session on a model disk, with a cut after every change."""
    disk, world = ModelDisk(), World()
    recorder = Recorder(disk, world)
    asyncio.run(play(lab_store(disk), world))
    return disk, world, recorder.cuts


class Examiner:
    """Opens crash states, each different one once, until a violation of the kind was found.

    A state that was held against all of these notes before is not opened again. One in
    `recover_every` is also worked on to the end by sessions.
    """

    def __init__(self, recover_every: int = 0, seed: int = 1, until: str = "") -> None:
        self.report = Report()
        self._known: dict[bytes, list[frozenset[Note]]] = {}
        self._recover_every = recover_every
        self._random = Random(seed)
        self._until = until

    @property
    def is_done(self) -> bool:
        """Whether what was looked for was found."""
        return self.report.has(self._until)

    def examine(self, cut: Cut, notes: list[Note], limit: int, seed: int, before: str = "") -> None:
        """Every disk that a power cut at this moment may leave."""
        report = self.report
        report.cut_count += 1
        attempted = cut.disk.files()
        told = notes[: cut.note_count]
        demanded = frozenset(told)
        for state in cut.disk.crash_states(limit, seed):
            report.state_count += 1
            known = self._known.setdefault(digest_of_files(state), [])
            if any(demanded <= earlier for earlier in known):
                continue
            known.append(demanded)
            report.checked_count += 1
            again = state.after_kill() if self._is_picked() else None
            found = check_state(state, told, attempted)
            if again is not None:
                report.recovered_count += 1
                found += check_recovery(again, told)
            report.violations += [f"{before}after {cut.after}: {text}" for text in found]
            if self.is_done:
                return

    def _is_picked(self) -> bool:
        return bool(self._recover_every) and self._random.randrange(self._recover_every) == 0


def digest_of_files(disk: ModelDisk) -> bytes:
    """Tells disks apart by what is on them."""
    whole = sha256()
    for path, content in disk.files().items():
        whole.update(f"{path} {len(content)}\n".encode())
        whole.update(content)
    return whole.digest()


def power_cut_suite(
    *,
    limit: int = STATE_COUNT_MAX,
    seed: int = 1,
    recover_every: int = 8,
    until: str = "",
) -> Report:
    """The power goes after every operation of a whole session; every legal disk is opened."""
    with small_snapshots():
        disk, world, cuts = record_play()
        examiner = Examiner(recover_every, seed, until)
        for cut in cuts:
            examiner.examine(cut, world.notes, limit, seed)
            if examiner.is_done:
                break
    examiner.report.pending_count_max = disk.pending_count_max
    return examiner.report


def feature_power_cut_suite(
    feature: str, *, limit: int, seed: int = 1, share: float = 1.0, until: str = ""
) -> Report:
    """The power goes while a feature is used; the next process finishes all that was begun."""
    disk, world, report = ModelDisk(), World(), Report()
    recorder = Recorder(disk, world)
    used = FEATURES[feature]
    asyncio.run(used.play(lab_store(disk), world))
    for cut in sampled(recorder.cuts, share, seed):
        report.cut_count += 1
        told = world.notes[: cut.note_count]
        for state in cut.disk.crash_states(limit, seed):
            report.checked_count += 1
            found = check_recovery(state, told, used.recover)
            report.violations += [f"after {cut.after}: {text}" for text in found]
            if report.has(until):
                return report
    report.pending_count_max = disk.pending_count_max
    return report


def killed_then_cut_suite(
    *, limit: int = STATE_COUNT_MAX, seed: int = 1, share: float = 1.0, until: str = ""
) -> Report:
    """A process dies, the next one goes on from what is in memory, and then the power goes.

    What the first had not synced is still there for the second to see; whatever the second then
    promises must not rest on it.
    """
    examiner = Examiner(0, seed, until)
    with small_snapshots():
        _, world, cuts = record_play()
        for killed in sampled(cuts, share, seed):
            for cut, notes in _next_process(killed, world.notes):
                examiner.examine(cut, notes, limit, seed)
                if examiner.is_done:
                    return examiner.report
    return examiner.report


def _next_process(killed: Cut, notes: list[Note]) -> Iterator[tuple[Cut, list[Note]]]:
    disk = killed.disk.after_kill()
    world = World(notes[: killed.note_count])
    recorder = Recorder(disk, world)
    go_on(lab_store(disk, first_id=1_000), world)
    for cut in recorder.cuts:
        after = f"{killed.after}, a kill, and {cut.after}"
        yield Cut(cut.disk, cut.note_count, after), world.notes


def sampled(items: Iterable[Cut], share: float, seed: int) -> list[Cut]:
    """A share of the items, in order."""
    random = Random(seed)
    return [item for item in items if share >= 1 or random.random() < share]
