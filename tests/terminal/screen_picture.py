"""A screen as a picture: an SVG of text, on a dark ground or on a light one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from types import MappingProxyType
from typing import Final

import pyte
from wcwidth import wcwidth

from terminal.harness import Screen

COLUMN: Final = 8.4
ROW: Final = 18
MARGIN: Final = 14

_DARK: Final = {
    "ground": "#1b1e25",
    "default": "#d5dae3",
    "black": "#3b4252",
    "red": "#e67c85",
    "green": "#9fca7f",
    "brown": "#e5c07b",
    "blue": "#7aa2f7",
    "magenta": "#c792ea",
    "cyan": "#6fc3d0",
    "white": "#d5dae3",
    "brightblack": "#7d8799",
    "brightred": "#f2939b",
    "brightgreen": "#b5dd96",
    "brightbrown": "#f0d399",
    "brightblue": "#9bb9fa",
    "brightmagenta": "#d7aef3",
    "brightcyan": "#92d8e2",
    "brightwhite": "#ffffff",
}
_LIGHT: Final = {
    "ground": "#fbfbfa",
    "default": "#24292f",
    "black": "#24292f",
    "red": "#b3261e",
    "green": "#1f6b32",
    "brown": "#7a5200",
    "blue": "#0b57b0",
    "magenta": "#8331a7",
    "cyan": "#0a6771",
    "white": "#57606a",
    "brightblack": "#636c76",
    "brightred": "#c7352d",
    "brightgreen": "#26803d",
    "brightbrown": "#8f6200",
    "brightblue": "#1a6bc9",
    "brightmagenta": "#953fba",
    "brightcyan": "#0b7783",
    "brightwhite": "#24292f",
}
COLOURS: Final = MappingProxyType({"dark": _DARK, "light": _LIGHT})
"""Of each ground, as pyte names them."""


def draw(screen: Screen, ground: str = "dark") -> str:
    """The screen as a picture, without the empty lines above and below.

    Args:
        screen: as it stands.
        ground: `dark` or `light`.
    """
    colours = COLOURS[ground]
    filled = [number for number, line in enumerate(screen.lines) if line]
    first, last = filled[0], filled[-1]
    width = round(screen.columns * COLUMN + 2 * MARGIN)
    height = (last - first + 1) * ROW + 2 * MARGIN
    rows = [
        piece
        for number in range(first, last + 1)
        for piece in _row(screen, colours, number, MARGIN + (number - first) * ROW)
    ]
    y, x = screen.cursor
    cursor = _box(x, MARGIN + (y - first) * ROW, 1, colours["default"], opacity=0.6)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
            f' viewBox="0 0 {width} {height}">',
            f'<rect width="{width}" height="{height}" rx="8" fill="{colours["ground"]}"/>',
            '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"'
            ' font-size="14">',
            *rows,
            *([cursor] if screen.is_cursor_visible else []),
            "</g>",
            "</svg>",
            "",
        ]
    )


def _row(screen: Screen, colours: Mapping[str, str], number: int, top: int) -> Iterator[str]:
    """Words of the same look, each as wide as its columns whatever the font.

    No piece begins or ends with a blank, or has two in a row: browsers keep none of these, or not
    all of them, whatever an element around says.
    """
    cells = [(column, screen.style_at(number, column)) for column in range(screen.columns)]
    for look, group in groupby(cells, key=lambda cell: _look(cell[1], colours)):
        pieces = list(group)
        colour, ground, weight = look
        column, length = pieces[0][0], len(pieces)
        if ground != colours["ground"]:
            yield _box(column, top, length, ground)
        for first, words in _split_words([char.data for _, char in pieces]):
            size = sum(map(wcwidth, words))
            yield (
                f'<text x="{MARGIN + (column + first) * COLUMN:g}" y="{top + 13}" fill="{colour}"'
                f'{weight} textLength="{size * COLUMN:g}">{escape(words)}</text>'
            )


def _split_words(cells: Sequence[str]) -> Iterator[tuple[int, str]]:
    """What stands between two blanks or more, with its first cell; a wide letter has two cells."""
    text, at = "", 0
    for number, cell in enumerate([*cells, " ", " "]):
        if cell == " " and text.endswith(" "):
            if text.strip():
                yield at, text.strip()
            text = ""
        elif text or cell.strip():
            at = at if text else number
            text += cell


def _look(char: pyte.screens.Char, colours: Mapping[str, str]) -> tuple[str, str, str]:
    colour = colours.get(char.fg, f"#{char.fg}")
    ground = "ground" if char.bg == "default" else char.bg
    ground = colours.get(ground, f"#{ground}")
    if char.reverse:
        colour, ground = ground, colour
    return colour, ground, ' font-weight="bold"' if char.bold else ""


def _box(column: int, top: int, length: int, colour: str, opacity: float = 1.0) -> str:
    return (
        f'<rect x="{MARGIN + column * COLUMN:g}" y="{top}" width="{length * COLUMN:g}"'
        f' height="{ROW}" fill="{colour}" opacity="{opacity:g}"/>'
    )
