"""What tries to pass as harmless is never covered by grants of what is."""

from __future__ import annotations

from case_tables import for_every_row
from risk.bypasses import BYPASSES
from risk.everyday import BY_THEMSELVES, GRANTED
from treadle.risk.assess import assess

HARMLESS = {kind for kinds in (*GRANTED.values(), *BY_THEMSELVES.values()) for kind in kinds}


def is_covered(command: str) -> bool:
    kinds = assess(command).kinds
    return bool(kinds) and {*kinds} <= HARMLESS


def test_there_are_enough_of_them() -> None:
    assert len({*BYPASSES}) == len(BYPASSES) >= 150
    assert len(GRANTED) + len(BY_THEMSELVES) >= 80


@for_every_row("command", BYPASSES)
def test_a_bypass_is_not_covered_by_grants_of_everything_harmless(command: str) -> None:
    assert not is_covered(command)


def test_what_is_harmless_is_covered() -> None:
    assert [command for command in (*GRANTED, *BY_THEMSELVES) if not is_covered(command)] == []
