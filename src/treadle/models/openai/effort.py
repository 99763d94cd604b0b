"""How much a model of OpenAI's is asked to think, in the words of both of its APIs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from treadle.core.llm import Reasoning
from treadle.models.model_names import family_name

EFFORT: Final[Mapping[Reasoning, str]] = {
    "off": "none",
    "low": "low",
    "medium": "medium",
    "high": "high",
}

_ALWAYS_THINKS: Final = re.compile(r"o\d|gpt-5(?![.\d])|gpt-oss|codex-mini")
"""Models that came before the effort `none` and refuse it; `low` is the least that all take."""


def choose_effort(reasoning: Reasoning, model: str) -> str | None:
    """The effort to ask for; `None` leaves it to the model."""
    if reasoning == "off" and _ALWAYS_THINKS.match(family_name(model)):
        return EFFORT["low"]
    return EFFORT.get(reasoning)
