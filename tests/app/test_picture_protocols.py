"""Terminals that draw pictures are told of them in their own protocol, all others of nothing."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Final

from media_samples import JPEG, PDF, attachment, chunk, png
from treadle.app.threads.picture_protocols import draw_picture, find_picture_protocol

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
    misses = [(env, want) for env, want in TERMINALS if find_picture_protocol(env) != want]
    assert misses == []


def test_iterm2_is_told_the_bytes_and_no_name() -> None:
    told = draw_picture("iterm2", attachment(JPEG, "esc\x1b]0;x\a.jpg"), JPEG)
    found = re.fullmatch(
        r"\x1b\]1337;File=inline=1;size=(\d+);width=1;preserveAspectRatio=1:([^\a\x1b]+)\a\n", told
    )
    assert found is not None
    assert (int(found[1]), b64decode(found[2])) == (len(JPEG), JPEG)


def test_kitty_is_told_a_png_in_pieces() -> None:
    large = png(3000, 2, chunk(b"tEXt", bytes(range(256)) * 40))
    told = draw_picture("kitty", attachment(large), large)
    pieces = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", told)
    assert "".join(f"\x1b_G{head};{body}\x1b\\" for head, body in pieces) + "\n" == told
    heads = [head for head, _ in pieces]
    assert heads == ["a=T,f=100,q=2,c=60,m=1", *["m=1"] * (len(pieces) - 2), "m=0"]
    assert max(len(body) for _, body in pieces) <= 4096
    assert b64decode("".join(body for _, body in pieces)) == large


def test_what_a_terminal_does_not_draw_is_left_out() -> None:
    assert draw_picture("kitty", attachment(JPEG), JPEG) == ""
    assert draw_picture("iterm2", attachment(PDF), PDF) == ""
    assert draw_picture("", attachment(png()), png()) == ""
