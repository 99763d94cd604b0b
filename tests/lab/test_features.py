"""Approvals, forks, rewinds, tasks ... : each survives kills as a plain session does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.features import FEATURES
from lab.kills import Workshop, kills_in_recovery, some_errors, some_kills
from lab.layers import SEED
from lab.suites import Report, feature_power_cut_suite

Clean = Callable[[str, Report], None]


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_survives_kills_and_power_cuts(
    feature: str, clean: Clean, workshop: Workshop
) -> None:
    clean(f"kill, {feature}", workshop.sweep(some_kills(40, SEED), feature=feature))
    cuts = feature_power_cut_suite(feature, limit=4, seed=SEED, share=0.25)
    clean(f"power cut, {feature}", cuts)


@pytest.mark.torture
@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_survives_a_kill_at_any_file_call_and_every_power_cut(
    feature: str, clean: Clean, workshop: Workshop
) -> None:
    for name, plan in (
        ("kill", some_kills(0, SEED)),
        ("kill in recovery", kills_in_recovery(30, 12, SEED)),
        ("error", some_errors(200, SEED)),
    ):
        clean(f"{name}, {feature}", workshop.sweep(plan, feature=feature))
    clean(f"power cut, {feature}", feature_power_cut_suite(feature, limit=40, seed=SEED))
