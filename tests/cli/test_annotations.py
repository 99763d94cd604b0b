"""`rename`, `tag`, `pin`, `note`: what people say about a thread."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cli.conftest import Run
from cli.made_once import Once
from cli.made_once import once as once
from cli.made_once import place as place
from cli.made_once import tmp_path as tmp_path

Script = Callable[[str], str]


@pytest.fixture
def thread(treadle: Run, script: Script, once: Once[str]) -> str:
    """A thread of one turn."""

    def make() -> str:
        treadle("-p", "first prompt", "-m", script('[[replies]]\ntext = "Yes."\n'))
        return str(json.loads(treadle("list", "--json").stdout)[0]["id"])

    return once(make)


def document(treadle: Run, thread: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(treadle("show", thread, "--json").stdout)
    return found


def test_a_title_is_given_and_taken_back(treadle: Run, thread: str) -> None:
    done = treadle("rename", thread[:12], "  The loom ")
    assert (done.returncode, done.stdout) == (0, "")
    assert "The loom" in done.stderr
    assert document(treadle, thread)["metadata"]["title"] == "The loom"
    treadle("rename", thread, "")
    assert document(treadle, thread)["metadata"]["title"] == "first prompt"


def test_saying_it_again_records_nothing(treadle: Run, thread: str) -> None:
    for command in (("rename", thread, "A"), ("tag", thread, "a"), ("pin", thread)):
        treadle(*command)
        version = document(treadle, thread)["version"]
        assert treadle(*command).returncode == 0
        assert document(treadle, thread)["version"] == version


def test_tags_are_put_on_printed_and_taken_off(treadle: Run, thread: str) -> None:
    assert treadle("tag", thread, "login", "flaky").stdout == "login\nflaky\n"
    assert treadle("tag", thread).stdout == "login\nflaky\n"
    assert treadle("tag", thread, "-r", "login", "unknown").stdout == "flaky\n"
    assert treadle("tag", thread, "-r", "flaky").stdout == ""


def test_a_pin_is_put_on_and_taken_off(treadle: Run, thread: str) -> None:
    treadle("pin", thread)
    assert document(treadle, thread)["metadata"]["is_pinned"] is True
    treadle("pin", thread, "--off")
    assert "is_pinned" not in document(treadle, thread)["metadata"]


def test_a_note_is_shown_and_no_model_reads_it(treadle: Run, thread: str, script: Script) -> None:
    assert treadle("note", thread, "ask Ada\nor Grace").returncode == 0
    assert treadle("note", thread, "-", stdin="from a pipe\n").returncode == 0
    shown = treadle("show", thread).stdout
    assert shown.index("note: ask Ada") < shown.index("or Grace") < shown.index("from a pipe")
    echo = script(
        '[[replies]]\nwhen = { user = "Ada" }\ntext = "It was read."\n\n[[replies]]\ntext = "No."\n'
    )
    assert treadle("-r", thread, "-p", "second", "-m", echo).stdout == "No.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("rename", "two\nlines"), "one line"),
        (("rename", "\x1b[31mred"), "printable"),
        (("rename", "x" * 81), "at most 80"),
        (("tag", "two words"), "without spaces"),
        (("tag", "a,b"), "without spaces"),
        (("tag", ""), "without spaces"),
        (("tag", "x" * 65), "at most 64"),
        (("note", "  "), "empty"),
        (("note", "x" * 40_000), "at most 32768"),
    ],
)
def test_what_is_not_meant_like_that_is_refused_and_nothing_recorded(
    treadle: Run, thread: str, arguments: tuple[str, str], words: str
) -> None:
    version = document(treadle, thread)["version"]
    done = treadle(arguments[0], thread, arguments[1])
    assert done.returncode == 2
    assert words in done.stderr
    assert document(treadle, thread)["version"] == version


def test_a_known_secret_in_a_note_is_not_recorded(treadle: Run, thread: str) -> None:
    treadle("note", thread, "the key is sk-abcdef0123456789", OPENAI_API_KEY="sk-abcdef0123456789")
    told = document(treadle, thread)["metadata"]["annotations"][0]["text"]
    assert "sk-abcdef" not in told
    assert "[REDACTED:" in told


@pytest.mark.parametrize("command", ["rename", "tag", "note"])
def test_an_unknown_thread_is_an_error(treadle: Run, thread: str, command: str) -> None:
    done = treadle(command, "ffff", "x")
    assert done.returncode == 2
    assert "no thread" in done.stderr


def test_what_was_said_about_a_thread_is_confirmed(treadle: Run, thread: str) -> None:
    for arguments, words in (
        (("pin", thread), f"{thread} is pinned\n"),
        (("pin", thread, "--off"), f"{thread} is not pinned\n"),
        (("note", thread, "ask Ada"), f"noted in {thread}\n"),
    ):
        done = treadle(*arguments)
        assert (done.stdout, done.stderr) == ("", words)
