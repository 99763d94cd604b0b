"""Skills and slash commands from files, in the chat: listed, completed, called, trusted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from terminal.harness import ENTER, TAB, UP, is_empty_input
from terminal.talks import Start, told
from terminal.test_chat_commands import is_at_rest

EXAMPLES = Path(__file__).parents[1] / "workspace" / "example_skills"


def write_command(repository: Path, name: str, text: str) -> None:
    place = repository / ".treadle/commands"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.md").write_text(text)


def test_they_are_listed_trusted_completed_and_said(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    write_command(repository, "again-2", "---\ndescription: Say it anew\n---\nsecond $1\n")
    write_command(repository, "help", "mine")
    own = Path(environment["HOME"]) / ".agents/skills"
    shutil.copytree(EXAMPLES / "meeting-notes", own / "meeting-notes")
    talk = start("--approval-mode", "plan", columns=220, rows=80)
    talk.wait_for("not used, nobody has trusted them yet: again-2, help")
    talk.say("/again-2 x", "/again-2 is not used")
    talk.say("/skills", "not used: nobody has trusted it yet")
    assert "yours" in talk.shown
    assert ".agents/skills/meeting-notes/SKILL.md" in talk.shown
    talk.type("/skills trust" + ENTER)
    talk.wait_for("Use this in this project?")
    assert "second $1" in talk.text
    talk.type("y" + ENTER)
    talk.wait_for("the chat has a command of this name")
    talk.wait_for(is_at_rest)
    talk.type("/aga")
    talk.wait_for("Say it anew")
    talk.type(TAB + "x" + ENTER)
    talk.wait_for("The second answer.")
    assert "> /again-2 x" in talk.text
    talk.wait_for(is_at_rest)
    talk.say("/again-2", "it needs more words: /again-2 [ARGUMENTS]")
    talk.wait_for("> /again-2\n")  # it stands in the input again
    talk.type("\x15")
    talk.say("/help", "Turns what was said in a meeting")
    talk.say("/skills mistrust", "say /skills, or /skills trust")
    assert talk.leave() == 0
    (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
    assert line["title"] == "/again-2 x"
    shown = json.loads(told(environment, "show", line["id"], "--json", cwd=repository))
    first = shown["conversation"]["messages"][0]["content"]
    assert first.endswith("/.treadle/commands/again-2.md]\nsecond x")


def test_one_that_waits_or_was_said_goes_back_into_the_input_as_it_was_typed(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    place = Path(environment["TREADLE_HOME"]) / "config/commands"
    place.mkdir(parents=True)
    (place / "more.md").write_text("second")
    talk = start("--approval-mode", "plan")
    talk.wait_for("a new thread in")
    talk.type("slow" + ENTER)
    talk.wait_for("This is the")
    talk.type("/more now" + TAB)
    talk.wait_for("/more now")
    talk.wait_for(lambda screen: is_empty_input(screen.shown.splitlines()[-2]))
    talk.type(UP)
    talk.wait_for(lambda screen: screen.shown.splitlines()[-2].strip() == "> /more now")
    talk.type("\x15\x1b")
    talk.wait_for("cancelled")
    talk.wait_for(is_at_rest)
    talk.say("/more now", "The second answer.")
    talk.wait_for(is_at_rest)
    talk.type("/rewind" + ENTER)
    talk.wait_for("Back to before which prompt?")
    talk.wait_for("▸ /more now")
    talk.answer(ENTER)
    talk.answer("c")
    talk.wait_for(lambda screen: screen.shown.splitlines()[-2].strip() == "> /more now")
    talk.type("\x15")
    assert talk.leave() == 0
