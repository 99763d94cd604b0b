"""Names of files in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from treadle.thread.safe_text import sanitize_text

NAMES_COUNT_MAX: Final = 20
"""Names that are shown of a list."""


def format_names(names: Sequence[str]) -> str:
    """The first names, each in one line, and how many more there are."""
    more = len(names) - NAMES_COUNT_MAX
    shown = ", ".join(format_name(name) for name in names[:NAMES_COUNT_MAX])
    return f"{shown} and {more} more" if more > 0 else shown


def format_name(name: str) -> str:
    """A name as a terminal may get it, in one line."""
    return sanitize_text(name).replace("\n", "⏎")
