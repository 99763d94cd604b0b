"""A person looks through what happened in the thread, in a real terminal."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from terminal.harness import BACKSPACE, ENTER, ESC, SHIFT_TAB, Screen, ctrl
from terminal.talks import Start, Talk
from terminal.test_chat_commands import is_at_rest

SCRIPT = """
[[replies]]
when = { user = "^count", step = 0 }
text = "I **count**."
calls = [{ tool = "bash", arguments = { command = "seq 20000" } }]

[[replies]]
text = "Counted."
"""


@pytest.fixture
def talk(start: Start, tmp_path: Path) -> Talk:
    (tmp_path / "count.toml").write_text(SCRIPT)
    model = f"scripted:{tmp_path / 'count.toml'}"
    begun = start("-m", model, "--approval-mode", "auto", rows=20)
    begun.say("count", "Counted.")
    begun.wait_for(is_at_rest)
    return begun


def is_back(screen: Screen) -> bool:
    """Whether the chat's own input hears again; in between the terminal takes lines."""
    left = screen.raw.rfind(b"\x1b[?1049l")
    return not screen.is_on_other and screen.raw.rfind(b"\x1b[?2004h") > left >= 0


def look(talk: Talk, words: str) -> None:
    talk.wait_for(lambda screen: screen.is_on_other and words in screen.shown)


def test_all_of_an_output_is_looked_through_and_the_scrollback_stays_as_it_was(talk: Talk) -> None:
    talk.type("a draft")
    talk.wait_for("> a draft")
    before = talk.text
    talk.type(ctrl("o"))
    look(talk, "▾ $ seq 20000  exit code 0, 20,001 lines")
    talk.type("/1234x" + BACKSPACE + ENTER)
    look(talk, "\n  1234\n  1235\n")
    assert talk.style_at(talk.line_with("  1234"), 2).reverse
    talk.type("n")
    look(talk, "\n  11234\n")
    talk.type("N")
    look(talk, "\n  1234\n")
    talk.type("G")
    look(talk, "Counted.")
    talk.type("/nowhere" + ENTER)
    look(talk, "not found below: nowhere")
    talk.type(SHIFT_TAB + ENTER)
    look(talk, "▸ $ seq 20000  exit code 0\n")
    talk.type("g")
    look(talk, "> count\n\nI count.")
    talk.resize(60, 12)
    look(talk, "I count.")
    talk.resize(80, 20)
    talk.type(ESC)
    talk.wait_for(lambda screen: not screen.is_on_other and "> a draft" in screen.shown)
    assert "11234" not in talk.text
    assert before.splitlines()[:8] == talk.text.splitlines()[:8]


def test_it_goes_on_with_the_thread(start: Start, tmp_path: Path, repository: Path) -> None:
    wait = "until [ -e go ]; do sleep 0.05; done; echo went on"
    call = f'{{ tool = "bash", arguments = {{ command = "{wait}" }} }}'
    (tmp_path / "wait.toml").write_text(
        f'[[replies]]\nwhen = {{ step = 0 }}\ncalls = [{call}]\n\n[[replies]]\ntext = "It ended."\n'
    )
    talk = start("-m", f"scripted:{tmp_path / 'wait.toml'}", "--approval-mode", "auto", rows=20)
    talk.say("wait", "until [ -e go ]")
    talk.type(ctrl("o"))
    look(talk, "(it has not ended)")
    (repository / "go").touch()
    look(talk, "  went on\n")
    look(talk, "It ended.")


def test_what_is_typed_there_is_no_prompt_and_the_chat_goes_on(talk: Talk) -> None:
    talk.type(ctrl("o"))
    look(talk, "20,001 lines")
    talk.type("xyz" + ctrl("o"))
    talk.wait_for(is_back)
    talk.say("good morning", "Counted.")
    assert "xyz" not in talk.text


def test_a_command_of_the_person_is_in_it_before_there_is_a_thread(start: Start) -> None:
    talk = start()
    talk.type(ctrl("o"))
    talk.wait_for("nothing has happened yet")
    talk.say("!seq 50", "earlier lines")
    talk.wait_for(is_at_rest)
    talk.type(ctrl("o"))
    look(talk, "▾ a person ran $ seq 50  50 lines\n  1\n  2\n")


def test_an_order_to_end_leaves_the_terminal_as_it_was(talk: Talk) -> None:
    talk.type(ctrl("o"))
    look(talk, "20,001 lines")
    os.kill(talk.process.pid, signal.SIGTERM)
    assert talk.wait_for_end() == 143
    assert talk.is_cooked
    assert not talk.is_on_other


def test_a_window_that_is_closed_ends_it(talk: Talk) -> None:
    talk.type(ctrl("o"))
    look(talk, "20,001 lines")
    talk.close_window()
    os.kill(talk.process.pid, signal.SIGHUP)
    talk.process.wait(timeout=60)


def test_pressed_twice_it_opens_once(talk: Talk) -> None:
    talk.type(ctrl("o") * 3)
    look(talk, "20,001 lines")
    talk.type("q")
    talk.wait_for(is_back)
    talk.say("good morning", "Counted.")


def test_none_opens_at_the_end_of_the_chat_behind_what_had_the_screen(
    start: Start, environment: dict[str, str], tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\ntrap '' TERM\necho edits\ncat {tmp_path}/fifo\n")
    editor.chmod(0o755)
    environment["VISUAL"] = str(editor)
    talk = start()
    talk.say("!seq 50", "earlier lines")
    talk.wait_for(is_at_rest)
    talk.type(ctrl("g") + ctrl("o"))
    talk.wait_for("edits")
    os.kill(talk.process.pid, signal.SIGTERM)
    (tmp_path / "fifo").write_text("")
    assert talk.wait_for_end() == 143
    assert not talk.is_on_other


def test_what_a_terminal_answers_is_no_key_of_it(talk: Talk) -> None:
    talk.type(ctrl("o"))
    look(talk, "20,001 lines")
    talk.type("\x1b]11;rgb:ffff/ffff/ffff\x1b\\/1234" + ENTER)
    look(talk, "\n  1234\n")
