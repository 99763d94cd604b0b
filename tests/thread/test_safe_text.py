"""What steers a terminal or a reader is marked, and nothing else is changed."""

from __future__ import annotations

import sys
import unicodedata

from case_tables import for_every_row
from treadle.thread.safe_text import replace_invisible_characters, sanitize_text

TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
MARKS = {"\u061c", "\u200e", "\u200f"}


IGNORABLE = (
    *("00AD", "034F", "061C", "115F 1160", "17B4 17B5", "180B 180F", "200B 200F", "202A 202E"),
    *("2060 206F", "3164", "FE00 FE0F", "FEFF", "FFA0", "FFF0 FFF8", "1BCA0 1BCA3", "1D173 1D17A"),
    "E0000 E0FFF",
)
"""The characters that Unicode calls `Default_Ignorable_Code_Point`."""
UNSEEN = {0x2800} | {
    code
    for span in IGNORABLE
    for code in range(int(span.split()[0], 16), int(span.split()[-1], 16) + 1)
}


def test_every_control_every_turn_of_direction_and_all_that_is_unseen_is_marked_and_no_letter() -> (
    None
):
    for code in range(sys.maxunicode + 1):
        one = chr(code)
        steers = (
            (unicodedata.category(one) in ("Cc", "Cs") and one not in "\t\n")
            or unicodedata.bidirectional(one) in TURNING
            or one in MARKS
            or code in UNSEEN
        )
        assert sanitize_text(one) == ("\N{REPLACEMENT CHARACTER}" if steers else one), hex(code)


@for_every_row(
    "text",
    [
        "⚠\ufe0f",
        "1\ufe0f\u20e3",
        "\U0001f468\u200d\U0001f4bb",
        "❤\ufe0f\u200d🔥",
        "\u0645\u06cc\u200c\u062e",
        "क्\u200dष",
    ],
)
def test_what_makes_emoji_and_words_whole_stays(text: str) -> None:
    assert sanitize_text(text) == text


@for_every_row("hidden", ["\ufe0f", "\ufe0e", "\u200d", "\u200c"])
def test_what_belongs_to_no_character_before_it_is_marked(hidden: str) -> None:
    mark = "\N{REPLACEMENT CHARACTER}"
    assert sanitize_text(f"rm{hidden} x") == f"rm{mark} x"
    assert sanitize_text(f"⚠\ufe0f{hidden}" + "\ufe0f").count(mark) >= 1
    assert replace_invisible_characters(f"rm{hidden}\r\n") == f"rm{mark}\r\n"


def test_line_ends_of_another_system_are_line_ends() -> None:
    assert sanitize_text("a\r\nb\rc") == "a\nb\N{REPLACEMENT CHARACTER}c"
