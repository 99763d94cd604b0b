"""The table of what is to be done: every combination, and what must never come out of it."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from msgspec.structs import replace

from treadle.sync.backoff import (
    DELAY_S_MAX,
    SERVER_DELAY_S_MAX,
    add_seconds,
    compute_delay_s,
    is_due,
)
from treadle.sync.operations import (
    SENDING_OPERATIONS,
    WRITING_OPERATIONS,
    LocalAvailability,
    LocalPosition,
    ServerPosition,
    SyncOperation,
    ThreadComparison,
    choose_operation,
)

FLAGS = ("was_sent", "is_told", "is_busy", "is_parked", "is_wanted", "is_named", "is_deleted")
ALL = [
    ThreadComparison(here, ours, theirs, *flags, is_trashed=trashed)
    for here, ours, theirs in product(LocalAvailability, LocalPosition, ServerPosition)
    for flags in product((False, True), repeat=len(FLAGS))
    for trashed in (False, True)
]


def test_every_operation_comes_out_of_some_facts() -> None:
    found = Counter(map(choose_operation, ALL))
    assert set(found) == set(SyncOperation)
    assert len(ALL) == 4 * 6 * 4 * 2 ** (len(FLAGS) + 1)


def test_nothing_of_a_private_thread_leaves_or_is_asked_for_but_its_removal() -> None:
    for facts in ALL:
        if facts.here is LocalAvailability.PRIVATE:
            wanted = SyncOperation.PURGE if facts.was_sent else SyncOperation.NOTHING
            assert choose_operation(facts) is wanted, facts


def test_only_what_is_here_and_readable_is_sent_or_changed() -> None:
    for facts in ALL:
        if choose_operation(facts) in SENDING_OPERATIONS | WRITING_OPERATIONS:
            assert facts.here is LocalAvailability.THERE, facts


def test_a_thread_that_is_open_is_never_changed() -> None:
    for facts in ALL:
        if facts.is_busy:
            assert choose_operation(facts) not in WRITING_OPERATIONS, facts


def test_what_is_parked_is_sent_only_when_somebody_asks() -> None:
    for facts in ALL:
        if facts.is_parked and choose_operation(facts) in SENDING_OPERATIONS:
            assert facts.is_wanted or facts.is_named, facts


def test_what_was_removed_for_good_elsewhere_is_sent_only_by_name() -> None:
    for facts in ALL:
        if facts.theirs is ServerPosition.PURGED and choose_operation(facts) in SENDING_OPERATIONS:
            assert facts.is_named, facts
            assert facts.is_told, facts


def test_a_branch_of_ours_is_never_given_up_for_a_plain_pull_or_push() -> None:
    for facts in ALL:
        operation = choose_operation(facts)
        if operation is SyncOperation.PULL:
            assert facts.ours in (LocalPosition.SAME, LocalPosition.BEHIND), facts
        if operation is SyncOperation.PUSH:
            assert facts.theirs is not ServerPosition.MOVED, facts
        if operation is SyncOperation.REPLACE:
            assert facts.ours is LocalPosition.SCRUBBED, facts


def test_what_both_have_needs_nothing() -> None:
    assert (
        choose_operation(
            ThreadComparison(
                LocalAvailability.THERE, LocalPosition.SAME, ServerPosition.SAME, was_sent=True
            )
        )
        is SyncOperation.NOTHING
    )
    assert (
        choose_operation(ThreadComparison(LocalAvailability.MISSING, theirs=ServerPosition.SAME))
        is SyncOperation.FETCH
    )
    trashed = ThreadComparison(
        LocalAvailability.MISSING, theirs=ServerPosition.MOVED, is_deleted=True
    )
    assert choose_operation(trashed) is SyncOperation.FETCH
    assert choose_operation(replace(trashed, was_sent=True)) is SyncOperation.NOTHING


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_pauses_grow_to_a_bound_and_are_half_a_minute_at_least_in_the_end(chance: float) -> None:
    pauses = [compute_delay_s(failures, chance) for failures in range(1, 40)]
    assert pauses == sorted(pauses)
    assert 0.5 <= pauses[0] <= 1.0
    assert 30.0 <= pauses[-1] <= DELAY_S_MAX
    passed = asked = 0.0
    for pause in pauses:
        passed += pause
        asked += passed > 300
    assert asked <= 2 * (passed - 300) / 60 + 1


def test_a_server_is_left_alone_as_long_as_it_asks_for_within_reason() -> None:
    assert compute_delay_s(1, 0.0, 120.0) == 120.0
    assert compute_delay_s(1, 1.0, 0.0) == 1.0
    assert compute_delay_s(1, 1.0, 1e9) == SERVER_DELAY_S_MAX


def test_a_time_to_try_again_counts_unless_the_clock_has_jumped() -> None:
    now = "2026-11-21T08:15:30.000000Z"
    soon = add_seconds(now, 12.5)
    assert soon == "2026-11-21T08:15:42.500000Z"
    assert not is_due(now, soon)
    assert is_due(soon, soon)
    assert is_due(now, "")
    assert is_due(now, add_seconds(now, SERVER_DELAY_S_MAX * 2))
    assert is_due(now, "~ no time at all")
