"""Leaving plan mode: a person says whether the plan is carried out, and how much is asked then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from terminal.harness import ENTER, ESC
from terminal.talks import Start, Talk, told
from terminal.test_chat_commands import is_at_rest

SCRIPT = """
[[replies]]
when.system = "commit message"
text = "fix: add"

[[replies]]
when = { user = "^think", step = 0 }
[[replies.calls]]
tool = "plan"
[replies.calls.arguments]
steps = [{ step = "mend add", status = "pending" }, { step = "check it", status = "pending" }]

[[replies]]
when.user = "^think"
text = "So I would do it."

[[replies]]
when = { user = "^Yes, carry out", step = 0 }
[[replies.calls]]
tool = "edit_file"
arguments = { path = "calc.py", edits = [{ old_str = "a - b", new_str = "a + b" }] }
[[replies.calls]]
tool = "plan"
[replies.calls.arguments]
steps = [{ step = "mend add", status = "done" }, { step = "check it", status = "done" }]

[[replies]]
when.user = "^Yes, carry out"
text = "It adds now."

[[replies]]
text = "Hello there."
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "plan.toml").write_text(SCRIPT)
    return f"scripted:{tmp_path / 'plan.toml'}"


def thread_of(environment: dict[str, str], repository: Path) -> str:
    (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
    return str(line["id"])


def mode_of(talk: Talk) -> str:
    return talk.shown.splitlines()[-1].split(" ")[0]


def test_a_yes_changes_the_mode_and_has_the_plan_carried_out(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    talk = start("--approval-mode", "plan", "--no-commit")
    talk.wait_for("a new thread in")
    talk.type("think" + ENTER)
    talk.wait_for("Carry out this plan?")
    assert "○ mend add" in talk.shown
    assert "a - b" in (repository / "calc.py").read_text()
    talk.answer("e")
    talk.wait_for("> Yes, carry out this plan.")
    talk.wait_for("It adds now.")
    talk.wait_for("Plan: 2 of 2 done")
    talk.wait_for(is_at_rest)
    assert mode_of(talk) == "auto-edit"
    assert "a + b" in (repository / "calc.py").read_text()
    assert "Carry out this plan?" not in talk.text
    talk.say("/plan", "✓ check it")
    assert talk.leave() == 0
    shown = told(environment, "show", thread_of(environment, repository), cwd=repository)
    assert "plan     2 of 2 done\n         [x] mend add\n         [x] check it\n" in shown


def test_a_yes_that_asks_before_each_change_asks(start: Start, repository: Path) -> None:
    talk = start("--approval-mode", "plan", "--no-commit")
    talk.wait_for("a new thread in")
    talk.type("think" + ENTER)
    talk.wait_for("Carry out this plan?")
    talk.answer("y")
    talk.wait_for("yes, this once")
    assert "a - b" in (repository / "calc.py").read_text()
    talk.type(ESC)
    talk.wait_for("is taken up with your next prompt")
    talk.wait_for(is_at_rest)
    assert mode_of(talk) == "ask"


def test_a_no_stays_in_plan_mode_and_the_question_waits_with_the_thread(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    talk = start("--approval-mode", "plan", "--no-commit")
    talk.wait_for("a new thread in")
    talk.type("think" + ENTER)
    talk.wait_for("Carry out this plan?")
    talk.answer("n")
    talk.wait_for(is_at_rest)
    assert mode_of(talk) == "plan"
    assert talk.leave() == 0
    again = start("-c")
    again.wait_for("Carry out this plan?")
    assert "○ mend add" in again.shown
    again.type(ESC)
    again.wait_for(is_at_rest)
    again.say("hello", "Hello there.")  # what was said since counts
    again.wait_for(is_at_rest)
    assert "Carry out" not in again.text.rpartition("Hello there.")[2]
    assert mode_of(again) == "plan"
    assert again.leave() == 0
    assert "a - b" in (repository / "calc.py").read_text()
    shown = told(environment, "show", thread_of(environment, repository), cwd=repository)
    assert "[ ] mend add" in shown


def test_in_other_modes_nothing_is_asked(start: Start) -> None:
    talk = start("--approval-mode", "ask")
    talk.wait_for("a new thread in")
    talk.say("think", "So I would do it.")
    talk.wait_for(is_at_rest)
    assert "Plan: 0 of 2 done" in talk.text
    assert "Carry out this plan?" not in talk.text
    assert talk.leave() == 0


def test_a_plain_terminal_asks_with_a_letter(start: Start, repository: Path) -> None:
    talk = start("--approval-mode", "plan", "--no-commit", "--plain")
    talk.wait_for("a new thread in")
    talk.type("think" + ENTER)
    talk.wait_for("Carry out this plan?")
    talk.wait_for("no, stay in plan mode")
    talk.read_for(0.3)
    talk.type("e" + ENTER)
    talk.wait_for("It adds now.")
    assert "a + b" in (repository / "calc.py").read_text()
    assert talk.leave() == 0
