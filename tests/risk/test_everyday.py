"""Ordinary commands are no alarm, and a grant names the narrow beginning of each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from case_tables import for_every_row
from risk.everyday import BY_THEMSELVES, GRANTED, ONE_AT_A_TIME
from treadle.core.tools import RiskLevel
from treadle.risk.assess import assess
from treadle.risk.reasons import ORDINARY

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "approvals.md"
EXPECTED = {**GRANTED, **BY_THEMSELVES, **dict.fromkeys(ONE_AT_A_TIME, ())}


@for_every_row("command, kinds", EXPECTED.items())
def test_an_ordinary_command_has_its_kinds_and_is_no_alarm(
    command: str, kinds: tuple[str, ...]
) -> None:
    danger = assess(command)
    assert {*danger.reasons} <= {reason.value for reason in ORDINARY}
    assert danger.risk is RiskLevel.HIGH
    assert danger.kinds == kinds


def test_the_document_shows_the_kinds_that_commands_have() -> None:
    table = DOCUMENT.read_text().partition("## Kinds and grants")[2].partition("\n- ")[0]
    rows = re.findall(r"^\| `(.*)` \| (`.*`) \|$", table, re.MULTILINE)
    assert len(rows) > 5
    for command, kinds in rows:
        assert ", ".join(f"`{k}`" for k in assess(command.replace("\\|", "|")).kinds) == kinds


def test_what_brings_code_from_the_network_says_so() -> None:
    assert assess("pip install requests").reasons == ("it installs or runs code from the network",)
