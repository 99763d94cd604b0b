"""Text that steers neither a terminal nor the order in which people read it. Pure."""

from __future__ import annotations

import re
from typing import Final

_STEERING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but for tab and line feed, those that turn the order of others around, and
halves of characters, which no terminal can be sent."""

_EMOJI = "\xa9\xae\u203c-\u2bff\u3030-\u3299\U0001f000-\U0001faff"
_JOINING = "\u0600-\u109f\u1780-\u17d3\u1820-\u18aa"
"""Letters that are joined, or kept apart, by a character of no width."""

_HIDDEN: Final = (
    "[\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u206f\u2800\u3164\ufe00-\ufe0d"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    f"|(?<![{_EMOJI}])[\ufe0e\ufe0f](?!\u20e3)"
    f"|(?<![{_JOINING}])\u200c"
    f"|(?<![{_JOINING}{_EMOJI}\ufe0f])\u200d"
)
"""What is shown as nothing, or as a blank that is none: whatever Unicode has readers of no font
draw, and its empty letters. Left are those that belong to the character before them, as in many
emoji and in Persian words. A text: to compile it takes a millisecond, for those who meet one."""

_MARK: Final = "\N{REPLACEMENT CHARACTER}"


def sanitize_text(text: str) -> str:
    """The text with a mark for what steers a terminal, hides, or turns the order of others.

    A file, a model or another machine's thread may try to. Letters that are read from right to left
    stay as they are.
    """
    return replace_invisible_characters(_STEERING.sub(_MARK, text.replace("\r\n", "\n")))


def replace_invisible_characters(text: str) -> str:
    """The text with a mark for each character that nobody would see; as long as it was."""
    return text if text.isascii() else re.sub(_HIDDEN, _MARK, text)
