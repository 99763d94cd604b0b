"""What is told fits the terminal it is told on: its width, its colours, and whether one reads."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from case_tables import for_every_row
from cli.conftest import Run
from treadle.app.threads.call_text import describe_call, preview_output
from treadle.core.messages import ToolCall
from treadle.exit_codes import UNREAD
from treadle.pages.thread_cells import describe_age

Seen = Callable[..., str]


@pytest.fixture
def thread(treadle: Run, script: Callable[[str], str]) -> str:
    model = script('[[replies]]\ntext = "Yes."\n')
    treadle("-p", "織機 " * 20 + "a title that is longer than a line", "-m", model)
    return str(json.loads(treadle("list", "--json").stdout)[0]["id"])


@pytest.fixture
def seen(repository: Path, environment: dict[str, str]) -> Seen:
    """What the command shows on a terminal so many columns wide."""

    def show(*arguments: str, columns: int = 80, **extra: str) -> str:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        child = subprocess.Popen(
            [sys.executable, "-m", "treadle", *arguments],
            cwd=repository,
            env={**environment, "TERM": "xterm", "PAGER": "cat", **extra},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 4096):
                shown += piece
        except OSError:  # how Linux says that nobody has the other end any more
            pass
        os.close(ours)
        assert child.wait(timeout=60) == 0, shown
        return shown.decode()

    return show


@pytest.mark.parametrize("columns", [50, 80, 100, 200])
def test_a_list_has_one_row_of_the_terminal_for_each_thread(
    treadle: Run, seen: Seen, thread: str, columns: int
) -> None:
    (line,) = seen("list", columns=columns).splitlines()
    wide = sum(2 if character == "織" or character == "機" else 1 for character in line)
    assert wide <= columns
    assert line.endswith(f"  {thread[-8:]}")
    assert "織機" in line
    assert treadle("list").stdout.endswith(f"  {thread}\n")


def test_people_are_shown_short_ids_that_every_command_takes_and_programs_whole_ones(
    treadle: Run, seen: Seen, thread: str
) -> None:
    short = thread[-8:]
    shown = {
        arguments: seen(*arguments, columns=120)
        for arguments in (
            ("list",),
            ("search", "title"),
            ("pin", short),
            ("rename", short, "織機"),
            ("tag", short, "x"),
            ("note", short, "x"),
            ("verify", short),
            ("du",),
            ("trash", short),
            ("trash",),
            ("restore", short),
            ("fork", short),
        )
    }
    wrong = [words for words, told in shown.items() if thread in told]
    silent = [
        words for words in shown if words[0] not in ("tag", "show") and short not in shown[words]
    ]
    assert (wrong, silent) == ([], [])
    assert thread in treadle("list", "--json").stdout
    assert thread in treadle("pin", short).stderr


def test_how_long_ago_is_told_in_few_words() -> None:
    now = "2026-11-21T12:00:00.000000Z"
    told = {
        "2026-11-21T11:59:30.000000Z": "now",
        "2026-11-21T12:00:30.000000Z": "now",
        "2026-11-21T11:55:00.000000Z": "5 min ago",
        "2026-11-21T10:00:01.000000Z": "1 h ago",
        "2026-11-19T12:00:00.000000Z": "2 d ago",
        "2026-11-01T12:00:00.000000Z": "2 wk ago",
        "2026-08-01T12:00:00.000000Z": "2026-08-01",
        "2027-01-02T12:00:00.000000Z": "2027-01-02",
        "no time": "no time",
    }
    assert {at: describe_age(at, now) for at in told} == told


def test_what_takes_no_place_takes_none_from_the_title(
    treadle: Run, seen: Seen, thread: str
) -> None:
    title = "e\N{COMBINING ACUTE ACCENT}" * 20
    treadle("rename", thread, title)
    assert title in seen("list", columns=80)


@pytest.mark.parametrize("extra", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_who_wants_no_colours_gets_none(seen: Seen, thread: str, extra: dict[str, str]) -> None:
    for arguments in (("show", thread), ("doctor",), ("search", "title"), ("watch", thread)):
        assert "\x1b[" in seen(*arguments, NO_COLOR="")
        assert "\x1b[" not in seen(*arguments, **extra)


def test_a_diff_without_colours_still_steers_no_terminal(
    seen: Seen, treadle: Run, script: Callable[[str], str]
) -> None:
    command = "printf '\\\\033[2Jclear\\\\n' > x"
    arguments = f'{{ access = "write", command = "{command}" }}'
    call = f'[[replies.calls]]\ntool = "bash"\narguments = {arguments}\n'
    model = script(f'[[replies]]\n{call}[[replies]]\ntext = "Done."\n')
    treadle("-p", "go", "-m", model, "--approval-mode", "auto")
    made = json.loads(treadle("list", "--json").stdout)[0]["id"]
    assert "\x1b[32m" in seen("diff", made)
    shown = seen("diff", made, NO_COLOR="1")
    assert "clear" in shown
    assert "\x1b" not in shown


def test_who_reads_no_further_is_told_nothing(
    repository: Path, environment: dict[str, str], thread: str
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "treadle", "show", thread],
        cwd=repository,
        env=environment,
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (UNREAD, b"")


@for_every_row(
    "name, arguments, words",
    [
        ("shell", '{"command": ["bash", "-lc", "ls"]}', "shell bash -lc ls"),
        ("bash", '{"command": ["ls", "-l"]}', "$ ls -l"),
        ("look", '{"at": {"deep": 1}, "lines": [1, 2]}', "look 1 2"),
        ("list_files", "{}", "list_files"),
    ],
)
def test_words_in_a_row_are_told_as_words(name: str, arguments: str, words: str) -> None:
    assert describe_call(ToolCall("a", name, arguments)) == words


def test_how_many_lines_a_part_of_an_output_lacks_is_not_claimed() -> None:
    assert preview_output("1\n2\n3\n4\n5", "read_file") == "1\n2\n3\n… 2 more lines"
    assert preview_output("1\n2\n3\n4", "x", is_whole=False) == "1\n2\n3\n… more lines"


@pytest.mark.parametrize("name", ["bash", "!"])
def test_of_a_command_the_end_is_shown(name: str) -> None:
    text = "\n".join([*map(str, range(9)), "", "[exit code 1]"])
    assert preview_output(text, name) == "… 4 earlier lines\n4\n5\n6\n7\n8\n[exit code 1]"
    assert preview_output(text, name, is_whole=False).startswith("… earlier lines\n4\n")


def test_of_a_command_that_was_stopped_it_is_said_why_and_what_it_said_last() -> None:
    text = "\n".join(["Tool execution timed out: after 60 s", *map(str, range(9))])
    head, more, *tail = preview_output(text, "bash").splitlines()
    assert (head, more) == ("Tool execution timed out: after 60 s", "… 4 earlier lines")
    assert tail == ["3", "4", "5", "6", "7", "8"]
