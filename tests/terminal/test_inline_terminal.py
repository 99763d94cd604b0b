"""What the drawn terminal promises beyond every terminal: nothing flickers, breaks or is lost."""

from __future__ import annotations

import os
import re
import signal
import sys
import tty
from collections.abc import Iterator
from pathlib import Path

import pyte
import pytest

from terminal.conftest import BRACKETED, TESTS, StartToy
from terminal.harness import ENTER, Screen, ctrl, is_empty_input, pasted
from treadle.terminal.buffered_output import BEHIND_SIZE
from treadle.terminal.choice_dialog import QUIET_S
from treadle.terminal.layout import INPUT_LINES_MAX
from treadle.terminal.writer import OutputWriter

BEGIN, END = b"\x1b[?2026h", b"\x1b[?2026l"


def pictures(raw: bytes, columns: int = 80, rows: int = 24) -> Iterator[list[str]]:
    """The screens that a terminal shows which draws nothing between `BEGIN` and `END`."""
    screen = pyte.Screen(columns, rows)
    stream = pyte.ByteStream(screen)
    for piece in raw.split(END):
        stream.feed(piece.replace(BEGIN, b""))
        yield [line.rstrip() for line in screen.display]


def test_the_input_never_leaves_the_screen_while_blocks_are_committed(toy: StartToy) -> None:
    screen = toy()
    screen.type("facts" + ENTER)
    screen.wait_for("private")
    at = len(screen.raw)
    screen.type("stream 400" + ENTER)
    screen.type("typed meanwhile")
    screen.wait_for("streamed")
    screen.wait_for_shown("> typed meanwhile")
    raw = bytes(screen.raw)
    rests = raw[at:].count(END)
    assert rests > 3, "nothing was held together"
    for picture in list(pictures(raw))[-rests:]:
        assert any(line.startswith(">") for line in picture), picture
        assert any("private" in line for line in picture), picture
    blocks = [line for line in screen.text.splitlines() if line.startswith("block")]
    assert blocks == [f"block {number}" for number in range(0, 400, 3)]


def test_what_is_erased_and_drawn_is_one_write(toy: StartToy) -> None:
    screen = toy()
    screen.type("stream 30" + ENTER)
    screen.wait_for("streamed")
    raw = bytes(screen.raw)
    for block in re.finditer(rb"block \d+", raw):
        assert raw.rfind(BEGIN, 0, block.start()) > raw.rfind(END, 0, block.start())


def test_what_is_live_is_no_higher_than_the_screen(toy: StartToy) -> None:
    screen = toy(rows=12)
    screen.type("tall 100" + ENTER)
    screen.wait_for_shown("tall 99")
    assert not any("tall 0" in line for line in screen.scrollback)
    assert is_empty_input(screen.lines[screen.cursor[0]])
    screen.type("tall 0" + ENTER)
    screen.wait_until_gone("tall 99")
    assert screen.cursor[0] <= 3, "the input came up again"
    assert "tall" not in screen.text


@pytest.mark.parametrize("columns", [20, 10])
def test_a_narrow_screen_breaks_nothing(toy: StartToy, columns: int) -> None:
    screen = toy(columns=columns, rows=12)
    screen.type("facts" + ENTER + "stream 10" + ENTER)
    screen.wait_for("streamed")
    screen.type("ask" + ENTER)
    screen.answer("n")
    screen.wait_for("chose n")
    screen.type("漢字" * 30)
    screen.wait_for(lambda s: s.shown.count("漢") >= 5)
    screen.type(ENTER)
    screen.wait_for("submi")
    screen.wait_for(lambda s: is_empty_input(s.lines[s.cursor[0]]))


def test_a_resize_while_streaming_keeps_what_was_committed_and_the_input(toy: StartToy) -> None:
    screen = toy()
    screen.type("stream 400" + ENTER)
    screen.type("typed")
    for columns, rows in ((40, 10), (100, 30), (25, 8), (80, 24)):
        seen = screen.text.count("block")
        screen.resize(columns, rows)
        screen.wait_for(
            lambda s, seen=seen: s.text.count("block") > seen or "streamed" in s.text  # type: ignore[misc]
        )
    screen.wait_for("streamed")
    screen.wait_for(lambda s: s.lines[s.cursor[0]] == "> typed")
    blocks = set(re.findall(r"^block (\d+)$", screen.text, re.MULTILINE))
    missing = {f"{number}" for number in range(0, 400, 3)} - blocks
    assert len(missing) < 8, missing  # what was on its way was drawn for the old size


def test_keys_typed_before_anything_was_imported_are_not_lost(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "terminal.toy", str(tmp_path / "history")]
    environment = {"PYTHONPATH": str(TESTS), "HOME": str(tmp_path)}
    with Screen(command, cwd=tmp_path, env=environment) as screen:
        screen.wait_for(">")
        screen.type("early\rbird")
        screen.wait_for("submitted 'early'")
        screen.wait_for_shown("> bird")
        assert screen.text.count("a toy") == 1


def test_a_signal_gives_the_terminal_back_before_the_input_hears_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "terminal.toy", str(tmp_path / "history")]
    environment = {"PYTHONPATH": str(TESTS), "HOME": str(tmp_path)}
    with Screen(command, cwd=tmp_path, env=environment) as screen:
        screen.wait_for("a toy")
        os.kill(screen.process.pid, signal.SIGTERM)
        assert screen.wait_for_end() == 0
        assert screen.is_cooked
        assert screen.is_cursor_visible


