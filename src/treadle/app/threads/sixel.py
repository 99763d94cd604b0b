"""Sixel, pictures of DEC's terminals: six rows of pixels at a time, a line for each colour. Pure.

A pixel for which no line says anything stays as the terminal has it.
"""

from __future__ import annotations

import re
from typing import Final

from treadle.app.threads.picture_pixels import IndexedPicture

BAND_HEIGHT: Final = 6
_BEGIN: Final = "\033P0;1;0q"
_END: Final = "\033\\"
_OFFSET: Final = 63
"""What is added to the bits of a column to have the letter of it; the lowest bit is the top row."""
_LETTERS: Final = bytes((bits + _OFFSET) % 256 for bits in range(256))
_RUN: Final = re.compile(r"(.)\1{3,}")
"""What is written as a count and a letter: shorter runs are shorter as they are."""


def encode_sixel(picture: IndexedPicture) -> str:
    """What a terminal is written for a picture.

    At most a letter for each column of each band in each colour, and some hundreds for the palette.
    """
    colors = range(len(picture.palette) // 3)
    palette = "".join(
        f"#{number};2;{';'.join(map(_to_percent, picture.palette[3 * number : 3 * number + 3]))}"
        for number in colors
    )
    size = f'"1;1;{picture.width};{picture.height}'
    bands = "-".join(_encode_band(picture, top) for top in range(0, picture.height, BAND_HEIGHT))
    return f"{_BEGIN}{size}{palette}{bands}{_END}"


def _to_percent(value: int) -> str:
    return str((value * 100 + 127) // 255)


def _encode_band(picture: IndexedPicture, top: int) -> str:
    """The lines of all colours in up to six rows from `top` on."""
    width = picture.width
    lines: dict[int, bytearray] = {}
    for row in range(top, min(top + BAND_HEIGHT, picture.height)):
        bit, start = 1 << (row - top), row * width
        for column, color in enumerate(picture.pixels[start : start + width]):
            if picture.shown and not picture.shown[start + column]:
                continue
            line = lines.get(color)
            if line is None:
                line = lines[color] = bytearray(width)
            line[column] |= bit
    return "$".join(f"#{color}{_encode_line(line)}" for color, line in sorted(lines.items()))


def _encode_line(line: bytearray) -> str:
    letters = line.rstrip(b"\0").translate(_LETTERS).decode("ascii")
    return _RUN.sub(lambda run: f"!{len(run[0])}{run[1]}", letters)
