"""`keys = "vim"`: the input goes by vim's keys, and its mode is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from terminal.harness import ENTER, ESC, Screen, is_empty_input
from terminal.talks import Start, Talk


@pytest.fixture
def talk(start: Start, environment: dict[str, str]) -> Talk:
    path = Path(environment["TREADLE_HOME"], "config", "config.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('keys = "vim"\n')
    found = start("--sandbox", "off")
    found.wait_for(is_in("insert"))
    return found


def is_in(mode: str):  # type: ignore[no-untyped-def]  # a predicate of a screen
    return lambda screen: screen.shown.rpartition("\n")[2].startswith(f"{mode} │ ")


def input_is(text: str):  # type: ignore[no-untyped-def]  # likewise
    return lambda screen: screen.shown.splitlines()[-2] == f"> {text}"


def test_a_text_is_changed_with_vims_keys_and_sent(talk: Talk) -> None:
    talk.type("good evening")
    talk.wait_for(input_is("good evening"))
    talk.type(ESC)
    talk.wait_for(is_in("normal"))
    talk.type("bcw")
    talk.wait_for(is_in("insert"))
    talk.type("morning")
    talk.wait_for(input_is("good morning"))
    talk.type(ESC)
    talk.wait_for(is_in("normal"))
    talk.type("0v")
    talk.wait_for(is_in("visual"))
    talk.type(ESC)
    talk.wait_for(is_in("normal"))
    talk.type("dd")
    talk.wait_for(lambda screen: is_empty_input(screen.shown.splitlines()[-2]))
    talk.type("u")
    talk.wait_for(input_is("good morning"))
    talk.type(ENTER)
    talk.wait_for("Hello there.")
    talk.wait_for(is_in("insert"))


def test_esc_in_an_empty_input_is_the_chats(talk: Talk) -> None:
    talk.say("good morning", "Hello there.")
    talk.wait_for(lambda screen: is_empty_input(screen.shown.splitlines()[-2]))
    talk.type(ESC)
    talk.wait_for("Esc again: go back to an earlier prompt")
    talk.type(ESC)
    talk.wait_for("Back to before which prompt?")
    talk.type("morning")  # a list is typed in as ever
    talk.wait_for_shown("> morning")
    talk.type(ESC)
    talk.wait_until_gone("Back to before which prompt?")


def test_without_it_nothing_is_said_of_modes(start: Start) -> None:
    talk: Screen = start("--sandbox", "off")
    talk.wait_for(lambda screen: screen.shown.rpartition("\n")[2].startswith("ask"))
    talk.type("good evening")
    talk.wait_for(input_is("good evening"))
    assert "│" not in talk.shown.splitlines()[-1]
