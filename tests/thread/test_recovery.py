"""What to do with a call whose process died: every combination has exactly one row."""

from __future__ import annotations

from itertools import product
from typing import Final

from case_tables import for_every_row
from core.samples import Completed, Pending, Running, success
from treadle.core.tools import EffectClass, Status
from treadle.thread.recovery import (
    RECOVERY_CASES,
    CallProgress,
    RecoveryAction,
    decide_recovery,
    get_call_progress,
)

COMBINATIONS: Final = list(product(CallProgress, EffectClass, (True, False)))

DESIGN: Final = """
completed    | read       | keep
completed    | idempotent | keep
completed    | mutate     | keep
not started  | read       | run
not started  | idempotent | run
not started  | mutate     | run
started      | read       | run again
started      | idempotent | run again
started      | mutate     | ask, or report
uncertain    | read       | ask, or report
uncertain    | idempotent | ask, or report
uncertain    | mutate     | ask, or report
"""
"""The design's sentence about recovery, as a table; `ask` with a person, `report` without."""

WORDS: Final = {
    "keep": (RecoveryAction.KEEP, RecoveryAction.KEEP),
    "run": (RecoveryAction.RUN, RecoveryAction.RUN),
    "run again": (RecoveryAction.RUN_AGAIN, RecoveryAction.RUN_AGAIN),
    "ask, or report": (RecoveryAction.ASK, RecoveryAction.REPORT),
}


@for_every_row("standing, effect, has_person", COMBINATIONS)
def test_exactly_one_row_fits(
    standing: CallProgress, effect: EffectClass, has_person: bool
) -> None:
    fitting = [
        case
        for case in RECOVERY_CASES
        if case.standing is standing
        and case.effect in (None, effect)
        and case.has_person in (None, has_person)
    ]
    assert [case.decision for case in fitting] == [
        decide_recovery(standing, effect, has_person=has_person)
    ]


def test_the_decisions_are_those_of_the_design() -> None:
    lines = [line.split("|") for line in DESIGN.strip().splitlines()]
    assert len(lines) == len(CallProgress) * len(EffectClass)
    for standing, effect, words in lines:
        decisions = [
            decide_recovery(
                CallProgress(standing.strip()), EffectClass(effect.strip()), has_person=has_person
            )
            for has_person in (True, False)
        ]
        assert tuple(decisions) == WORDS[words.strip()]


def test_nothing_that_may_have_happened_is_ever_run_again_silently() -> None:
    for standing, effect, has_person in COMBINATIONS:
        runs = decide_recovery(standing, effect, has_person=has_person) in (
            RecoveryAction.RUN,
            RecoveryAction.RUN_AGAIN,
        )
        may_have_happened = standing in (CallProgress.STARTED, CallProgress.UNCERTAIN)
        assert not (runs and may_have_happened and effect is EffectClass.MUTATE)


def test_nobody_is_asked_where_nobody_is_there() -> None:
    for standing, effect in product(CallProgress, EffectClass):
        assert decide_recovery(standing, effect, has_person=False) is not RecoveryAction.ASK


def test_every_row_and_every_decision_is_used() -> None:
    assert {case.decision for case in RECOVERY_CASES} == set(RecoveryAction)
    for case in RECOVERY_CASES:
        assert any(
            case.standing is standing
            and case.effect in (None, effect)
            and case.has_person in (None, has_person)
            for standing, effect, has_person in COMBINATIONS
        )


@for_every_row(
    "status, standing",
    [
        (Pending("a", "edit"), CallProgress.NOT_STARTED),
        (Running("a", "edit"), CallProgress.STARTED),
        (Running("a", "edit", uncertain=True), CallProgress.UNCERTAIN),
        (Completed("a", "edit", "", "", success("a")), CallProgress.COMPLETED),
    ],
)
def test_a_folded_call_tells_where_it_stood(status: Status, standing: CallProgress) -> None:
    assert get_call_progress(status) is standing
