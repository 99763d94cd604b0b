"""A real process is killed at every call that changes a file, and again while it recovers."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.checks import check_folder
from lab.kills import Workshop, kills_in_recovery, part, some_kills
from lab.layers import SEED
from lab.script import lab_store, recover
from lab.shim import HERE
from lab.suites import Report
from lab.world import World, read_notes
from treadle.store.disk import PosixDisk

Clean = Callable[[str, Report], None]


@pytest.mark.parametrize("index", range(4))
def test_a_process_killed_at_any_file_call_loses_nothing_and_repeats_nothing(
    clean: Clean, workshop: Workshop, index: int
) -> None:
    report = workshop.sweep(part(some_kills(0, SEED), index, 4))
    clean("kill", report)
    assert report.run_count > 100


def test_a_person_who_is_asked_about_an_uncertain_call_can_have_it_run_again(
    clean: Clean, workshop: Workshop
) -> None:
    clean("kill, person", workshop.sweep(some_kills(60, SEED, has_person=True)))


def test_a_recovery_that_is_killed_can_be_done_again(clean: Clean, workshop: Workshop) -> None:
    clean("kill in recovery", workshop.sweep(kills_in_recovery(15, 8, SEED)))


@pytest.mark.torture
def test_every_call_of_every_recovery_can_be_the_last(clean: Clean, workshop: Workshop) -> None:
    clean("kill in recovery", workshop.sweep(kills_in_recovery(50, 0, SEED)))


# ---- a second opinion: the kernel's own tracer ---------------------------------------------------

STRACE = shutil.which("strace")
CALLS = "write,fsync,fdatasync,rename,unlink,ftruncate,mkdir"
needs_strace = pytest.mark.skipif(STRACE is None, reason="there is no strace")


def program(folder: Path, *strace: str) -> int:
    """The session as a program under strace; its exit status."""
    folder.mkdir()
    command = [str(STRACE), "-f", "-qq", *strace, sys.executable, "-m", "lab.program"]
    done = subprocess.run(
        [*command, str(folder), f"{folder}.notes"],
        env={"PYTHONPATH": str(HERE.parent), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        timeout=100,
    )
    return done.returncode


@needs_strace
def test_the_shim_sees_every_file_call_that_the_kernel_sees(
    workshop: Workshop, fast_folder: Path
) -> None:
    log = fast_folder / "calls"
    folder = fast_folder / "traced"
    assert program(folder, "-y", "-e", f"trace={CALLS}", "-o", str(log)) == 0
    seen: Counter[str] = Counter()
    for line in log.read_text().splitlines():
        called = re.match(r"\d+ +(\w+)\((.*)", line)
        if called and re.search(rf'{re.escape(str(folder))}[/>"]', called[2]):
            seen[called[1]] += 1
    kinds = Counter(workshop.counts().session)
    assert seen["write"] == kinds["w"]
    assert seen["fsync"] + seen["fdatasync"] == kinds["s"] + kinds["d"]
    for name, kind in (("rename", "r"), ("unlink", "u"), ("ftruncate", "t"), ("mkdir", "m")):
        assert seen[name] == kinds[kind], name


@needs_strace
@pytest.mark.parametrize(
    ("call", "number"),
    [("fdatasync", 2), ("fdatasync", 9), ("fdatasync", 31), ("rename", 2), ("fsync", 5)],
)
def test_a_process_killed_by_the_tracer_loses_nothing_either(
    fast_folder: Path, call: str, number: int
) -> None:
    folder, notes = fast_folder / "store", fast_folder / "store.notes"
    inject = f"inject={call}:signal=KILL:when={number}"
    status = program(folder, "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)
    assert status in (-9, 137)
    world = World(read_notes(notes.read_bytes()))
    asyncio.run(recover(lab_store(PosixDisk(), str(folder), first_id=3_000), world))
    assert check_folder(str(folder), world.notes) == []
