"""Text that steers neither a terminal nor the order in which people read it. Pure."""

from __future__ import annotations

import re
from typing import Final

_STEERING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but for tab and line feed, those that turn the order of others around, and
halves of characters, which no terminal can be sent."""

_MARK: Final = "\N{REPLACEMENT CHARACTER}"


def legible(text: str) -> str:
    """The text with a mark for what steers a terminal or turns the order of other characters.

    A file, a model or another machine's thread may try to. Letters that are read from right to left
    stay as they are.
    """
    return _STEERING.sub(_MARK, text.replace("\r\n", "\n"))
