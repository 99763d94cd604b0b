"""Approvals, forks, rewinds, tasks ... : each survives kills as a plain session does."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from lab.checks import check_end, read_chain
from lab.features import FEATURES
from lab.kills import Workshop, kills_in_recovery, some_errors, some_kills
from lab.layers import SEED
from lab.model_disk import ModelDisk
from lab.script import journal_path, lab_store
from lab.suites import Report, feature_power_cut_suite
from lab.world import World
from treadle.core.call_decision import FORBIDDEN_REASON

Clean = Callable[[str, Report], None]

PURPOSES = {
    "round": {"approval_decided": 3, "tool_started": 6},
    "ground": {"approval_required": 1, "approval_decided": 5, "tool_started": 4},
    "mode": {FORBIDDEN_REASON: 3, "approval_decided": 3, "tool_started": 7},
    "asking task": {"approval_required": 1, "approval_decided": 5, "tool_started": 6},
    "grant": {"kind_granted": 1, "approval_required": 1, "approval_decided": 6},
}
"""How often something stands in the records of a feature about approvals that nobody disturbs."""


def test_the_features_about_approvals_do_what_they_are_there_for() -> None:
    misses = []
    for name, wanted in PURPOSES.items():
        disk, world = ModelDisk(), World()
        store = lab_store(disk)
        asyncio.run(FEATURES[name].play(store, world))
        found: Counter[str] = Counter()
        for thread in store.ids():
            for record in read_chain(disk.read(journal_path(thread)))[0]:
                error = record.event.get("outcome", {}).get("error", {})
                found.update((record.event["type"], error.get("message", "")))
        misses += [
            f"{name}: {what!r} {found[what]} times, not {count}"
            for what, count in wanted.items()
            if found[what] != count
        ]
        misses += [f"{name}: {text}" for text in check_end(disk, store, world.notes)]
    assert misses == []


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
