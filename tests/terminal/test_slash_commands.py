"""Slash commands stand in the scrollback as they were typed; undo, redo, init, help on a screen."""

from __future__ import annotations

import json
from pathlib import Path

from terminal.harness import ENTER, ESC, PAGE_DOWN
from terminal.talks import Start, told
from terminal.test_chat_commands import is_at_rest


def test_what_was_typed_stands_above_its_answer_apart_from_what_was_before(start: Start) -> None:
    talk = start("--sandbox", "off")
    talk.wait_for("a new thread in")
    talk.say("/cost", "nothing was asked")
    talk.say("/plan", "has told no plan")
    lines = talk.text.splitlines()
    at = lines.index("> /cost")
    assert lines[at - 1 : at + 2] == ["", "> /cost", "nothing was asked of a model yet"]
    assert lines[at + 2 : at + 4] == ["", "> /plan"]
    talk.say("/compress", "there is no /compress; did you mean /compact?")
    assert "\n\n> /compress\nthere is no /compress" in talk.text
    talk.say("/undo 7", "/undo takes nothing behind it; nothing was done")
    talk.say("!", "there is no command")
    talk.say("/clear", "a new thread begins with your next prompt")
    talk.type("/exit" + ENTER)
    assert talk.wait_for_end() == 0


def test_help_is_a_list_to_search_where_it_would_run_out_of_the_screen(start: Start) -> None:
    talk = start("--sandbox", "off", rows=24)
    talk.wait_for("a new thread in")
    talk.say("/help", "What can be typed here")
    talk.wait_for("/status")
    talk.wait_for_shown("(type to search it)  1 of ")
    assert len(talk.scrollback) == 0
    talk.type(PAGE_DOWN + "earlier prompt")
    talk.wait_for_shown("▸ /rewind")
    talk.type(ENTER)
    talk.wait_for_shown("> /rewind")
    talk.type("\x03")
    talk.say("/help", "What can be typed here")
    talk.type(ESC)
    talk.wait_until_gone("What can be typed here")


def test_help_is_printed_where_it_fits(start: Start) -> None:
    talk = start("--sandbox", "off", columns=110, rows=70)
    talk.wait_for("a new thread in")
    talk.say("/help", "Shift+Tab")
    for words in ("/quit, /exit", "/new, /clear", "/undo", "Ctrl+Z"):
        assert words in talk.shown


def test_undo_takes_the_turn_and_its_files_back_and_redo_brings_them_again(
    start: Start, repository: Path
) -> None:
    file = repository / "calc.py"
    before = file.read_text()
    talk = start("--approval-mode", "auto", "--no-commit")
    talk.wait_for("a new thread in")
    talk.say("/undo", "there is nothing to take back yet")
    talk.say("good morning", "Hello there.")
    talk.say("edit", "It adds now.")
    after = file.read_text()
    assert after != before
    talk.say("/undo", "/redo brings it back")
    for words in ("taken back: edit", "put back: calc.py"):
        assert words in talk.text
    assert file.read_text() == before
    talk.say("/redo", "there again: edit")
    talk.wait_for(is_at_rest)
    assert file.read_text() == after
    talk.say("/redo", "there is nothing that /undo has taken back here")
    talk.say("/undo", "taken back: edit")
    talk.say("/undo", "taken back: good morning")
    talk.say("/redo", "there again: good morning")
    talk.say("second", "The second answer.")
    talk.say("/redo", "something else was said since")
    assert file.read_text() == before


def test_undo_leaves_alone_what_the_person_has_changed_too(start: Start, repository: Path) -> None:
    talk = start("--approval-mode", "auto", "--no-commit")
    talk.say("edit", "It adds now.")
    talk.wait_for(is_at_rest)
    mine = (repository / "calc.py").read_text() + "# mine\n"
    (repository / "calc.py").write_text(mine)
    talk.say("/undo", "/rewind can take back the conversation alone")
    assert (repository / "calc.py").read_text() == mine
    talk.say("second", "The second answer.")


def test_redo_can_be_tried_again_when_the_file_of_the_person_is_out_of_the_way(
    start: Start, repository: Path
) -> None:
    file = repository / "calc.py"
    before = file.read_text()
    talk = start("--approval-mode", "auto", "--no-commit")
    talk.say("edit", "It adds now.")
    talk.wait_for(is_at_rest)
    after = file.read_text()
    talk.say("/undo", "/redo brings it back")
    file.write_text(before + "# mine\n")
    talk.say("/redo", "/rewind can take back the conversation alone")
    assert file.read_text() == before + "# mine\n"
    file.write_text(before)
    talk.say("/redo", "there again: edit")
    assert file.read_text() == after


def test_init_says_a_good_prompt_to_the_agent_unless_there_is_one(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    talk = start("--approval-mode", "ask")
    talk.say("/init", "Hello there.")
    talk.wait_for(is_at_rest)
    (repository / "AGENTS.md").write_text("Use tabs.\n")
    talk.say("/init", "/init improve has the agent check it")
    talk.say("/init improve", "Hello there.")
    talk.wait_for(is_at_rest)
    talk.say("/mode plan", "approval mode plan")
    talk.say("/init improve", "in mode plan the agent writes no files")
    assert talk.leave() == 0
    (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
    shown = told(environment, "show", line["id"], "--json", cwd=repository)
    said = [
        one["content"]
        for one in json.loads(shown)["conversation"]["messages"]
        if one["role"] == "user"
    ]
    assert len(said) == 2
    assert said[0].startswith("/init\n\n[The person's words above call this prompt of Treadle]\n")
    assert said[1].startswith("/init improve\n\n")
    assert line["title"] == "/init"
