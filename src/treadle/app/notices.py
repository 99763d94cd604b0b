"""Lines for a person, from functions that do not know who that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Notify: TypeAlias = Callable[[str], None]
"""Takes a line for a person; it may hold anything that a record holds."""


def ignore_notice(line: str) -> None:
    """For a program that shows no notices."""
