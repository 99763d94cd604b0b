"""Machines that share threads over a bad network, replayable from a seed; and bugs they notice.

A failure names its seed: `Simulation(SEED, templates, folder).run()` is the same run again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from server.databases import Templates, new_folder
from sync.checker import Violation
from sync.planted import HEALED, PLANTED
from sync.simulation import ACTIONS, STEP_COUNT, Simulation

BLOCKS: Final = ("merge", "merge", "merge", "fork")
"""What becomes of branches in the runs of each block."""

RUNS_PER_BLOCK: Final = 5
TORTURE_RUN_COUNT: Final = 4_000
RUNS: Final = [
    (seed, how)
    for block, how in enumerate(BLOCKS)
    for seed in range(block * RUNS_PER_BLOCK, (block + 1) * RUNS_PER_BLOCK)
]
"""The seeds of each time, and what becomes of branches. Each planted bug is seen in one of them."""

SHORT_RUN_COUNT: Final = 60
SHORT_STEP_COUNT: Final = 140
SEEN_LATE: Final = {
    "scrubbed text stands": 9,
    "acknowledged before the commit": 16,
    "fork loses its last record": 16,
}
"""In which run a bug was seen that the first ones do not show: it is tried before all others."""


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Templates, Path]]:
    """Where servers of a run come from, and where their files go."""
    templates, folder = Templates(), new_folder()
    yield templates, folder
    templates.close()
    shutil.rmtree(folder, ignore_errors=True)


Place = tuple[Templates, Path]


@pytest.mark.parametrize("block", range(len(BLOCKS)))
def test_whatever_happens_everything_acknowledged_is_everywhere_once(
    block: int, place: Place, record_property: Callable[[str, object], None]
) -> None:
    done = dict.fromkeys(ACTIONS, 0)
    sent = faults = kills = deaths = 0
    for seed, how in RUNS[block * RUNS_PER_BLOCK : (block + 1) * RUNS_PER_BLOCK]:
        run = Simulation(seed, *place, how).run()
        done = {name: done[name] + run.done[name] for name in done}
        sent += run.sent_count
        faults += run.fault_count
        kills += run.kill_count
        deaths += run.server.death_count
    record_property("lab", f"{sent} requests, {faults} faults, {kills} kills, {deaths}, {done}")
    assert min(done.values()) > 0
    assert min(faults, kills, deaths) > RUNS_PER_BLOCK


def test_a_seed_is_a_run_and_another_seed_another_one(place: Place) -> None:
    once, again, other = (Simulation(seed, *place).run() for seed in (7, 7, 8))
    assert once.log.digest() == again.log.digest() != other.log.digest()


@pytest.mark.parametrize("bug", PLANTED)
def test_a_bug_planted_in_sync_is_noticed(bug: str, place: Place) -> None:
    is_healed = bug in HEALED
    step_count = SHORT_STEP_COUNT if is_healed else STEP_COUNT
    runs = [(seed, "merge") for seed in range(SHORT_RUN_COUNT)] if is_healed else [*RUNS]
    runs.insert(0, runs[SEEN_LATE.get(bug, 0)])
    with PLANTED[bug]():
        for seed, how in runs:
            try:
                Simulation(seed, *place, how, step_count).run()
            except Violation:
                return
    raise AssertionError(f"{bug} was not noticed in {len(runs)} runs")


@pytest.mark.torture
@pytest.mark.parametrize("how", ["merge", "fork"])
@pytest.mark.parametrize("block", range(8))
def test_whatever_happens_in_a_long_time_all_is_everywhere_once(
    block: int, how: str, place: Place
) -> None:
    for number in range(TORTURE_RUN_COUNT // 8):
        Simulation(1_000_000 + 1_000 * block + number, *place, how).run()
