"""Damage that nobody did on purpose, and writers that should not be there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.damage import JOURNAL, SNAPSHOT, every_flip, rot_suite, two_writers_suite
from lab.layers import SEED
from lab.suites import Report

Clean = Callable[[str, Report], None]


def test_damage_is_noticed_and_nothing_false_is_shown(clean: Clean) -> None:
    clean("rot", rot_suite(count=400, seed=SEED))


def test_of_two_writers_one_is_refused_and_the_records_of_the_other_stand(clean: Clean) -> None:
    clean("two writers", two_writers_suite())


@pytest.mark.torture
@pytest.mark.parametrize("path", [JOURNAL, SNAPSHOT])
def test_every_flipped_bit_is_noticed(path: str) -> None:
    assert [(bit, found) for bit, found in every_flip(path) if found] == []
