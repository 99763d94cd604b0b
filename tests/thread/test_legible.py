"""What steers a terminal or a reader is marked, and nothing else is changed."""

from __future__ import annotations

import sys
import unicodedata

from treadle.thread.legible import legible

TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
MARKS = {"\u061c", "\u200e", "\u200f"}


def test_every_control_and_every_turn_of_direction_is_marked_and_no_letter_is() -> None:
    for code in range(sys.maxunicode + 1):
        one = chr(code)
        steers = (
            (unicodedata.category(one) in ("Cc", "Cs") and one not in "\t\n")
            or unicodedata.bidirectional(one) in TURNING
            or one in MARKS
        )
        assert legible(one) == ("\N{REPLACEMENT CHARACTER}" if steers else one), hex(code)


def test_line_ends_of_another_system_are_line_ends() -> None:
    assert legible("a\r\nb\rc") == "a\nb\N{REPLACEMENT CHARACTER}c"
