"""Calls fail: the error is typed, nothing is lost, and the thread goes on when the cause ends."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from lab.faults import all_faults, fault_suite, sampled_faults
from lab.kills import Workshop, errors_in_recovery, pairs, part, some_errors
from lab.layers import SEED
from lab.suites import Report

Clean = Callable[[str, Report], None]


@pytest.mark.parametrize("index", range(2))
def test_a_failing_call_on_the_model_disk_loses_nothing_even_if_the_power_goes_next(
    clean: Clean, index: int
) -> None:
    faults = sampled_faults(160, SEED)[index::2]
    clean("model fault", fault_suite(faults, cut_count=4, limit=5, seed=SEED))


def test_every_operation_can_fail_in_several_ways() -> None:
    faults = all_faults()
    assert len(faults) > 1_500
    assert {fault.number for fault in faults} == {
        errno.EIO,
        errno.ENOSPC,
        errno.EMFILE,
        errno.EROFS,
    }


def test_a_failing_call_of_a_real_process_ends_in_a_typed_error_and_loses_nothing(
    clean: Clean, workshop: Workshop
) -> None:
    clean("error", workshop.sweep(some_errors(120, SEED)))


@pytest.mark.parametrize("index", range(2))
def test_a_process_killed_soon_after_a_call_failed_loses_nothing(
    clean: Clean, workshop: Workshop, index: int
) -> None:
    clean("error, then kill", workshop.sweep(part(pairs(150, SEED), index, 2)))


def test_a_recovery_in_which_a_call_fails_can_be_done_again(
    clean: Clean, workshop: Workshop
) -> None:
    clean("error in recovery", workshop.sweep(errors_in_recovery(8, 6, SEED)))


@pytest.mark.torture
def test_every_call_on_the_model_disk_fails_in_every_way(clean: Clean) -> None:
    clean("model fault", fault_suite(all_faults(), cut_count=12, limit=12, seed=SEED))


@pytest.mark.torture
def test_every_call_of_a_real_process_fails_in_every_way(clean: Clean, workshop: Workshop) -> None:
    clean("error", workshop.sweep(some_errors(0, SEED)))


@pytest.mark.torture
def test_five_thousand_pairs_of_an_error_and_a_kill_lose_nothing(
    clean: Clean, workshop: Workshop
) -> None:
    clean("error, then kill", workshop.sweep(pairs(5_000, SEED)))


@pytest.mark.torture
def test_every_call_of_many_recoveries_fails_in_every_way(clean: Clean, workshop: Workshop) -> None:
    clean("error in recovery", workshop.sweep(errors_in_recovery(20, 0, SEED)))
