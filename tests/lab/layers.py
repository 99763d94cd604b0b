"""The layers of defence, by name: each a suite that can be run with a bug planted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lab.damage import halted_writer_suite, rot_suite, two_writers_suite
from lab.faults import fault_suite, sampled_faults
from lab.kills import Plan, Workshop, kills_in_recovery, pairs, some_errors, some_kills
from lab.planted import plant
from lab.suites import (
    Report,
    feature_power_cut_suite,
    killed_then_cut_suite,
    power_cut_suite,
)

SEED: Final = 20_261_121

Layer = Callable[[str, Workshop, str], Report]
"""(name of the bug or nothing, workshop, kind of violation to stop at) -> what was found."""


def _on_model(suite: Callable[[str], Report]) -> Layer:
    def run(bug: str, workshop: Workshop, until: str) -> Report:
        with plant(bug):
            return suite(until)

    return run


def _under_shim(plan: Plan, feature: str = "") -> Layer:
    def run(bug: str, workshop: Workshop, until: str) -> Report:
        return workshop.sweep(plan, bug=bug, until=until, feature=feature)

    return run


LAYERS: Final[dict[str, Layer]] = {
    "power cut": _on_model(
        lambda until: power_cut_suite(limit=40, seed=SEED, recover_every=4, until=until)
    ),
    "kill, then power cut": _on_model(
        lambda until: killed_then_cut_suite(limit=40, seed=SEED, share=0.1, until=until)
    ),
    "model fault": _on_model(
        lambda until: fault_suite(sampled_faults(120, SEED), seed=SEED, until=until)
    ),
    "halted writer": _on_model(lambda until: halted_writer_suite()),
    "rot": _on_model(lambda until: rot_suite(count=200, seed=SEED, until=until)),
    "two writers": _on_model(lambda until: two_writers_suite()),
    "kill": _under_shim(some_kills(0, SEED)),
    "kill in recovery": _under_shim(kills_in_recovery(12, 8, SEED)),
    "error": _under_shim(some_errors(120, SEED)),
    "error, then kill": _under_shim(pairs(120, SEED)),
    **{
        f"kill, {feature}": _under_shim(some_kills(0, SEED), feature)
        for feature in (
            *("approval", "round", "ground", "mode", "grant", "asking task"),
            *("outputs", "import", "scrub", "task"),
        )
    },
    "power cut, trash": _on_model(
        lambda until: feature_power_cut_suite("trash", limit=12, seed=SEED, until=until)
    ),
}
