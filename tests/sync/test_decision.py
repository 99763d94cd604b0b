"""The table of what is to be done: every combination, and what must never come out of it."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from msgspec.structs import replace

from treadle.sync.backoff import ASKED_S_MAX, LONGEST_S, is_due, later, pause_s
from treadle.sync.decision import SENDS, WRITES, Facts, Here, Operation, Ours, Theirs, decide

FLAGS = ("was_sent", "is_told", "is_busy", "is_parked", "is_wanted", "is_named", "is_deleted")
ALL = [
    Facts(here, ours, theirs, *flags, is_trashed=trashed)
    for here, ours, theirs in product(Here, Ours, Theirs)
    for flags in product((False, True), repeat=len(FLAGS))
    for trashed in (False, True)
]


def test_every_operation_comes_out_of_some_facts() -> None:
    found = Counter(map(decide, ALL))
    assert set(found) == set(Operation)
    assert len(ALL) == 4 * 6 * 4 * 2 ** (len(FLAGS) + 1)


def test_nothing_of_a_private_thread_leaves_or_is_asked_for_but_its_removal() -> None:
    for facts in ALL:
        if facts.here is Here.PRIVATE:
            wanted = Operation.PURGE if facts.was_sent else Operation.NOTHING
            assert decide(facts) is wanted, facts


def test_only_what_is_here_and_readable_is_sent_or_changed() -> None:
    for facts in ALL:
        if decide(facts) in SENDS | WRITES:
            assert facts.here is Here.THERE, facts


def test_a_thread_that_is_open_is_never_changed() -> None:
    for facts in ALL:
        if facts.is_busy:
            assert decide(facts) not in WRITES, facts


def test_what_is_parked_is_sent_only_when_somebody_asks() -> None:
    for facts in ALL:
        if facts.is_parked and decide(facts) in SENDS:
            assert facts.is_wanted or facts.is_named, facts


def test_what_was_removed_for_good_elsewhere_is_sent_only_by_name() -> None:
    for facts in ALL:
        if facts.theirs is Theirs.PURGED and decide(facts) in SENDS:
            assert facts.is_named, facts
            assert facts.is_told, facts


def test_a_branch_of_ours_is_never_given_up_for_a_plain_pull_or_push() -> None:
    for facts in ALL:
        operation = decide(facts)
        if operation is Operation.PULL:
            assert facts.ours in (Ours.SAME, Ours.BEHIND), facts
        if operation is Operation.PUSH:
            assert facts.theirs is not Theirs.MOVED, facts
        if operation is Operation.REPLACE:
            assert facts.ours is Ours.SCRUBBED, facts


def test_what_both_have_needs_nothing() -> None:
    assert decide(Facts(Here.THERE, Ours.SAME, Theirs.SAME, was_sent=True)) is Operation.NOTHING
    assert decide(Facts(Here.MISSING, theirs=Theirs.SAME)) is Operation.FETCH
    trashed = Facts(Here.MISSING, theirs=Theirs.MOVED, is_deleted=True)
    assert decide(trashed) is Operation.FETCH
    assert decide(replace(trashed, was_sent=True)) is Operation.NOTHING


@pytest.mark.parametrize("chance", [0.0, 0.5, 1.0])
def test_pauses_grow_to_a_bound_and_are_half_a_minute_at_least_in_the_end(chance: float) -> None:
    pauses = [pause_s(failures, chance) for failures in range(1, 40)]
    assert pauses == sorted(pauses)
    assert 0.5 <= pauses[0] <= 1.0
    assert 30.0 <= pauses[-1] <= LONGEST_S
    passed = asked = 0.0
    for pause in pauses:
        passed += pause
        asked += passed > 300
    assert asked <= 2 * (passed - 300) / 60 + 1


def test_a_server_is_left_alone_as_long_as_it_asks_for_within_reason() -> None:
    assert pause_s(1, 0.0, 120.0) == 120.0
    assert pause_s(1, 1.0, 0.0) == 1.0
    assert pause_s(1, 1.0, 1e9) == ASKED_S_MAX


def test_a_time_to_try_again_counts_unless_the_clock_has_jumped() -> None:
    now = "2026-11-21T08:15:30.000000Z"
    soon = later(now, 12.5)
    assert soon == "2026-11-21T08:15:42.500000Z"
    assert not is_due(now, soon)
    assert is_due(soon, soon)
    assert is_due(now, "")
    assert is_due(now, later(now, ASKED_S_MAX * 2))
    assert is_due(now, "~ no time at all")
