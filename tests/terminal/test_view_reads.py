"""Reads in a row are one line, and what is written is laid out while it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from case_tables import for_every_row
from terminal.recording import drawn
from terminal.test_view import BASH, Scene, call, ended, failed, finished
from treadle import outputs
from treadle.core.messages import Message, ToolCall
from treadle.core.tools import ToolErrorKind
from treadle.outputs import Output
from treadle.terminal.live_markdown import LiveMarkdown
from treadle.terminal.styles import prompt_style


def reads(*paths: str) -> list[ToolCall]:
    return [call("read_file", f"r{n}", path=path) for n, path in enumerate(paths)]


def test_reads_in_a_row_are_one_line_also_over_several_rounds() -> None:
    scene = Scene()
    for one in reads("a.py", "b.py", "a.py"):
        scene.show(outputs.ToolStarted(one), ended(one, "text"))
    assert scene.terminal.text() == ""
    assert scene.terminal.live() == "● read 2 files  a.py, b.py"
    search, listing = call("search_files", "s", pattern="x"), call("list_files", "l")
    scene.show(ended(search, "a.py:1: x"), ended(listing, "a.py"))
    scene.stream("So.\n\n")
    assert scene.terminal.text().splitlines() == [
        *("", "● read 2 files, searched once, listed 1 folder  a.py, b.py", "", "So.")
    ]
    assert scene.terminal.live() == ""


@for_every_row(
    "follows",
    [
        lambda: outputs.ToolStarted(BASH),
        lambda: outputs.ApprovalRequested("t", ()),
        lambda: outputs.TextDelta("so"),
        lambda: outputs.Notice("told"),
        finished,
        lambda: outputs.InputDelivered("and"),
        lambda: failed(call("read_file", "r9", path="no"), ToolErrorKind.IO, "no"),
    ],
)
def test_reads_stand_above_whatever_follows_them(follows: Callable[[], Output]) -> None:
    scene = Scene()
    for one in reads("a.py", "b.py"):
        scene.show(outputs.ToolStarted(one), ended(one, "text"))
    assert scene.show(follows()).splitlines()[:2] == ["", "● read 2 files  a.py, b.py"]


def test_a_single_read_shows_what_it_has_read_and_one_that_failed_is_none() -> None:
    scene = Scene()
    one, two = reads("a.py", "b.py")
    scene.show(outputs.ToolStarted(one), outputs.ToolStarted(two))
    text = scene.show(ended(one, "A"), failed(two, ToolErrorKind.IO, "gone"))
    assert text.splitlines() == [
        *("", "● read_file a.py  0.0 s", "  A", ""),
        *(f"✗ read_file b.py  failed: {ToolErrorKind.IO.value}  0.0 s", "  gone"),
    ]


def test_a_plain_terminal_is_told_of_each_read() -> None:
    scene = Scene(is_plain=True)
    text = scene.show(*(ended(one, "text") for one in reads("a.py", "b.py")))
    assert text.splitlines() == [
        *("", "done: read_file", "  text", "", "done: read_file", "  text")
    ]


def test_reads_in_a_row_are_one_line_also_when_a_thread_goes_on() -> None:
    scene = Scene()
    one, two, three = reads("a.py", "b.py", "c.py")
    messages = [
        Message.user("look"),
        *(Message.assistant("", (one, two)), Message.tool(one, "A"), Message.tool(two, "B")),
        *(Message.assistant("", (three,)), Message.tool(three, "C")),
        Message.assistant("Seen."),
        *(Message.assistant("", (one,)), Message.tool(one, "A")),
    ]
    assert drawn(*scene.view.history_blocks(messages)).splitlines() == [
        *("", "> look", "", "● read 3 files  a.py, b.py, c.py", "", "Seen."),
        *("", "● read_file a.py", "  A"),
    ]


STREAMED = {
    "a table from its first row": ("| a | b |\n", ["a   b", "─────"]),
    "a table whose rule comes": ("| a | b |\n|--", ["a   b", "─────"]),
    "a table with half a row": ("|a|b|\n|-|-|\n|1|2|\n|3", ["a   b", "─────", "1   2", "3"]),
    "code from its first line": ("```py\nx = 1", ["  x = 1"]),
    "code behind its fence": ("```py\n", []),
    "code with half a fence": ("```py\nx\n``", ["  x"]),
    "a heading": ("## Wh", ["## Wh"]),
    "a list with half an item": ("- one\n- **tw", [" • one", " • tw"]),
    "a list with half a mark": ("- one\n-", [" • one"]),
    "a task": ("- [x] done\n- [ ] to", [" [x] done", " [ ] to"]),
    "half of some code": ("see `ls -", ["see ls -"]),
    "half of a closing mark": ("so **bold*", ["so bold"]),
    "an open mark": ("so **", ["so"]),
    "a quotation": ("> sai", ["▌ sai"]),
}


@for_every_row("text, lines", STREAMED.values())
def test_what_is_written_is_laid_out_from_its_first_line(text: str, lines: list[str]) -> None:
    scene = Scene()
    scene.stream(text)
    assert [line.rstrip() for line in scene.terminal.live().splitlines()] == lines


@pytest.mark.parametrize(
    ("start", "line", "shown"),
    [
        ("```py\n", "value = {}  # a comment\n", "  value = {}  # a comment"),
        ("| a | number |\n|---|---|\n", "| word | {} |\n", "word   {}"),
        ("- item\n", "- word {} and so on\n", " • word {} and so on"),
    ],
    ids=["code", "table", "list"],
)
def test_the_end_of_a_long_block_is_laid_out_as_what_it_is(
    start: str, line: str, shown: str
) -> None:
    scene = Scene()
    scene.stream(start + "".join(line.format(n) for n in range(300)), 100)
    scene.now_s += 1
    *_, last = scene.terminal.live().splitlines()
    assert last.rstrip() == shown.format(299)
    assert len(scene.terminal.live().splitlines()) <= 10


def test_colours_of_what_is_written_are_those_of_the_terminal() -> None:
    scene = Scene()
    scene.stream("```py\ndef f(): pass")
    (line,) = scene.view.live_lines(80)
    looks = {text.strip(): prompt_style(style) for style, text in line}
    assert looks["def"] == "fg:ansibrightblue"
    assert looks["f"] == "fg:ansibrightgreen"


def test_what_grows_is_laid_out_ten_times_a_second_and_no_more_often() -> None:
    live = LiveMarkdown()
    assert live.lines("# a", 80, 1.0) == live.lines("# a b", 80, 1.05)
    assert live.lines("# a b", 80, 1.2) != live.lines("# other", 80, 1.2)
