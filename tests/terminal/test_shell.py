"""A command that the person runs in the chat is kept, whatever becomes of window and program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from terminal.harness import ENTER, pasted
from terminal.talks import Start, told

BUSY = "is open in another process"


def test_what_a_command_had_said_when_the_window_was_closed_is_kept(
    start: Start, repository: Path
) -> None:
    os.mkfifo(repository / "fifo")
    talk = start()
    talk.say("good morning", "Hello there.")
    talk.say("!echo own-$((20+3)); touch said; cat fifo", "cat fifo")
    talk.wait_for(lambda screen: (repository / "said").exists())
    talk.close_window()
    os.kill(talk.process.pid, signal.SIGHUP)
    talk.process.wait(timeout=60)
    (journal,) = repository.parent.rglob("T-*.jsonl")
    events = [json.loads(line).get("event", {}) for line in journal.read_text().splitlines()]
    assert [event["output"] for event in events if event.get("type") == "command_shown"] == [
        "own-23"
    ]


def test_a_command_that_ran_when_the_chat_was_killed_is_told_of_and_not_run_again(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    os.mkfifo(repository / "fifo")
    talk = start()
    talk.say("good morning", "Hello there.")
    talk.say("!echo once >> effects; cat fifo", "cat fifo")
    talk.wait_for(lambda screen: (repository / "effects").exists())
    talk.process.kill()
    talk.process.wait()
    (journal,) = repository.parent.rglob("T-*.jsonl")
    command = "echo once >> effects; cat fifo"
    unknown = f"began $ {command} in {repository}: its end is not recorded here"
    for name in ("watch", "show", "resume"):
        assert both(environment, name, journal.stem, cwd=repository).count(unknown) == 1, name
    for form in ("markdown", "html"):
        exported = told(environment, "export", journal.stem, "--format", form, cwd=repository)
        assert exported.count("its end is not recorded here") == 1, form
    again = start("-c", columns=200)
    again.wait_for("its end is not recorded here")
    again.say("well?", "Hello there.")
    assert again.text.count("its end is not recorded here") == 1
    assert again.leave() == 0
    shown = told(environment, "show", journal.stem, "--json", cwd=repository)
    assert "[it had begun; whether and how it ended is not known]" in shown
    later = start("-c", columns=200)
    later.say("and now?", "Hello there.")
    assert "whether and how" not in later.text
    assert later.leave() == 0
    assert (repository / "effects").read_text() == "once\n"
    with (repository / "fifo").open("w"):
        pass  # lets go what outlived the chat


def test_a_command_does_not_begin_if_that_cannot_be_written_down(
    start: Start, repository: Path
) -> None:
    talk = start()
    talk.say("good morning", "Hello there.")
    other = start("-c")
    for asked in (1, 2, 3):  # to show the thread, to take it up, and for the command
        other.wait_for(lambda screen, asked=asked: screen.text.count(BUSY) == asked)
        other.wait_for(lambda screen: screen.is_asking)
        other.type("n")
        if asked == 2:
            other.wait_for(lambda screen: not screen.is_asking)
            other.type("!touch made" + ENTER)
    other.wait_for("the command was not run")
    assert not (repository / "made").exists()


def test_a_command_that_cannot_start_is_told_of_once_and_is_over(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    environment["SHELL"] = str(repository / "no-shell")
    talk = start()
    talk.say("!echo ab", "could not be started")
    talk.say("good morning", "Hello there.")
    assert "not finished" not in talk.text
    assert talk.text.count("could not be started") == 1
    assert talk.leave() == 0
    (journal,) = repository.parent.rglob("T-*.jsonl")
    events = [json.loads(line).get("event", {}) for line in journal.read_text().splitlines()]
    (shown,) = (event for event in events if event.get("type") == "command_shown")
    assert "could not be started" in shown["output"]


@pytest.mark.parametrize("options", [(), ("--plain",)], ids=["drawn", "plain"])
def test_a_command_that_no_system_can_run_is_refused_and_not_written_down(
    start: Start, repository: Path, options: tuple[str, ...]
) -> None:
    talk = start(*options, columns=200)
    talk.say("good morning", "Hello there.")
    talk.say("!echo a\0b" if options else pasted("!echo a\0b"), "it holds a NUL character")
    talk.say("and now?", "Hello there.")
    assert talk.leave() == 0
    (journal,) = repository.parent.rglob("T-*.jsonl")
    assert '"command_' not in journal.read_text()


def test_a_command_whose_end_is_known_is_told_of_once(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    talk = start()
    talk.say("good morning", "Hello there.")
    talk.say("!echo own-$((20+3))", "own-23")
    assert talk.leave() == 0
    (journal,) = repository.parent.rglob("T-*.jsonl")
    kinds = [json.loads(line).get("event", {}) for line in journal.read_text().splitlines()]
    begun, shown = (one for one in kinds if one.get("type", "").startswith("command_"))
    assert (begun["type"], begun["folder"]) == ("command_begun", str(repository))
    assert begun["id"] == shown["id"]
    told_of = both(environment, "show", journal.stem, cwd=repository)
    assert told_of.count("a person ran $ echo") == 1
    assert "began" not in told_of
    watched = both(environment, "watch", journal.stem, cwd=repository)
    assert "a person runs $ echo" in watched
    assert "began" not in watched


def both(environment: dict[str, str], *arguments: str, cwd: Path) -> str:
    """What a command of the command line says, on either of its outputs."""
    done = subprocess.run(
        [sys.executable, "-m", "treadle", *arguments],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_of_a_long_output_the_end_is_kept_and_the_rest_is_counted(
    start: Start, repository: Path, environment: dict[str, str]
) -> None:
    talk = start()
    talk.say("!seq -f %015.0f 1 200000", "000000000200000")
    talk.say("good morning", "Hello there.")
    assert talk.leave() == 0
    (journal,) = repository.parent.rglob("T-*.jsonl")
    events = [json.loads(line).get("event", {}) for line in journal.read_text().splitlines()]
    (output,) = (event["output"] for event in events if event.get("type") == "command_shown")
    first, second, *_, last = output.splitlines()
    dropped = (int(second) - 1) * 16
    assert first == f"[... {dropped} bytes of output before this were not kept ...]"
    assert last == "000000000200000"
