"""Themes: each can be read on its backgrounds, and the terminal's own is found without a wait."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color, ColorSystem

from terminal.conftest import StartToy
from treadle.terminal.background_color import (
    InputFilter,
    ThemeChoice,
    guess_dark,
    has_palette,
    may_ask,
    parse_dark,
)
from treadle.terminal.ports import STYLES
from treadle.terminal.styles import THEMES, choose_theme, rich_style, use_theme

ROOM = Path(__file__).parents[2] / "src/treadle/terminal"


@pytest.fixture(autouse=True)
def own_colours() -> None:
    """What a test has chosen holds for no other."""
    use_theme("terminal")


def brightness(colour: str) -> float:
    """The relative luminance of WCAG 2.2, from its definition."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((brightness(one), brightness(other)))
    return (light + 0.05) / (dark + 0.05)


def in_256_colours(colour: str) -> str:
    return Color.parse(colour).downgrade(ColorSystem.EIGHT_BIT).get_truecolor().hex


def test_every_colour_of_every_theme_can_be_read_on_its_backgrounds() -> None:
    poor = []
    for name, theme in THEMES.items():
        assert tuple(theme.styles) == STYLES, name
        for style, background in product(theme.styles, theme.backgrounds):
            written = theme.styles[style].rich
            if not written.startswith("#"):
                continue
            for colour in (written, in_256_colours(written)):
                found = contrast(colour, background)
                if found < theme.contrast_min:
                    poor.append((name, style, colour, background, round(found, 2)))
    assert poor == []
    assert all(theme.contrast_min >= 4.5 for theme in THEMES.values())


def test_both_kinds_of_drawing_have_the_same_colours() -> None:
    for name, theme in THEMES.items():
        if name != "terminal":
            for style in theme.styles.values():
                assert style.prompt in ("", "bold", f"fg:{style.rich}")


def test_no_other_module_of_the_room_names_a_colour() -> None:
    colour = re.compile(
        r"""["'](?:bold |dim )*(?:red|green|yellow|blue|magenta|cyan|white|black|bright_\w+)["']"""
        r"|ansi(?:red|green|yellow|blue|magenta|cyan|bright)|[\"']#[0-9a-f]{6}[\"']"
    )
    found = {
        path.name: colour.findall(path.read_text())
        for path in ROOM.rglob("*.py")
        if path.name != "styles.py"
    }
    assert {name: names for name, names in found.items() if names} == {}


def test_a_theme_is_chosen_by_the_setting_and_the_background() -> None:
    expected = {
        ("auto", None): "terminal",
        ("auto", True): "dark",
        ("auto", False): "light",
        ("high-contrast", None): "high-contrast-dark",
        ("high-contrast", True): "high-contrast-dark",
        ("high-contrast", False): "high-contrast-light",
        **{(one, is_dark): one for one in ("dark", "light") for is_dark in (None, True, False)},
    }
    assert {pair: choose_theme(*pair) for pair in expected} == expected
    assert set(expected.values()) == set(THEMES)


def test_backgrounds_are_told_from_answers_and_from_the_environment() -> None:
    answers = {
        "rgb:0000/0000/0000": True,
        "rgb:ffff/ffff/ffff": False,
        "rgb:fdfd/f6f6/e3e3": False,
        "rgba:28/2c/34/ff": True,
        "rgb:3b3b/4242/5252": True,
        "rgb:f/f/f": False,
        "?": None,
        "": None,
    }
    assert {answer: parse_dark(answer) for answer in answers} == answers
    guesses = {"15;0": True, "0;15": False, "0;default;7": False, "7;8": True, "x": None, "": None}
    assert {text: guess_dark({"COLORFGBG": text}) for text in guesses} == guesses
    assert not may_ask({"TERM": "linux"})
    assert may_ask({"TERM": "xterm-256color"})


def test_a_terminal_of_sixteen_colours_keeps_its_own() -> None:
    for environ in ({"TERM": "xterm"}, {"TERM": "screen", "COLORFGBG": "15;0"}):
        assert not has_palette(environ)
        choice = ThemeChoice(environ)
        choice.hear("rgb:0/0/0")
        choice.set_setting("light")
        assert rich_style("accent") == "cyan"
    ThemeChoice({"TERM": "xterm-256color", "COLORFGBG": "15;0"})
    assert rich_style("accent") == THEMES["dark"].styles["accent"].rich


