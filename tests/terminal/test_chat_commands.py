"""The slash commands of the chat, in a real terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from cli.conftest import Run
from terminal.harness import DOWN, ENTER, ESC, Screen, ctrl, is_empty_input
from terminal.talks import Start, told


def is_at_rest(screen: Screen) -> bool:
    """Whether the status line stands below an empty input."""
    lines = screen.shown.splitlines()
    modes = ("plan", "ask", "auto", "private")
    return len(lines) > 1 and lines[-1].startswith(modes) and is_empty_input(lines[-2])


def test_what_only_tells_something_is_told_while_there_is_no_thread_too(start: Start) -> None:
    talk = start("--sandbox", "off", columns=140, rows=70)
    talk.wait_for("a new thread in")
    talk.wait_for(lambda screen: "no sandbox" in screen.shown.splitlines()[-1])
    talk.say("/help", "/permissions")
    talk.say("/status", "none yet")
    talk.say("/cost", "nothing was asked")
    talk.say("/diff", "no thread yet")
    talk.say("/hepl", "did you mean /help?")
    talk.say("/permissions", "nothing, in this thread")
    talk.type("/quit" + ENTER)
    assert talk.wait_for_end() == 0


def test_commands_of_the_command_line_run_and_the_chat_goes_on(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    talk = start("--approval-mode", "auto", "--no-commit")
    talk.say("edit", "It adds now.")
    talk.say("/diff", "+    return a + b")
    talk.wait_for(is_at_rest)
    talk.say("/rename Adding up", "  Adding up")
    talk.wait_for(is_at_rest)
    talk.say("/export out.md", "bytes in out.md")
    talk.wait_for(is_at_rest)
    assert "It adds now." in (repository / "out.md").read_text()
    home = Path(environment["HOME"])
    home.mkdir(exist_ok=True)
    for count in (1, 2):  # outside of the repository, and it never writes over another
        talk.say("/export", "write the thread to")
        talk.type(ENTER)
        talk.wait_for(lambda _: len([*home.glob("treadle-*.md")]) == count)  # noqa: B023
        talk.wait_for(is_at_rest)
    talk.say("/export", "write the thread to")
    talk.type(ESC)
    talk.wait_for(is_at_rest)
    (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
    names = {path.name for path in home.glob("treadle-*.md")}
    assert names == {f"treadle-{line['id'][-8:]}.md", f"treadle-{line['id'][-8:]}-1.md"}
    assert list(repository.glob("treadle-*")) == []
    hook, outside = repository / ".git/hooks/pre-commit", repository.parent / "outside"
    hook.write_text(f"#!/bin/sh\necho ran > hooked\necho ran > {outside}\ntrue\n")
    hook.chmod(0o755)
    talk.say("/commit fix: add", "commit “fix: add”")
    talk.answer("y")
    talk.wait_for("committed ")
    assert talk.leave() == 0
    assert ((repository / "hooked").exists(), outside.exists()) == (True, False)
    log = subprocess.run(
        ["git", "log", "-1", "--format=%s", "--name-only"],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert log.split() == ["fix:", "add", "calc.py"]
    (line,) = json.loads(told(environment, "list", "--json", cwd=repository))
    assert line["title"] == "Adding up"


@pytest.mark.parametrize(("what", "content"), [("f", "a - b"), ("c", "a + b")], ids=["f", "c"])
def test_rewind_takes_back_what_was_chosen_and_gives_the_prompt_to_edit(
    start: Start, repository: Path, what: str, content: str
) -> None:
    talk = start("--approval-mode", "auto", "--no-commit")
    talk.say("good morning", "Hello there.")
    talk.say("edit", "It adds now.")
    talk.say("/rewind", "Back to before which prompt?")
    talk.wait_for("turn 2")
    talk.type(ENTER)
    talk.wait_for("What goes back?")
    talk.answer(what)
    talk.wait_for(lambda screen: "> edit" in screen.shown.splitlines()[-2:][0])
    assert ("put back: calc.py" in talk.text) == (what == "f")
    assert content in (repository / "calc.py").read_text()
    talk.type(ctrl("c"))
    assert talk.leave() == 0
    again = start("-c")  # shows the last turn
    again.wait_for("Hello there.")
    again.wait_for(is_at_rest)
    assert "It adds now." not in again.text


def test_new_fork_and_resume_go_from_thread_to_thread(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    talk = start()
    talk.say("good morning", "Hello there.")
    talk.say("/fork", "goes on from version")
    (told_fork,) = [line for line in talk.lines if "goes on from version" in line]
    assert re.fullmatch(r"[0-9a-f]{8} goes on from version [0-9]+ of [0-9a-f]{8}", told_fork)
    talk.say("second", "The second answer.")
    talk.say("/new", "a new thread begins")
    talk.say("/resume", "Go on with which thread?")
    talk.wait_for("\n  > second\n  The second answer.")  # the preview of the one that changed last
    rows = [line for line in talk.shown.splitlines() if line.startswith(("▸ ", "  good"))]
    assert [line.split()[-6:-2] for line in rows] == [
        ["morning", "fork", "ready", "main"], ["good", "morning", "ready", "main"],
    ]  # fmt: skip
    assert {len(line.split()[-1]) for line in rows} == {8}
    talk.type(DOWN)
    talk.wait_for("\n  > good morning\n")
    talk.type(ESC)
    talk.wait_until_gone("Go on with which thread?")
    assert talk.leave() == 0
    lines = json.loads(told(environment, "list", "--json", cwd=repository))
    assert len(lines) == 2
    again = start("-r", lines[-1]["id"])
    again.wait_for("Hello there.")


def test_a_fork_goes_back_to_a_prompt_from_before_it(start: Start) -> None:
    talk = start()
    talk.say("good morning", "Hello there.")
    talk.say("/fork", "goes on from version")
    talk.say("second", "The second answer.")
    talk.say("/rewind", "Back to before which prompt?")
    talk.wait_for(lambda screen: screen.is_marked("second"))
    talk.type(DOWN)
    talk.wait_for(lambda screen: screen.is_marked("good morning"))
    (row,) = [line for line in talk.lines if line.startswith("▸ good morning")]
    assert row.endswith("before the fork")
    talk.type(ENTER)
    talk.wait_for("What goes back?")
    assert "and the files" not in talk.shown
    talk.answer("c")
    talk.wait_for("went back to a place in")
    talk.wait_for(lambda screen: "> good morning" in screen.shown.splitlines()[-2])


def test_a_thread_that_another_terminal_has_can_be_forked(start: Start) -> None:
    talk = start()
    talk.say("good morning", "Hello there.")
    other = start("-c")
    other.wait_for("fork it, and go on there")
    other.answer("f")
    other.wait_for("goes on from version")
    other.say("second", "The second answer.")


def test_the_model_is_another_one_from_the_next_prompt_on(start: Start, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('[[replies]]\ntext = "I am another."\n')
    talk = start()
    talk.say("good morning", "Hello there.")
    talk.say(f"/model scripted:{tmp_path / 'other.toml'}", "answers from now on")
    talk.say("who are you", "I am another.")
    talk.say("/model nobody:nothing", "nobody")
    talk.say("who are you", "I am another.")
    talk.say("/mode never", "is no approval mode")


def test_a_summary_stands_for_what_was_said(start: Start, repository: Path) -> None:
    talk = start()
    talk.wait_for("a new thread in")
    talk.say("/compact", "nothing to compact yet")
    talk.say("good morning", "Hello there.")
    talk.wait_for(is_at_rest)
    talk.say("/compact the greetings", "summary")
    talk.wait_for(is_at_rest)
    talk.say("second", "The second answer.")


def test_who_may_see_a_thread(start: Start, repository: Path, environment: dict[str, str]) -> None:
    talk = start()
    talk.say("good morning", "Hello there.")
    talk.wait_for(is_at_rest)
    talk.say("/share", "Who may see this thread?")
    talk.answer("l")
    talk.wait_for("treadle login")
    talk.wait_for(is_at_rest)
    talk.say("/private", "leave")
    talk.wait_for(lambda screen: screen.shown.splitlines()[-1].startswith("private"))
    talk.say("second", "The second answer.")
    talk.say("/search morning", "good morning")
    talk.wait_for(is_at_rest)
    assert talk.leave() == 0
    kept = (Path(environment["TREADLE_HOME"]) / "state" / "chat-history").read_text()
    assert "good morning" in kept
    assert "second" not in kept


def test_nothing_said_in_a_private_thread_is_kept_for_other_threads(
    start: Start, environment: dict[str, str]
) -> None:
    talk = start("--private")
    talk.say("good morning", "Hello there.")
    talk.wait_for(lambda screen: screen.shown.splitlines()[-1].startswith("private"))
    talk.say("/private --off", "May it leave this machine?")
    talk.type("n" + ENTER)
    talk.wait_for(is_at_rest)
    assert talk.leave() == 0
    assert not list(Path(environment["TREADLE_HOME"]).rglob("chat-history"))


def test_commands_that_are_typed_while_another_runs_come_after_it(
    start: Start, repository: Path
) -> None:
    for name in ("fifo", "own"):
        os.mkfifo(repository / name)
    talk = start("--approval-mode", "auto")
    talk.say("wait", "cat fifo")
    talk.type("!cat own" + ENTER)
    talk.wait_for_shown("» !cat own  (after this turn)")
    (repository / "fifo").write_text("through\n")
    talk.wait_for_shown("! cat own  ")
    talk.type("/rename" + ENTER + "good morning" + ENTER)
    talk.wait_for_shown("good morning")
    assert "say /rename TITLE" not in talk.text
    (repository / "own").write_text("of my own\n")
    talk.wait_for("Hello there.")
    assert talk.text.index("of my own") < talk.text.index("say /rename TITLE")
    assert talk.text.index("say /rename TITLE") < talk.text.index("Hello there.")


def test_who_names_no_thread_there_is_learns_it_before_anything_is_drawn(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    from terminal.talks import Talk

    with Talk(repository, environment, ["-r", "nope"]) as talk:
        assert talk.wait_for_end() == 2
        assert b"\x1b[" not in talk.raw


def test_a_word_like_a_command_is_told_and_no_prompt(treadle: Run) -> None:
    done = treadle("lsit")
    assert done.returncode == 2
    assert "did you mean list?" in done.stderr
    assert "no model is configured" in treadle("fix the test").stderr, "which is a prompt"
