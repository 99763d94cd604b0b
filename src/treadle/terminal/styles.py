"""How each of `STYLES` looks, to both kinds of drawing.

Only the sixteen colours of the terminal are used, so that its owner's theme decides, and colour is
never all that tells two things apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct


class TextStyle(Struct, frozen=True):
    """One style, as rich writes it (committed blocks) and as prompt_toolkit does (live lines)."""

    rich: str
    prompt: str


TEXT_STYLES: Final[Mapping[str, TextStyle]] = MappingProxyType(
    {
        "": TextStyle("", ""),
        "dim": TextStyle("dim", "fg:ansibrightblack"),
        "bold": TextStyle("bold", "bold"),
        "accent": TextStyle("cyan", "fg:ansicyan"),
        "good": TextStyle("green", "fg:ansigreen"),
        "warn": TextStyle("yellow", "fg:ansiyellow"),
        "bad": TextStyle("red", "fg:ansired"),
        "code": TextStyle("cyan", "fg:ansicyan"),
        "added": TextStyle("green", "fg:ansigreen"),
        "removed": TextStyle("red", "fg:ansired"),
    }
)
"""Each name of `ports.STYLES`, and no other."""


LOOK: Final = "look:"
"""Before a style that is no name but what prompt_toolkit itself reads: that of a laid-out block."""

TOOLKIT_COLORS: Final = (
    *("ansiblack", "ansired", "ansigreen", "ansiyellow"),
    *("ansiblue", "ansimagenta", "ansicyan", "ansigray"),
    *("ansibrightblack", "ansibrightred", "ansibrightgreen", "ansibrightyellow"),
    *("ansibrightblue", "ansibrightmagenta", "ansibrightcyan", "ansiwhite"),
)
"""The sixteen colours of a terminal, by their numbers."""


def rich_style(name: str) -> str:
    """The style of a piece of a rich text; a console needs no theme for it."""
    return TEXT_STYLES[name].rich


def prompt_style(name: str) -> str:
    """The style of a piece of prompt_toolkit's formatted text."""
    return name.removeprefix(LOOK) if name.startswith(LOOK) else TEXT_STYLES[name].prompt
