"""A person talks with the agent: prompts, questions, interruptions, in a real terminal."""

from __future__ import annotations

import json
import os
import signal
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from terminal.harness import ENTER, ESC, SHIFT_TAB, TAB, UP, Screen, ctrl
from terminal.talks import BRISK_S, Start, held, told
from terminal.test_chat_commands import is_at_rest

WAITING = "y  yes"
"""The choices of a question are on the screen."""


def in_mode(mode: str) -> Callable[[Screen], bool]:
    """Whether the status line begins with the mode."""
    return lambda screen: screen.shown.splitlines()[-1].split()[:1] == [mode]


def test_nothing_is_on_disk_before_the_first_prompt(
    start: Start, environment: dict[str, str]
) -> None:
    talk = start()
    talk.wait_for("a new thread in")
    assert talk.leave() == 0
    assert not Path(environment["TREADLE_HOME"], "data", "threads").exists()
    assert "to go on" not in talk.text


def test_a_prompt_is_answered_and_the_end_tells_how_to_go_on(
    start: Start, environment: dict[str, str], repository: Path
) -> None:
    talk = start()
    talk.say("good morning", "Hello there.")
    assert "> good morning" in talk.text
    talk.wait_for("tokens in")
    assert talk.leave() == 0
    assert talk.is_cooked
    (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
    assert talk.text.endswith(f"to go on: treadle -r {line['id'][-8:]}")
    assert talk.text.count("tokens in") == 2


def test_a_yes_runs_the_call_once(start: Start, repository: Path) -> None:
    talk = start()
    talk.say("run", WAITING)
    assert "$ echo ran >> effects" in talk.text
    assert not (repository / "effects").exists()
    talk.answer("y")
    talk.wait_for("It ran.")
    assert (repository / "effects").read_text() == "ran\n"
    talk.type("run again" + ENTER)
    talk.wait_for(lambda screen: WAITING in screen.shown)


def test_a_no_has_a_reason_that_the_model_reads(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    talk = start()
    talk.say("run", WAITING)
    talk.answer("n")
    talk.wait_for("what to do instead?")
    talk.type("too early" + ENTER)
    talk.wait_for(lambda screen: "It ran." in screen.text or "I leave it" in screen.text)
    assert talk.leave() == 0
    assert not (repository / "effects").exists()
    (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
    assert "too early" in told(environment, "show", line["id"], cwd=repository)


def test_a_command_is_edited_before_it_runs(start: Start, repository: Path) -> None:
    talk = start()
    talk.say("run", WAITING)
    talk.answer("e")
    talk.wait_for("The command to run instead")
    talk.type(" && echo twice >> effects" + ENTER)
    talk.wait_for("It ran.")
    assert (repository / "effects").read_text() == "ran\ntwice\n"


def test_an_edit_is_asked_about_with_its_diff(start: Start, repository: Path) -> None:
    talk = start()
    talk.say("edit", WAITING)
    assert "return a - b" in talk.text
    assert "return a + b" in talk.text
    talk.answer("y")
    talk.wait_for("It adds now.")
    assert "a + b" in (repository / "calc.py").read_text()


def test_esc_leaves_a_question_open_and_the_next_prompt_asks_it_again(
    start: Start, repository: Path
) -> None:
    talk = start()
    talk.say("run", WAITING)
    talk.type(ESC)
    talk.wait_for("what is open stays open")
    assert not (repository / "effects").exists()
    talk.type("second" + ENTER)
    talk.wait_for(lambda screen: WAITING in screen.shown)
    talk.answer("y")
    talk.wait_for("The second answer.")
    assert (repository / "effects").read_text() == "ran\n"


def test_esc_while_the_answer_is_written_keeps_what_was_written(start: Start) -> None:
    talk = start()
    talk.say("slow", "the beginning of")
    talk.type(ESC)
    talk.wait_for("interrupted")
    assert "the beginning of" in talk.text
    assert "by nobody" not in talk.text
    talk.say("good morning", "Hello there.")


def test_esc_ends_a_command_of_the_agent(start: Start, repository: Path) -> None:
    os.mkfifo(repository / "fifo")
    talk = start("--approval-mode", "auto")
    talk.say("wait", "cat fifo")
    with held(repository / "fifo"):
        talk.type(ESC)
        talk.wait_for("interrupted")
    talk.say("good morning", "Hello there.")


def test_what_is_typed_meanwhile_steers_or_follows(start: Start, repository: Path) -> None:
    os.mkfifo(repository / "fifo")
    talk = start("--approval-mode", "auto")
    talk.say("wait", "cat fifo")
    talk.type("second" + TAB)
    talk.wait_for_shown("second")
    talk.type("it is steered" + ENTER)
    talk.wait_for_shown("it is steered")
    talk.type("a third" + TAB)
    talk.wait_for(lambda screen: "> a third" not in screen.shown and "a third" in screen.shown)
    talk.type(UP)
    talk.wait_for_shown("> a third")
    talk.type(ctrl("c"))
    talk.wait_until_gone("a third")
    (repository / "fifo").write_text("through\n")
    talk.wait_for("The second answer.")
    text = talk.text
    assert (
        text.rindex("> it is steered") < text.rindex("> second") < text.index("The second answer.")
    )


def test_shift_tab_changes_the_mode_at_once_and_auto_is_asked_about(start: Start) -> None:
    talk = start("--approval-mode", "plan")
    talk.wait_for("a new thread in")
    for mode in ("ask", "auto-edit"):
        talk.type(SHIFT_TAB)
        talk.wait_for(in_mode(mode))
    talk.type(SHIFT_TAB)
    talk.wait_for("unasked")
    talk.answer("n")
    talk.wait_for(in_mode("plan"))


def test_a_mode_that_asks_for_less_answers_the_question_that_is_open(
    start: Start, repository: Path
) -> None:
    talk = start("--approval-mode", "ask")
    talk.say("edit", WAITING)
    talk.type(SHIFT_TAB)
    talk.wait_for("It adds now.")
    assert "a + b" in (repository / "calc.py").read_text()
    talk.say("run", WAITING)
    talk.type(SHIFT_TAB)  # not to auto, which would have to be asked about, nor on to plan
    talk.wait_for("answer first: mode auto is asked about when nothing else is")
    talk.answer("y")
    talk.wait_for("It ran.")
    assert talk.shown.splitlines()[-1].startswith("auto-edit")
    talk.say("second", "The second answer.")
    for gone in ("needs your approval", "yes, this once"):
        assert gone not in talk.text
    assert talk.text.count("answered by mode auto-edit · edit_file calc.py") == 1
    assert talk.text.count("✓ allowed once · $ echo ran >> effects") == 1
    (journal,) = repository.parent.rglob("T-*.jsonl")
    assert journal.read_text().count('"type":"approval_decided"') == 2  # each once


def test_auto_is_asked_about_once_and_is_the_mode_then(start: Start, repository: Path) -> None:
    talk = start("--approval-mode", "plan")
    talk.say("good morning", "Hello there.")  # the thread begins as one that only reads
    talk.say("/mode auto", "unasked")
    talk.answer("y")
    talk.wait_for("approval mode auto")
    talk.say("edit", "It adds now.")
    talk.wait_for("committed")
    assert "fix: add instead of subtracting" in talk.text
    talk.say("/mode ask", "approval mode ask")
    talk.say("run", WAITING)
    for _ in range(2):
        talk.type(SHIFT_TAB)
    talk.wait_for("It ran.")
    assert (repository / "effects").read_text() == "ran\n"


def test_what_is_always_allowed_is_not_asked_again_until_it_is_taken_back(
    start: Start,
) -> None:
    talk = start()
    talk.say("make", WAITING)
    assert "always for `touch made`" in talk.text
    talk.answer("a" + ENTER)
    talk.wait_for("It is made.")
    talk.wait_for(in_mode("ask"))
    talk.type("make it" + ENTER)
    talk.wait_for(lambda screen: screen.text.count("It is made.") == 2)
    assert "needs your approval" not in talk.text
    assert talk.text.count("✓ always allowed from now on · touch made") == 1
    assert "✓ allowed once" not in talk.text
    talk.say("/permissions", "Always allowed in this thread")
    talk.wait_for("Enter takes it back")
    talk.wait_for(lambda screen: screen.is_asking)
    talk.type(ENTER)
    talk.wait_for("no longer allowed unasked: bash")
    talk.type("make more" + ENTER)
    talk.wait_for(lambda screen: WAITING in screen.shown)
    talk.answer("l")
    talk.wait_for("what is open stays open")
    assert talk.leave() == 0
    again = start("-c")
    again.wait_for(lambda screen: WAITING in screen.shown)
    again.answer("y")
    again.wait_for("It is made.")


def test_an_own_command_is_shown_to_the_person_and_to_the_agent(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    talk = start()
    talk.say("!echo own-$((20+3)); exit 4", "own-23")
    talk.say("good morning", "Hello there.")
    assert talk.leave() == 0
    (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
    exported = told(environment, "show", line["id"], "--json", cwd=repository)
    assert "own-23" in exported


def test_of_an_own_command_a_screenful_is_shown_to_its_end(start: Start) -> None:
    talk = start(rows=30)
    talk.say("!seq 100", "earlier lines")
    talk.wait_for(is_at_rest)
    first = talk.line_with("… 78 earlier lines (Ctrl+O)")
    assert talk.lines[first + 1 : first + 23] == [f"  {n}" for n in range(79, 101)]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_settles_the_thread_and_it_is_gone_on_with(
    start: Start, repository: Path, number: signal.Signals, code: int
) -> None:
    os.mkfifo(repository / "fifo")
    talk = start("--approval-mode", "auto")
    talk.say("wait", "cat fifo")
    with held(repository / "fifo"):
        os.kill(talk.process.pid, number)
        assert talk.wait_for_end() == code
    assert talk.is_cooked
    again = start("-c")
    again.wait_for("going on with what was left unfinished")
    again.wait_for("I go on.")
    assert "stopped, no output" in again.text


def test_after_a_kill_the_call_that_ran_is_asked_about(start: Start, repository: Path) -> None:
    os.mkfifo(repository / "fifo")
    talk = start("--approval-mode", "auto")
    talk.say("wait", "cat fifo")
    talk.process.kill()
    talk.process.wait()
    again = start("-c")
    again.wait_for("It may or may not have happened")
    again.wait_for("run it again")
    again.answer("e")
    again.wait_for("Its result")
    again.type("it came through" + ENTER)
    again.wait_for("It came through.")


def test_ctrl_c_twice_leaves(start: Start) -> None:
    talk = start()
    talk.say("good morning", "Hello there.")
    talk.type(ctrl("c") * 2)
    assert talk.wait_for_end() == 0
    assert talk.is_cooked


def test_twenty_columns_are_enough(start: Start) -> None:
    talk = start(columns=20, rows=20)
    talk.say("run", WAITING)
    talk.answer("y")
    talk.wait_for("It ran.")


def test_a_plain_chat_is_lines(start: Start, repository: Path) -> None:
    talk = start("--plain")
    talk.wait_for("a new thread in")
    talk.say("run", "your choice:")
    talk.read_for(BRISK_S)
    talk.type("y" + ENTER)
    talk.wait_for("It ran.")
    assert b"\x1b[?2026h" not in talk.raw
    assert talk.leave() == 0


def test_a_plain_terminal_that_nobody_reads_does_not_keep_a_signal_from_settling(
    start: Start, repository: Path
) -> None:
    os.mkfifo(repository / "fifo")
    talk = start("--plain", "--approval-mode", "auto")
    talk.say("wait", "cat fifo")
    with held(repository / "fifo"):
        termios.tcflow(talk.terminal, termios.TCOOFF)  # Ctrl+S: what is written waits
        os.kill(talk.process.pid, signal.SIGTERM)
        assert talk.process.wait(60) == 143
    termios.tcflow(talk.terminal, termios.TCOON)
    again = start("-c")
    again.wait_for("going on with what was left unfinished")


def test_ctrl_c_leaves_a_question_of_a_plain_chat_open(start: Start, repository: Path) -> None:
    talk = start("--plain")
    talk.wait_for("a new thread in")
    talk.say("run", "your choice:")  # keys that came before it are dropped, this one too
    talk.type(ctrl("c"))
    talk.wait_for("what is open stays open")
    assert not (repository / "effects").exists()
    assert talk.leave() == 0
    again = start("-c")
    again.wait_for(lambda screen: WAITING in screen.shown)
