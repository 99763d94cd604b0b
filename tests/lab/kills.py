"""The suites in which real processes are killed and real calls fail, under the shim.

Like those on the model disk they return what they found, and can be run with a bug planted.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec

from lab.driver import Counts, Run, Task
from lab.shim import SHORT, Arming, DriverProcess
from lab.suites import Report

CAN_FAIL: Final[Mapping[int, str]] = MappingProxyType(
    {
        errno.EIO: "cowsdrlutm",
        errno.ENOSPC: "cwsdrlm",
        errno.EMFILE: "co",
        errno.EROFS: "cwsrlutm",
        SHORT: "w",
    }
)
"""Which calls can fail how; as in `crash.c`."""

T = TypeVar("T")
Plan = Callable[[Counts], list[Run]]


class Workshop:
    """Where tasks are done.

    Args:
        driver: does them.
        folder: a folder of our own; in memory if the machine has such.
    """

    def __init__(self, driver: DriverProcess, folder: Path) -> None:
        self._driver = driver
        self.folder = folder
        self.disk = folder / "driver" / "disk"
        self.root = str(self.disk / "store")

    def counts(self, bug: str = "", feature: str = "") -> Counts:
        """The calls of a session, or of a use of a feature, and of a recovery."""
        task = Task(self._below(), bug=bug, feature=feature)
        return msgspec.json.decode(self._perform(task), type=Counts)

    def sweep(self, plan: Plan, *, bug: str = "", until: str = "", feature: str = "") -> Report:
        """All runs of a plan."""
        runs = tuple(plan(self.counts(bug, feature)))
        task = Task(self._below(), runs, bug, until=until, feature=feature)
        return msgspec.json.decode(self._perform(task), type=Report)

    def trace(self, path: Path) -> bytes:
        """One undisturbed session, call by call."""
        self._perform(Task(self._below(), trace=str(path)))
        return path.read_bytes()

    def _below(self) -> str:
        return str(self.folder / "driver")

    def _perform(self, task: Task) -> bytes:
        return self._driver.ask(msgspec.json.encode(task))


def killing(kinds: str) -> Iterator[Arming]:
    """One per call and way of dying."""
    for at, kind in enumerate(kinds, 1):
        if kind != "o":
            for mode in ("before", "after", "torn") if kind == "w" else ("before", "after"):
                yield Arming(at, mode)


def part(plan: Plan, index: int, of: int) -> Plan:
    """One of so many parts of a plan, for machines with more than one core."""
    return lambda counts: plan(counts)[index::of]


def some_kills(count: int, seed: int, *, has_person: bool = False) -> Plan:
    """The process is killed before, in and after calls that change something; all for 0.

    With a person, uncertain calls are run again on their word.
    """

    def plan(counts: Counts) -> list[Run]:
        runs = [Run(arming, has_person=has_person) for arming in killing(counts.session)]
        return _some(runs, count, seed)

    return plan


def some_power_cuts(count: int, seed: int) -> Plan:
    """As `some_kills`, and the power goes with the process."""

    def plan(counts: Counts) -> list[Run]:
        runs = [Run(arming, power_cut=True) for arming in killing(counts.session)]
        return _some(runs, count, seed)

    return plan


def kills_in_recovery(session_count: int, recovery_count: int, seed: int) -> Plan:
    """After some kills, every recovery is killed too, at some of its calls or all (0)."""

    def plan(counts: Counts) -> list[Run]:
        return [
            Run(first, (second,))
            for first in _some(list(killing(counts.session)), session_count, seed)
            for second in _some(list(killing(counts.recovery)), recovery_count, seed + first.at)
        ]

    return plan


def failing(kinds: str) -> Iterator[Arming]:
    """One per call, error and duration."""
    for at, kind in enumerate(kinds, 1):
        for number, may in CAN_FAIL.items():
            if kind in may:
                yield Arming(fail_at=at, number=number)
                yield Arming(fail_from=at, number=number)


def some_errors(count: int, seed: int) -> Plan:
    """Calls fail in every way they can, once and for good; then the cause ends; all for 0."""

    def plan(counts: Counts) -> list[Run]:
        runs = [Run(arming, same_process=True) for arming in failing(counts.session)]
        return _some(runs, count, seed)

    return plan


def errors_in_recovery(session_count: int, recovery_count: int, seed: int) -> Plan:
    """After some kills, calls of the recovery fail."""

    def plan(counts: Counts) -> list[Run]:
        return [
            Run(first, (second,))
            for first in _some(list(killing(counts.session)), session_count, seed)
            for second in _some(list(failing(counts.recovery)), recovery_count, seed + first.at)
        ]

    return plan


def pairs(count: int, seed: int, distance_max: int = 40) -> Plan:
    """A call fails, and the process is killed not long after it."""

    def plan(counts: Counts) -> list[Run]:
        random = Random(seed)
        armings = list(failing(counts.session))
        found = []
        for _ in range(count):
            first = random.choice(armings)
            at = max(first.fail_at, first.fail_from) + random.randrange(distance_max)
            mode = random.choice(("before", "after", "torn"))
            armed = msgspec.structs.replace(first, at=at, mode=mode)
            found.append(Run(armed, same_process=random.random() < 0.5))
        return found

    return plan


def _some(items: list[T], count: int, seed: int) -> list[T]:
    """So many of the items, or all for 0, in a random order: what is wrong is found sooner."""
    picked = list(items)
    Random(seed).shuffle(picked)
    return picked[: count or len(picked)]
