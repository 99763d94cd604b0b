r"""JSON that a terminal may get: nothing in it steers that, or hides.

JSON escapes only the first of the control characters by itself. What `legible` would replace is
written as `\uXXXX` here, which programs read as the same text.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from treadle.thread.safe_text import sanitize_text

_SPECIAL_CHARACTERS: Final = re.compile("[^\n\x20-\x7e]")


def escape_json(text: str) -> str:
    """JSON that reads the same, without characters that steer a terminal or are not seen."""
    return (
        text
        if text.isascii() and "\x7f" not in text
        else _SPECIAL_CHARACTERS.sub(_escape_match, text)
    )


def _escape_match(found: re.Match[str]) -> str:
    return _escape_character(found[0])


@cache
def _escape_character(character: str) -> str:
    if character.isprintable() and sanitize_text(character) == character:
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{int.from_bytes(units[i : i + 2], 'big'):04x}" for i in range(0, len(units), 2)
    )
