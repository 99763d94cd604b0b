"""The lab itself is tested: every planted bug is found by the layer that is there for it."""

from __future__ import annotations

import pytest

from lab.kills import Workshop
from lab.layers import LAYERS, Layer
from lab.planted import PLANTED
from lab.planted_approvals import APPROVAL_BUGS


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, workshop: Workshop) -> None:
    _, layer, kind = PLANTED[bug]
    report = LAYERS[layer](bug, workshop, kind)
    assert report.has(kind), f"{layer} does not find {bug!r}"


def test_every_layer_is_there_for_some_bug_or_finds_one_besides() -> None:
    assert {layer for _, layer, _ in PLANTED.values()} <= set(LAYERS)
    assert len(PLANTED) >= 12


def notices(layer: Layer, bug: str, workshop: Workshop) -> bool:
    """Whether the layer finds anything wrong; a bug may break the suite itself, too."""
    try:
        report = layer(bug, workshop, PLANTED[bug][2])
    except Exception:  # noqa: BLE001
        return True
    return bool(report.violations)


@pytest.mark.torture
def test_every_layer_finds_some_planted_bug(workshop: Workshop) -> None:
    about_approvals = {PLANTED[bug][1] for bug in APPROVAL_BUGS}
    found = {
        bug: [
            name
            for name, layer in LAYERS.items()
            if (bug in APPROVAL_BUGS) == (name in about_approvals) and notices(layer, bug, workshop)
        ]
        for bug in PLANTED
    }
    width = max(map(len, PLANTED))
    for bug, names in found.items():
        print(f"{bug:{width}}  {', '.join(names)}")  # noqa: T201  the table is the point
    assert {name for names in found.values() for name in names} == set(LAYERS)
