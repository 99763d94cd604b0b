"""Terminals that draw pictures are told of them in their own protocol, all others of nothing."""

from __future__ import annotations

import re
import sys
from base64 import b64decode
from io import BytesIO
from random import Random
from typing import Final

import pytest
from msgspec.structs import replace
from PIL import Image

from app.sixel_decoder import decode_sixel
from media_samples import JPEG, PDF, attachment, chunk, png
from treadle.app.threads.picture_pixels import NO_PILLOW, IndexedPicture
from treadle.app.threads.picture_protocols import (
    SIDE_MAX,
    DrawnPicture,
    draw_picture,
    find_picture_protocol,
)
from treadle.app.threads.sixel import encode_sixel
from treadle.core.media import IMAGE_SIZE_MAX

TERMINALS: Final = (
    ({"TERM": "xterm-kitty"}, "kitty"),
    ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
    ({"TERM": "xterm-ghostty", "TERM_PROGRAM": "ghostty"}, "kitty"),
    ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm2"),
    ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, "iterm2"),
    ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "iterm2"),
    ({"TERM": "xterm-256color"}, ""),
    ({"TERM": "tmux-256color", "TERM_PROGRAM": "iTerm.app", "TMUX": "/tmp/t"}, ""),
    ({"TERM": "screen", "KITTY_WINDOW_ID": "1"}, ""),
    ({"TERM": "dumb", "LC_TERMINAL": "iTerm2"}, ""),
    ({}, ""),
)


def test_the_environment_says_what_a_terminal_draws() -> None:
    asked: list[bool] = []

    def ask() -> bool:
        asked.append(True)
        return False

    misses = [(env, want) for env, want in TERMINALS if find_picture_protocol(env, ask) != want]
    assert misses == []
    assert len(asked) == 1, "only a terminal of which nothing is known, and no multiplexer"
    assert find_picture_protocol({"TERM": "xterm-256color"}, lambda: True) == "sixel"


def test_iterm2_is_told_the_bytes_and_no_name() -> None:
    told = draw_picture("iterm2", attachment(JPEG, "esc\x1b]0;x\a.jpg"), JPEG).escapes
    found = re.fullmatch(
        r"\x1b\]1337;File=inline=1;size=(\d+);width=1;preserveAspectRatio=1:([^\a\x1b]+)\a\n", told
    )
    assert found is not None
    assert (int(found[1]), b64decode(found[2])) == (len(JPEG), JPEG)


def test_kitty_is_told_a_png_in_pieces() -> None:
    large = png(3000, 2, chunk(b"tEXt", bytes(range(256)) * 40))
    told = draw_picture("kitty", attachment(large), large).escapes
    pieces = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", told)
    assert "".join(f"\x1b_G{head};{body}\x1b\\" for head, body in pieces) + "\n" == told
    heads = [head for head, _ in pieces]
    assert heads == ["a=T,f=100,q=2,c=60,m=1", *["m=1"] * (len(pieces) - 2), "m=0"]
    assert max(len(body) for _, body in pieces) <= 4096
    assert b64decode("".join(body for _, body in pieces)) == large


def test_what_a_terminal_does_not_draw_is_left_out() -> None:
    assert draw_picture("iterm2", attachment(PDF), PDF) == DrawnPicture()
    assert draw_picture("", attachment(png()), png()) == DrawnPicture()


