"""The plain terminal: lines in, lines out, nothing that is drawn anew."""

from __future__ import annotations

import os
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from terminal.conftest import TESTS, StartToy
from terminal.harness import Hand, Screen, ctrl, steadily
from treadle.terminal.choice_dialog import VISIBLE_S_MIN
from treadle.terminal.keys import QUIT_WITHIN_S


@pytest.fixture
def plain(toy: StartToy) -> Screen:
    screen = toy("--plain")
    screen.wait_for("a toy\n> ".rstrip())
    return screen


def test_a_line_that_ends_with_a_backslash_goes_on_in_the_next(plain: Screen) -> None:
    plain.type("one\\\rtwo\\\rthree\r")
    plain.wait_for(r"submitted 'one\ntwo\nthree'")


def test_empty_lines_say_nothing(plain: Screen) -> None:
    plain.type("\r  \rhello\r")
    plain.wait_for("submitted 'hello'")
    assert plain.text.count("submitted") == 1


def test_ctrl_c_interrupts_and_twice_quits(toy: StartToy) -> None:
    def press(hand: Hand) -> Screen:
        plain = toy("--plain")
        plain.wait_for("a toy\n>")
        plain.type("work\r")
        plain.wait_for("at work")
        hand.begin()
        plain.type("half a line" + ctrl("c"))
        plain.wait_for("interrupt True")
        plain.type(ctrl("c"))
        plain.wait_for(lambda s: "bye" in s.text or "interrupt False" in s.text)
        hand.comes_within(QUIT_WITHIN_S)
        return plain

    plain = steadily(press)
    assert "interrupt False" not in plain.text
    assert plain.wait_for_end() == 0
    assert "bye" in plain.text
    assert "submitted" not in plain.text


def test_a_first_ctrl_c_at_rest_says_what_a_second_does(plain: Screen) -> None:
    plain.type(ctrl("c"))
    plain.wait_for("Ctrl+C again: quit")


def test_what_is_no_choice_is_asked_again(plain: Screen) -> None:
    plain.type("ask\r")
    plain.wait_for("your choice:")
    plain.read_for(VISIBLE_S_MIN)
    plain.type("maybe\r")
    plain.wait_for("one of: y, a, n\nyour choice:")  # from here the question stands
    plain.read_for(VISIBLE_S_MIN)
    plain.type("ALWAYS\r")
    plain.wait_for("chose a")


def test_lines_typed_before_a_question_do_not_answer_it(plain: Screen, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    plain.type(f"wait {tmp_path / 'fifo'}\r")
    plain.wait_for(lambda s: "> wait" in s.shown and s.shown.endswith("\n>"))
    plain.type("y")
    modes = termios.tcgetattr(plain.terminal)
    assert modes[3] & termios.ICANON  # the y waits in the terminal for its Enter
    plain.wait_for(lambda s: s.shown.endswith("y"))
    (tmp_path / "fifo").write_text("")
    plain.wait_for("your choice:")
    plain.read_for(VISIBLE_S_MIN)
    plain.type("n\r")
    plain.wait_for("chose n")


def test_a_text_that_stands_there_is_kept_by_an_empty_line(plain: Screen) -> None:
    plain.type("enter Ada\r")
    plain.wait_for("A name, now:\nAda\nA name:")
    plain.type("\r")
    plain.wait_for("entered 'Ada'")
    plain.type("long\r")
    plain.wait_for("A text:")
    plain.type("one\\\rtwo\r")
    plain.wait_for(r"entered 'one\ntwo'")


def test_no_row_is_picked_by_an_empty_line(plain: Screen) -> None:
    plain.type("pick\r")
    plain.wait_for("20: row 19 (detail 19)\nand 80 more")
    plain.type("nowhere\r")
    plain.wait_for("nothing found")
    plain.type("\r")
    plain.wait_for("picked None")


def test_lines_from_a_pipe_are_heard_and_its_end_leaves(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "terminal.toy", str(tmp_path / "history")],
        cwd=tmp_path,
        env={"PYTHONPATH": str(TESTS), "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
        input=b"hello\nwithout an end",
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.removeprefix("> ") for line in done.stdout.decode().splitlines()]
    assert [line for line in lines if line.startswith("submitted")] == [
        "submitted 'hello'",
        "submitted 'without an end'",
    ]
    assert lines[-1] == "ended"
    assert b"\x1b" not in done.stdout


def test_bytes_that_are_no_text_are_heard_as_marks(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"a\xff\xe6\xbc\xa2b\n")
    with (tmp_path / "lines").open("rb") as lines:  # a file is always ready, other than a pipe
        done = subprocess.run(
            [sys.executable, "-m", "terminal.toy", str(tmp_path / "history"), "--plain"],
            cwd=tmp_path,
            env={"PYTHONPATH": str(TESTS), "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"},
            stdin=lines,
            capture_output=True,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    assert "submitted 'a\N{REPLACEMENT CHARACTER}漢b'" in done.stdout.decode()
