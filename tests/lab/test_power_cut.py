"""The power goes at any moment: nothing acknowledged is lost, and every thread goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.damage import halted_writer_suite
from lab.kills import Workshop
from lab.layers import SEED
from lab.suites import (
    Examiner,
    Report,
    killed_then_cut_suite,
    power_cut_suite,
    record_play,
)
from lab.traced import Replay
from lab.world import Acked

Clean = Callable[[str, Report], None]
PENDING_COUNT_MAX = 10


def test_every_disk_a_power_cut_can_leave_opens_with_all_that_was_acknowledged(
    clean: Clean,
) -> None:
    report = power_cut_suite(seed=SEED, recover_every=10)
    clean("power cut", report)
    assert report.cut_count > 150
    assert report.state_count > 2_500
    assert report.recovered_count > 100
    assert report.pending_count_max <= PENDING_COUNT_MAX


def test_the_session_that_is_cut_is_a_long_one() -> None:
    disk, world, _ = record_play()
    last = {note.thread: note.seq for note in world.notes if isinstance(note, Acked)}
    assert max(last.values()) >= 40
    assert len(last) == 2
    journals = [data for path, data in disk.files().items() if path.endswith(".jsonl")]
    kinds = (b"tool_started", b"tool_uncertain", b"cancel_requested", b"retry_timeout_fired")
    kinds += (b"input_queued", b"hook_completed", b"git_observed", b"recovered", b'"batch"')
    assert all(kind in b"".join(journals) for kind in kinds)


def test_what_the_next_process_promises_does_not_rest_on_what_a_killed_one_had_not_synced(
    clean: Clean,
) -> None:
    report = killed_then_cut_suite(limit=24, seed=SEED, share=0.12)
    clean("kill, then power cut", report)


def test_a_program_halted_between_write_and_sync_leaves_no_snapshot_ahead_of_its_journal(
    clean: Clean,
) -> None:
    clean("halted writer", halted_writer_suite())


def examine_trace(workshop: Workshop, path: Path, limit: int, share: int) -> Report:
    """One real session, call by call, on the model of the weakest file system."""
    replay = Replay(workshop.trace(path), workshop.root)
    examiner = Examiner(0, SEED)
    for cut in replay.cuts[::share]:
        examiner.examine(cut, replay.notes, limit, SEED)
    examiner.report.pending_count_max = replay.pending_count_max
    return examiner.report


def test_the_calls_of_a_real_process_survive_a_power_cut_on_the_weakest_file_system(
    clean: Clean, workshop: Workshop, tmp_path: Path
) -> None:
    report = examine_trace(workshop, tmp_path / "trace", 30, 2)
    clean("traced", report)
    assert report.cut_count > 60
    assert report.pending_count_max <= PENDING_COUNT_MAX


@pytest.mark.torture
def test_every_crash_state_of_a_real_process_opens(
    clean: Clean, workshop: Workshop, tmp_path: Path
) -> None:
    clean("traced", examine_trace(workshop, tmp_path / "trace", 4_000, 1))


@pytest.mark.torture
def test_every_disk_a_power_cut_can_leave_is_worked_on_to_the_end(clean: Clean) -> None:
    clean("power cut", power_cut_suite(seed=SEED, recover_every=1))


@pytest.mark.torture
def test_every_kill_can_be_followed_by_every_power_cut(clean: Clean) -> None:
    clean("kill, then power cut", killed_then_cut_suite(limit=400, seed=SEED))
