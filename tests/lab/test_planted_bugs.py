"""The lab itself is tested: every planted bug is found by the layer that is there for it."""

from __future__ import annotations

import pytest

from lab.kills import Workshop
from lab.layers import LAYERS
from lab.planted import PLANTED


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, workshop: Workshop) -> None:
    _, layer, kind = PLANTED[bug]
    report = LAYERS[layer](bug, workshop, kind)
    assert report.has(kind), f"{layer} does not find {bug!r}"


def test_there_are_bugs_enough() -> None:
    assert {layer for _, layer, _ in PLANTED.values()} <= set(LAYERS)
    assert len(PLANTED) >= 12


@pytest.mark.parametrize(
    "name", sorted(LAYERS.keys() - {layer for _, layer, _ in PLANTED.values()})
)
def test_a_layer_without_a_bug_of_its_own_finds_one_of_the_others(
    name: str, workshop: Workshop
) -> None:
    bugs = (bug for bug, (_, layer, _) in PLANTED.items() if layer == "kill")
    assert any(LAYERS[name](bug, workshop, PLANTED[bug][2]).violations for bug in bugs)
