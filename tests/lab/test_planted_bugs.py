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


def test_every_layer_is_there_for_some_bug_or_finds_one_besides() -> None:
    assert {layer for _, layer, _ in PLANTED.values()} <= set(LAYERS)
    assert len(PLANTED) >= 12


@pytest.mark.torture
def test_every_layer_finds_some_planted_bug(workshop: Workshop) -> None:
    matrix = {
        (bug, name): bool(layer(bug, workshop, kind).violations)
        for bug, (_, _, kind) in PLANTED.items()
        for name, layer in LAYERS.items()
    }
    width = max(map(len, PLANTED))
    for bug in PLANTED:
        found = [name for name in LAYERS if matrix[bug, name]]
        print(f"{bug:{width}} {', '.join(found)}")  # noqa: T201  the table is the point
    assert all(any(matrix[bug, name] for bug in PLANTED) for name in LAYERS)
