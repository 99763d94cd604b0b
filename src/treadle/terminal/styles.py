"""How each of `STYLES` looks, to both kinds of drawing.

Only the sixteen colours of the terminal are used, so that its owner's theme decides, and colour is
never all that tells two things apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct


class Look(Struct, frozen=True):
    """One style, as rich writes it (committed blocks) and as prompt_toolkit does (live lines)."""

    rich: str
    prompt: str


LOOKS: Final[Mapping[str, Look]] = MappingProxyType(
    {
        "": Look("", ""),
        "dim": Look("dim", "fg:ansibrightblack"),
        "bold": Look("bold", "bold"),
        "accent": Look("cyan", "fg:ansicyan"),
        "good": Look("green", "fg:ansigreen"),
        "warn": Look("yellow", "fg:ansiyellow"),
        "bad": Look("red", "fg:ansired"),
        "code": Look("cyan", "fg:ansicyan"),
        "added": Look("green", "fg:ansigreen"),
        "removed": Look("red", "fg:ansired"),
    }
)
"""Each name of `ports.STYLES`, and no other."""


def rich_style(name: str) -> str:
    """The style of a piece of a rich text; a console needs no theme for it."""
    return LOOKS[name].rich


def prompt_style(name: str) -> str:
    """The style of a piece of prompt_toolkit's formatted text."""
    return LOOKS[name].prompt
