"""Sixel as a terminal reads it, after the manual of the VT340; shares nothing with the encoder."""

from __future__ import annotations

import re
from typing import Final

Color = tuple[int, int, int]
Pixels = list[list[Color | None]]
"""Row by row; `None` where nothing was drawn. Colours are in percent."""

_STRING: Final = re.compile(r"\x1bP([\d;]*)q([^\x1b]*)\x1b\\\n")
_TOKEN: Final = re.compile(
    r'"(?P<raster>[\d;]+)|#(?P<color>[\d;]+)|!(?P<count>\d+)(?P<repeated>[?-~])'
    r"|(?P<letter>[?-~])|(?P<back>\$)|(?P<next>-)"
)


def decode_sixel(told: str) -> Pixels:
    """The picture that a terminal shows which is written this, and nothing else."""
    string = _STRING.fullmatch(told)
    assert string is not None, told[:100]
    assert string[1].split(";")[1] == "1", "what is not drawn stays as it was"
    body, at, row, column = string[2], 0, 0, 0
    colors: dict[int, Color] = {}
    color: Color | None = None
    pixels: Pixels = []
    width = 0
    while at < len(body):
        token = _TOKEN.match(body, at)
        assert token is not None, body[at : at + 20]
        at = token.end()
        if token["raster"]:
            assert not pixels, "it stands before all pixels"
            _, _, width, height = map(int, token["raster"].split(";"))
            pixels = [[None] * width for _ in range(height)]
        elif token["color"]:
            number, *spec = map(int, token["color"].split(";"))
            if spec:
                assert spec[0] == 2, "red, green, blue"
                assert max(spec[1:]) <= 100
                colors[number] = (spec[1], spec[2], spec[3])
            color = colors[number]
        elif token["back"]:
            column = 0
        elif token["next"]:
            row, column = row + 6, 0
        else:
            letter = token["letter"] or token["repeated"]
            count = int(token["count"] or 1)
            for bit in range(6):
                if (ord(letter) - 63) >> bit & 1:
                    pixels[row + bit][column : column + count] = [color] * count
            column += count
            assert all(len(line) == width for line in pixels), "nothing stands beside the picture"
    return pixels