def make(kind: str, size: tuple[int, int] = (31, 20), mode: str = "RGBA") -> bytes:
    """A picture in few colours, clear at its left edge."""
    image = Image.new("RGBA", size, (255, 0, 0, 255))
    image.paste((0, 51, 255, 255), (5, 3, size[0], size[1] - 4))
    image.paste((0, 0, 0, 0), (0, 0, 2, size[1]))
    written = BytesIO()
    image.convert(mode).save(written, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return written.getvalue()


def test_sixel_shows_the_pixels_of_a_picture() -> None:
    """Twenty rows are three bands and a piece of one; the terminal here is not ours."""
    for kind in ("PNG", "GIF", "WEBP"):
        data = make(kind)
        pixels = decode_sixel(draw_picture("sixel", attachment(data), data).escapes)
        assert (len(pixels), {len(row) for row in pixels}) == (20, {31}), kind
        for y, row in enumerate(pixels):
            blue = (0, 20, 100) if 3 <= y < 16 else (100, 0, 0)
            wanted = [None] * 2 + [(100, 0, 0)] * 3 + [blue] * 26
            assert row == wanted, (kind, y)


def test_a_photo_comes_close_and_a_large_one_is_made_small() -> None:
    gradient = Image.linear_gradient("L").resize((900, 300))
    for image in (gradient, Image.merge("RGB", [gradient, gradient.rotate(180), gradient])):
        written = BytesIO()
        image.save(written, "JPEG")
        data = written.getvalue()
        told = draw_picture("sixel", attachment(data), data).escapes
        pixels = decode_sixel(told)
        assert (len(pixels), len(pixels[0])) == (SIDE_MAX // 3, SIDE_MAX)
        small = image.convert("RGB").resize((SIDE_MAX, SIDE_MAX // 3))
        error = 0.0
        for y in range(0, SIDE_MAX // 3, 7):
            for x in range(0, SIDE_MAX, 11):
                got, true = pixels[y][x], small.getpixel((x, y))
                assert got is not None
                assert isinstance(true, tuple)
                error = max(error, *(abs(a - b / 2.55) for a, b in zip(got, true, strict=True)))
        assert error < 12, "percent"
        assert len(told) < 1_000_000


def test_any_pixels_are_drawn_as_they_are() -> None:
    random = Random(6)
    for _ in range(30):
        width, height = random.randrange(1, 40), random.randrange(1, 20)
        count = random.choice((1, 2, 7))
        picture = IndexedPicture(
            width,
            height,
            bytes(random.randrange(256) for _ in range(3 * count)),
            bytes(random.randrange(count) for _ in range(width * height)),
            random.choice((b"", bytes(random.randrange(2) for _ in range(width * height)))),
        )
        colors = [
            tuple(round(one / 2.55) for one in picture.palette[3 * n : 3 * n + 3])
            for n in range(count)
        ]
        flat = [
            colors[color] if not picture.shown or picture.shown[at] else None
            for at, color in enumerate(picture.pixels)
        ]
        rows = [flat[at : at + width] for at in range(0, len(flat), width)]
        assert decode_sixel(encode_sixel(picture) + "\n") == rows


def test_kitty_is_told_every_kind_as_png() -> None:
    for kind, mode in (("JPEG", "RGB"), ("GIF", "RGBA"), ("WEBP", "RGBA")):
        data = make(kind, (800, 30), mode)
        told = draw_picture("kitty", attachment(data), data).escapes
        sent = b64decode("".join(re.findall(r"\x1b_G[^;]*;([^\x1b]*)\x1b\\", told)))
        with Image.open(BytesIO(sent), formats=("PNG",)) as image:
            assert image.size == (SIDE_MAX, 18), kind


def test_what_cannot_be_unpacked_is_told_and_nothing_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = make("PNG", (300, 300))
    damaged = "not drawn: it is damaged, or of a kind that Pillow does not read"
    cases = {
        "cut": (whole[: len(whole) // 2], damaged),
        "noise": (whole[:33] + bytes(reversed(whole[33:])), damaged),
        "nothing": (b"", damaged),
        "another kind": (b"BM" + bytes(100), damaged),
        "a bomb": (png(20_000, 20_000), "not drawn: it has too many pixels"),
        "nearly one": (png(9_500, 9_500), "not drawn: it has too many pixels"),
        "large": (whole + bytes(IMAGE_SIZE_MAX), f"not drawn: it has more than {IMAGE_SIZE_MAX}"),
    }
    for name, (data, why) in cases.items():
        for protocol, kind in (("sixel", "image/png"), ("kitty", "image/gif")):
            given = replace(attachment(whole), media_type=kind)
            drawn = draw_picture(protocol, given, data)  # type: ignore[arg-type]
            assert (drawn.escapes, drawn.why.startswith(why)) == ("", True), (name, drawn.why)
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert draw_picture("sixel", attachment(whole), whole).why == f"not drawn: {NO_PILLOW}"
    assert draw_picture("kitty", attachment(whole), whole).escapes