class Pieces:
    """A reader that gives these pieces, one at a time."""

    closed = False

    def __init__(self, pieces: list[str]) -> None:
        self._pieces = pieces

    def read(self, count: int = 1024) -> str:
        return self._pieces.pop(0) if self._pieces else ""


TYPED = st.text("ab]1;\x1b[A\r織", max_size=12).filter(lambda text: "\x1b]" not in text)
"""Nothing that an answer begins with: that waits for its end."""


@given(TYPED, TYPED, st.sampled_from(["\x07", "\x1b\\"]), st.lists(st.integers(2, 26), max_size=4))
def test_an_answer_is_heard_and_never_typed_in_whatever_pieces_it_comes(
    before: str, after: str, end: str, cuts: list[int]
) -> None:
    answer = f"\x1b]11;rgb:ffff/ffff/ffff{end}"
    places = sorted({len(before) + cut for cut in cuts if cut < len(answer)})
    whole = before + answer + after
    pieces = [whole[a:b] for a, b in zip([0, *places], [*places, None], strict=True)]
    heard: list[str] = []
    reader = InputFilter(Pieces([*pieces, "x"]), heard.append)
    typed = "".join(reader.read() for _ in range(len(pieces) + 1))
    assert heard == ["rgb:ffff/ffff/ffff"]
    assert typed == f"{before}{after}x"


def test_esc_alone_waits_for_nothing() -> None:
    reader = InputFilter(Pieces(["\x1b", "\x1b[A", "x"]), lambda _: None)
    assert [reader.read() for _ in range(3)] == ["\x1b", "\x1b[A", "x"]
    reader = InputFilter(Pieces(["a\x1b", "]", "11;x\x07", "\x1b", "", "\x1b"]), lambda _: None)
    assert [reader.read() for _ in range(6)] == ["a\x1b", "]", "11;x\x07", "\x1b", "", "\x1b"]


@given(TYPED, TYPED, st.lists(st.integers(6, 25), max_size=3))
def test_an_answer_that_is_cut_behind_its_esc_is_not_typed(
    before: str, after: str, cuts: list[int]
) -> None:
    answer = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\"
    places = [1, *sorted({*cuts})]
    first, *others = [answer[a:b] for a, b in zip([0, *places], [*places, None], strict=True)]
    heard: list[str] = []
    reader = InputFilter(Pieces([before + first, *others, after, "x"]), heard.append)
    typed = "".join(reader.read() for _ in range(len(others) + 3))
    assert heard == ["rgb:ffff/ffff/ffff"]
    assert typed == f"{before}\x1b{after}x"


def test_the_terminal_is_asked_and_its_answer_colours_what_follows(toy: StartToy) -> None:
    screen = toy(TERM="xterm-256color", COLORTERM="truecolor")
    screen.wait_for(lambda s: b"\x1b]11;?\x1b\\" in s.raw)
    light = THEMES["light"].styles["accent"].rich
    escape = ";".join(str(int(light[at : at + 2], 16)) for at in (1, 3, 5)).encode()
    assert escape not in screen.raw
    screen.type("\x1b]11;rgb:ffff/ffff/ffff\x1b\\")
    screen.type("hello\r")
    screen.wait_for("submitted 'hello'")
    assert "rgb:" not in screen.text
    screen.type("ask\r")
    screen.wait_for("May it?")
    screen.wait_for(lambda s: b"38;2;" + escape in s.raw)


@pytest.mark.parametrize("extra", [{"NO_COLOR": "1"}, {"TERM": "linux"}])
def test_who_wants_no_colours_gets_none_and_a_console_is_asked_nothing(
    toy: StartToy, extra: dict[str, str]
) -> None:
    screen = toy(**{"TERM": "xterm-256color", "COLORFGBG": "15;0", **extra})
    screen.type("hello\r")
    screen.wait_for("submitted 'hello'")
    assert b"38;2" not in screen.raw
    assert b"38;5" not in screen.raw
    assert (b"\x1b]11;?" in screen.raw) == ("NO_COLOR" in extra)
