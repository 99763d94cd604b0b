"""What looks like a token and stands for one: in documentation, in examples, where one is to go."""

from __future__ import annotations

import re
from typing import Final

VARIETY_MIN: Final = 7
"""Different characters of a token; a random one of 20 or more has more of them."""

_WORDS: Final = re.compile(
    "example|placeholder|replace|redacted|changeme|change_me|your[-_]|your(?:api|token|key|secret)"
    "|insert|dummy|sample|foobar|xxxx|abcdefgh|12345678|87654321|deadbeef|cafebabe|0000000"
    r"|(.)\1{6}",
    re.IGNORECASE,
)
"""None of these stands in a random token, but by a chance of one in many thousands."""

_SAMPLES: Final = (
    *("4eC39HqLyjWDarjtT1zdP7dc", "BQokikJOvBiI2HlWgH4olfQ2", "wJalrXUtnFEMI"),
    *("eyJzdWIiOiIxMjM0NTY3ODkwIi", "SflKxwRJSMeKKF2QT4fwpM", "eyJpc3MiOiJqb2Ui"),
)
"""What well-known documentation shows in the place of a key or of a JSON Web Token."""


def is_sample(text: str) -> bool:
    """Whether it is what well-known documentation shows."""
    return any(sample in text for sample in _SAMPLES)


def is_placeholder(text: str) -> bool:
    """Whether what looks like a secret stands for one: `xxxx`, `your-key`, an example, too plain.

    Args:
        text: the token without what all of its kind begin with.
    """
    return len(set(text)) < VARIETY_MIN or _WORDS.search(text) is not None
