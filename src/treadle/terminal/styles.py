"""How each of `STYLES` looks, to both kinds of drawing, in each theme.

A theme is for a background that is known. Where it is not, the sixteen colours of the terminal are
used, so that its owner's own theme decides. Colour is never all that tells two things apart.

A process has one terminal, so it has one theme, which holds for what is drawn from then on.
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


class Theme(Struct, frozen=True):
    """The styles of one kind of terminal, and the colours of code (a theme of rich's syntax).

    `backgrounds` are those that it is for, `contrast_min` what each of its colours has on them, as
    WCAG 2 computes it: 4.5 is level AA, 7 is AAA.
    """

    styles: Mapping[str, TextStyle]
    code: str
    backgrounds: tuple[str, ...] = ()
    contrast_min: float = 4.5


_PLAIN: Final = {"": TextStyle("", ""), "bold": TextStyle("bold", "bold")}

_ORDER: Final = ("", "dim", "bold", "accent", "good", "warn", "bad", "code", "added", "removed")


def _make_styles(looks: Mapping[str, TextStyle]) -> Mapping[str, TextStyle]:
    """In the order of `ports.STYLES`."""
    all_looks = {**_PLAIN, **looks}
    return MappingProxyType({name: all_looks[name] for name in _ORDER})


def _paint(**colours: str) -> Mapping[str, TextStyle]:
    """Styles of these colours; what is added looks good, what is removed bad, code as an accent."""
    colours = {"code": colours["accent"], **colours}
    colours |= {"added": colours["good"], "removed": colours["bad"]}
    return _make_styles({name: TextStyle(one, f"fg:{one}") for name, one in colours.items()})


_OWN: Final = {
    "dim": TextStyle("dim", "fg:ansibrightblack"),
    "accent": TextStyle("cyan", "fg:ansicyan"),
    "good": TextStyle("green", "fg:ansigreen"),
    "warn": TextStyle("yellow", "fg:ansiyellow"),
    "bad": TextStyle("red", "fg:ansired"),
    "code": TextStyle("cyan", "fg:ansicyan"),
    "added": TextStyle("green", "fg:ansigreen"),
    "removed": TextStyle("red", "fg:ansired"),
}

THEMES: Final[Mapping[str, Theme]] = MappingProxyType(
    {
        "terminal": Theme(_make_styles(_OWN), "ansi_dark"),
        "dark": Theme(
            _paint(dim="#b0b6c0", accent="#7fd7e8", good="#98d982", warn="#e8c872", bad="#ff9d96"),
            "ansi_dark",
            ("#000000", "#1e1e1e", "#282c34", "#002b36", "#2e3440", "#3b4252"),
        ),
        "light": Theme(
            _paint(dim="#4f5661", accent="#005d75", good="#1a6118", warn="#6f4c00", bad="#a31515"),
            "ansi_light",
            ("#ffffff", "#fafafa", "#fdf6e3", "#eee8d5", "#e1e2e7"),
        ),
        "high-contrast-dark": Theme(
            _paint(dim="#e0e0e0", accent="#8df0ff", good="#a8ff9e", warn="#ffe97a", bad="#ffc4c0"),
            "ansi_dark",
            ("#000000", "#1e1e1e", "#282c34"),
            contrast_min=7.0,
        ),
        "high-contrast-light": Theme(
            _paint(dim="#303030", accent="#002f55", good="#0b3d0a", warn="#4a2a00", bad="#6e0000"),
            "ansi_light",
            ("#ffffff", "#fafafa", "#fdf6e3"),
            contrast_min=7.0,
        ),
    }
)
"""All looks of this room, by name."""

TEXT_STYLES: Final = THEMES["terminal"].styles
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

FAINT: Final = "fg:ansibrightblack"
"""What rich calls dim, which not every terminal draws."""


class _CurrentTheme:
    """Which theme holds."""

    def __init__(self) -> None:
        self.theme = THEMES["terminal"]


_CURRENT: Final = _CurrentTheme()


def use_theme(name: str) -> None:
    """Have a theme of `THEMES` hold from here on; what is printed stays as it is."""
    _CURRENT.theme = THEMES[name]


def choose_theme(setting: str, is_dark: bool | None) -> str:
    """The theme for a setting and a background.

    Args:
        setting: `auto`, `dark`, `light`, `high-contrast`, or `terminal` for the sixteen colours.
        is_dark: whether the background is dark; `None` if nobody knows.
    """
    if setting == "high-contrast":
        return "high-contrast-light" if is_dark is False else "high-contrast-dark"
    if setting != "auto":
        return setting
    return "terminal" if is_dark is None else "dark" if is_dark else "light"


def rich_style(name: str) -> str:
    """The style of a piece of a rich text; a console needs no theme for it."""
    return _CURRENT.theme.styles[name].rich


def prompt_style(name: str) -> str:
    """The style of a piece of prompt_toolkit's formatted text."""
    if name.startswith(LOOK):
        return name.removeprefix(LOOK)
    return _CURRENT.theme.styles[name].prompt


def code_theme() -> str:
    """The colours of code in committed blocks, as rich names them."""
    return _CURRENT.theme.code