def test_nothing_is_asked_but_the_background_and_no_screen_is_switched(toy: StartToy) -> None:
    screen = toy()
    screen.type("facts" + ENTER + "ask" + ENTER)
    screen.answer("y")
    screen.wait_for("chose y")
    screen.type(ctrl("d"))
    assert screen.wait_for_end() == 0
    asked = re.compile(rb"\x1b\[(\?|>)?\d*(n|c)|\x1b\]10;\?|\x1b\[\?(1049|47|1047)h|\x1b\[\?100\d")
    assert asked.search(bytes(screen.raw)) is None
    assert screen.raw.count(b"\x1b]11;?") <= 1
    assert screen.raw.rfind(b"\x1b[?2004l") > screen.raw.rfind(b"\x1b[?2004h")


def test_a_paste_is_not_run_by_the_lines_in_it(toy: StartToy) -> None:
    screen = toy()
    screen.type(pasted("one\r\ntwo\rthree\n"))
    screen.wait_for_shown("three")
    assert "submitted" not in screen.text
    screen.type(ENTER)
    screen.wait_for(r"submitted 'one\ntwo\nthree'")
    many = "\n".join("x" for _ in range(3 * INPUT_LINES_MAX))
    screen.type(pasted(many))
    screen.wait_for(lambda s: sum(line.strip(" >") == "x" for line in s.lines) == INPUT_LINES_MAX)


def test_keys_are_heard_while_a_long_output_is_laid_out(toy: StartToy, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    screen = toy()
    screen.type(f"soon {tmp_path / 'fifo'}" + ENTER)
    with (tmp_path / "fifo").open("w") as fifo:  # opened as soon as the other end is
        screen.type(f"soon {tmp_path / 'other'}" + ENTER + "meanwhile")
        screen.wait_for_shown("> meanwhile")
        fifo.write("all of it")
    screen.wait_for_shown("all of it")
    screen.type(ENTER)
    screen.wait_for("submitted 'meanwhile'")


def test_a_long_output_does_not_push_a_question_away(toy: StartToy, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    screen = toy()
    screen.type(f"soon {tmp_path / 'fifo'}" + ENTER)
    with (tmp_path / "fifo").open("w") as fifo:
        screen.type("ask" + ENTER)
        screen.wait_for_shown("▸ y")
        fifo.write("all of it")
    screen.answer("y")
    screen.wait_for("all of it")
    assert screen.text.index("chose y") < screen.text.index("all of it")


def test_what_was_said_stands_before_what_a_program_prints_that_gets_the_screen(
    toy: StartToy,
) -> None:
    screen = toy()
    screen.type("away echo th''ere" + ENTER)
    screen.wait_for("back 0")
    said = [line for line in screen.text.splitlines() if line in ("away", "there", "back 0")]
    assert said == ["away", "there", "back 0"]


def test_who_asks_for_another_output_meanwhile_is_told(toy: StartToy, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    screen = toy()
    screen.type(f"soon {tmp_path / 'fifo'}" + ENTER + f"soon {tmp_path / 'other'}" + ENTER)
    screen.wait_for_shown("one at a time")


def test_the_end_does_not_wait_for_a_long_output(toy: StartToy, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    screen = toy()
    screen.type(f"soon {tmp_path / 'fifo'}" + ENTER)
    with (tmp_path / "fifo").open("w"):  # opened as soon as the other end is
        screen.type(ctrl("d"))
        assert screen.wait_for_end() == 0


def test_a_paste_is_no_answer(toy: StartToy) -> None:
    screen = toy()
    screen.type("ask" + ENTER)
    screen.wait_for_shown("▸ y")
    screen.type(pasted("y"))
    screen.wait_for_shown("Enter takes what is marked")
    assert "▸ n" in screen.shown
    screen.read_for(QUIET_S + 0.1)
    screen.answer("a" + ENTER)
    screen.wait_for("chose")
    assert screen.text.count("chose a") == 1


def test_a_terminal_that_is_gone_ends_the_chat_even_if_no_signal_tells(tmp_path: Path) -> None:
    toy = [sys.executable, "-m", "terminal.toy", str(tmp_path / "history")]
    command = ["sh", "-c", "trap '' HUP; exec \"$@\"", "sh", *toy]
    environment = {"PYTHONPATH": str(TESTS), "HOME": str(tmp_path)}
    with Screen(command, cwd=tmp_path, env=environment) as screen:
        screen.wait_for(lambda s: BRACKETED in s.raw)
        screen.close_window()
        screen.process.wait(60)


def test_a_terminal_that_nobody_reads_is_not_waited_for_and_loses_nothing_when_it_is_read() -> None:
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    writer = OutputWriter(theirs)
    data = b"".join(b"%d\n" % number for number in range(50_000))
    writer.put(data)
    assert not writer.drain()
    assert writer.pending_size > BEHIND_SIZE
    found = bytearray()
    while len(found) < len(data):
        found += os.read(ours, 65_536)
    assert found == data
    assert writer.drain()
    os.close(ours)
    writer.put(b"gone")
    assert writer.drain()


def test_what_was_said_while_nobody_read_is_shown_though_a_key_was_drawn_meanwhile(
    toy: StartToy,
) -> None:
    screen = toy()
    screen.type("lines 40000" + ENTER)
    screen.look_away(2)
    screen.type("lines 1" + ENTER)
    screen.look_away(0.1)
    screen.type("abc")
    screen.look_away(0.5)
    screen.wait_for_shown("> abc")
    screen.wait_for("39999\nline 0\n")


def test_output_that_does_not_wait_gets_all_that_is_written_in_order() -> None:
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    writer = OutputWriter(theirs)
    data = b"".join(b"%d\n" % number for number in range(50_000))
    writer.put(data)
    assert not writer.drain()
    found = bytearray()
    while len(found) < len(data):
        found += os.read(ours, 65_536)
    assert found == data
    assert writer.drain()
    writer.put(data)
    assert not writer.drain()
    os.close(ours)
    assert writer.drain()  # what nobody can read any more is waited for by nobody
