"""What every terminal promises to the chat, and both kinds keep."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from terminal.conftest import StartToy
from terminal.harness import ESC, ctrl
from treadle.terminal.choice_dialog import VISIBLE_S_MIN

KINDS = pytest.mark.parametrize("kind", [(), ("--plain",)], ids=["drawn", "plain"])


@KINDS
def test_what_is_entered_is_submitted_and_what_is_committed_stays(
    toy: StartToy, kind: tuple[str, ...]
) -> None:
    screen = toy(*kind)
    screen.type("hello\r")
    screen.wait_for("submitted 'hello'")
    screen.wait_for(lambda s: ">" in s.text.partition("submitted 'hello'")[2] or not kind)
    screen.type("lines 50\r")
    screen.wait_for("line 49")
    assert [f"line {number}" in screen.text.splitlines() for number in range(50)] == [True] * 50
    assert screen.text.count("a toy") == 1


@KINDS
def test_what_steers_a_terminal_is_shown_as_a_mark(toy: StartToy, kind: tuple[str, ...]) -> None:
    screen = toy(*kind)
    screen.type("hostile\r")
    for shown in ("committed", "queued", *(() if kind else ("live", "model"))):
        screen.wait_for(f"\N{REPLACEMENT CHARACTER}[2J{shown}" if shown != "live" else "[2Jlive")
    assert b"\x1b[2J" not in screen.raw


@KINDS
def test_a_choice_is_made_by_its_key_in_either_case(toy: StartToy, kind: tuple[str, ...]) -> None:
    screen = toy(*kind)
    for key in ("Y", "n"):
        screen.type("ask\r")
        screen.wait_for(lambda s: s.shown.rfind("May it?") > s.shown.rfind("chose"))
        if kind:
            screen.wait_for(lambda s: "choice:" in s.shown[s.shown.rfind("May it?") :])
            screen.read_for(VISIBLE_S_MIN)
            screen.type(f"{key}\r")
        else:
            screen.answer(key)
        screen.wait_for(f"chose {key.lower()}")


@KINDS
def test_a_text_is_entered_or_thought_better_of(toy: StartToy, kind: tuple[str, ...]) -> None:
    screen = toy(*kind)
    screen.type("enter\r")
    screen.wait_for("A name")
    screen.type("Ada\r")
    screen.wait_for("entered 'Ada'")
    screen.type("enter\r")
    screen.wait_for(lambda s: "A name" in s.text.rpartition("entered")[2])
    screen.type(ctrl("d") if kind else ESC)
    screen.wait_for("entered None")


@KINDS
def test_a_row_is_found_and_picked(toy: StartToy, kind: tuple[str, ...]) -> None:
    screen = toy(*kind)
    screen.type("pick\r")
    screen.wait_for("row 5")
    screen.type("77\r" if kind else "77")
    # What was typed stands before the list is drawn anew: until then the heading has scrolled away.
    screen.wait_for(
        lambda s: (
            "Which" in s.shown and "row 77" in s.lines[s.line_with("Which") :][1 if kind else 2]
        )
    )
    screen.type("1\r" if kind else "\r")
    screen.wait_for("picked 'v77'")


@KINDS
def test_what_a_search_raises_is_raised_to_who_asked(toy: StartToy, kind: tuple[str, ...]) -> None:
    screen = toy(*kind)
    screen.type("pick\r")
    screen.wait_for("row 5")
    screen.type("broken\r")
    screen.wait_for("failed broken")
    screen.type("hello\r")
    screen.wait_for("submitted 'hello'")


@KINDS
def test_who_is_away_has_a_usual_terminal_and_gives_it_back(
    toy: StartToy, kind: tuple[str, ...]
) -> None:
    screen = toy(*kind)
    screen.type("away stty -a; read -p name: x; echo said $x\r")
    screen.wait_for("name:")
    assert screen.is_cooked
    assert "\n> " not in screen.shown[screen.shown.rfind("name:") :]
    screen.type("Ada\r")
    screen.wait_for("said Ada")
    screen.wait_for("back 0")
    screen.type("away false\r")
    screen.wait_for("raised away")
    screen.type("away stty raw -echo; kill -9 $$\r")
    screen.wait_for("back -9")
    screen.type("hello\r")
    screen.wait_for("submitted 'hello'")


@KINDS
def test_ctrl_c_reaches_a_command_and_not_the_chat(toy: StartToy, kind: tuple[str, ...]) -> None:
    screen = toy(*kind)
    screen.type("away echo begun; exec sleep 60\r")
    screen.wait_for(lambda s: "begun" in s.lines)
    screen.type(ctrl("c"))
    screen.wait_for("back -2")
    assert "interrupt" not in screen.text


@KINDS
def test_what_is_queued_is_shown(toy: StartToy, kind: tuple[str, ...]) -> None:
    screen = toy(*kind)
    screen.type("work\r")
    screen.wait_for("at work")
    screen.type("use tabs\r")
    screen.wait_for("heard after this round of tools: use tabs" if kind else "» use tabs")
    screen.type("> then commit\r" if kind else "then commit\t")
    screen.wait_for("turn: then commit" if kind else "» then commit  (after this turn)")


@KINDS
def test_the_end_of_the_input_leaves_and_a_stop_leaves_the_screen_tidy(
    toy: StartToy, kind: tuple[str, ...]
) -> None:
    screen = toy(*kind)
    screen.type(ctrl("d"))
    assert screen.wait_for_end() == 0
    assert screen.is_cooked
    assert screen.is_cursor_visible
    assert screen.shown.splitlines()[-2:] == ["bye", "ended"]


@KINDS
def test_a_stop_from_outside_gives_the_terminal_back_in_the_middle_of_a_question(
    toy: StartToy, kind: tuple[str, ...]
) -> None:
    screen = toy(*kind)
    screen.type("ask\r")
    screen.wait_for("always")
    os.kill(screen.process.pid, 15)
    assert screen.wait_for_end() == 0
    assert screen.is_cooked
    assert screen.is_cursor_visible
    assert screen.lines[screen.cursor[0] - 1] == "ended"


@KINDS
def test_without_colours_none_are_sent(toy: StartToy, kind: tuple[str, ...]) -> None:
    screen = toy(*kind, NO_COLOR="1")
    screen.type("facts\r")
    screen.type("ask\r")
    screen.wait_for("always")
    assert re.search(rb"\x1b\[[0-9;]*[349][0-7]m", screen.raw) is None


def test_a_terminal_that_cannot_draw_gets_lines(toy: StartToy, tmp_path: Path) -> None:
    screen = toy(TERM="dumb")
    screen.type("hello\r")
    screen.wait_for("submitted 'hello'")
    assert b"\x1b" not in screen.raw
