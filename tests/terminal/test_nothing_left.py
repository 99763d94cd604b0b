"""Nothing of what was drawn, or typed to a command, stays on the screen or in the scrollback."""

from __future__ import annotations

from pathlib import Path

from terminal.conftest import StartToy
from terminal.harness import ENTER, ctrl
from terminal.talks import Start
from terminal.test_chat_commands import is_at_rest


def test_a_start_on_a_cleared_screen_leaves_nothing_where_what_is_cleared_is_kept(
    toy: StartToy,
) -> None:
    screen = toy(keeps_cleared=True)
    for number in range(3):
        screen.type(f"words {number}" + ENTER)
        screen.wait_for(f"submitted 'words {number}'")
    assert [line for line in screen.scrollback if line.strip()] == []


def test_a_screen_that_is_drawn_anew_leaves_nothing_of_the_input(toy: StartToy) -> None:
    screen = toy(keeps_cleared=True)
    screen.type("lines 3" + ENTER)
    screen.wait_for("line 2")
    screen.type("half a")
    screen.wait_for_shown("> half a")
    screen.type(ctrl("l"))
    screen.wait_for(lambda screen: "line 2" in "\n".join(screen.scrollback))
    screen.wait_for(lambda screen: screen.lines[0].strip() in ("", "> half a"))
    screen.type(" line" + ENTER)
    screen.wait_for("submitted 'half a line'")
    screen.type("lines 3" + ENTER)
    screen.wait_for(lambda screen: screen.text.count("line 2") == 2)
    assert not any("half a" in line and "submitted" not in line for line in screen.scrollback)
    assert not any("> " in line for line in screen.scrollback)


def test_keys_for_the_chat_are_not_shown_while_a_command_works_and_heard_then(
    start: Start,
) -> None:
    talk = start()
    talk.say("good day", "Hello there.")
    talk.wait_for(is_at_rest)
    talk.type("/search zebra" + ENTER)
    talk.wait_for(lambda screen: screen.is_silent)
    talk.type("second thoughts" + ENTER + "a draft")
    talk.wait_for("The second answer.")
    talk.wait_for_shown("> a draft")
    assert talk.text.count("second thoughts") == 1
    assert talk.text.count("a draft") == 1
    assert "> second thoughts" in talk.text


def test_a_command_that_asks_shows_what_is_answered_and_takes_nothing_from_before(
    start: Start,
) -> None:
    talk = start("--private")
    talk.say("good day", "Hello there.")
    talk.wait_for(is_at_rest)
    talk.type("/private --off" + ENTER)
    talk.wait_for(lambda screen: screen.sends_signals)
    talk.type("y" + ENTER)
    talk.wait_for("May it leave this machine?")
    talk.type("n")
    talk.wait_for("[y/N]: n")
    talk.type(ENTER)
    talk.wait_for("it stays private")


def test_an_editor_gets_a_terminal_as_programs_want_it(
    start: Start, environment: dict[str, str], tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho it edits\nread line\nprintf "%s" "$line" > "$1"\n')
    editor.chmod(0o755)
    environment["VISUAL"] = str(editor)
    talk = start()
    talk.type(ctrl("g"))
    # Its own words: while the chat starts, the modes are a shell's for a moment too.
    talk.wait_for("it edits")
    assert talk.is_cooked
    talk.type("a line" + ENTER)
    talk.wait_for_shown("> a line")
