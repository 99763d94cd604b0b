"""Commands in the background, in the chat: seen, read, stopped, and not ended unasked."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from cli.conftest import Run
from terminal.harness import ENTER
from terminal.talks import Start, Talk
from terminal.test_chat_commands import is_at_rest


def list_events(treadle: Run) -> list[dict[str, Any]]:
    [thread] = json.loads(treadle("list", "--json").stdout)
    lines = treadle("export", thread["id"], "--format", "jsonl").stdout.splitlines()
    return [json.loads(line)["event"] for line in lines if '"event"' in line]


def test_they_are_listed_read_stopped_and_told(
    start: Start, repository: Path, treadle: Run
) -> None:
    os.mkfifo(repository / "fifo")
    talk = start("--approval-mode", "auto", "--sandbox", "off", "--no-commit", columns=140)
    talk.say("/tasks", "nothing runs in the background")
    talk.say("serve it", "It serves.")
    talk.wait_for(is_at_rest)
    talk.say("/tasks", "s  echo listening; cat fifo")
    talk.wait_for("/tasks stop [ID] ends it")
    talk.say("/tasks s2", "s2 does not run in the background; there are: s1")
    talk.say("/tasks s1", "\nlistening")
    with (repository / "fifo").open("w") as fifo:
        fifo.write("x" * 20_000)
        fifo.flush()
        while "characters before these]" not in talk.text:  # until the program has passed it on
            talk.type("/tasks s1" + ENTER)
            talk.wait_for(is_at_rest)
        rename_and_stop(talk)
    assert talk.leave() == 0
    said = [one for one in list_events(treadle) if one["type"] == "user_input"][-1]
    assert "s1 was stopped: echo listening; cat fifo]" in said["message"]["content"]


def rename_and_stop(talk: Talk) -> None:
    talk.type("/rename Serving" + ENTER)
    talk.wait_for("This stops what runs in the background:")
    talk.answer("n")
    talk.wait_for(is_at_rest)
    talk.say("/tasks stop s1", "the command in the background s1 was stopped")
    talk.say("/tasks", "nothing runs in the background")
    talk.say("heard?", "I heard of it.")


def test_after_a_kill_it_is_told_that_nobody_knows_how_it_ended(
    start: Start, repository: Path, treadle: Run
) -> None:
    os.mkfifo(repository / "fifo")
    talk = start("--approval-mode", "auto", "--sandbox", "off", "--no-commit", columns=140)
    talk.say("serve it", "It serves.")
    talk.wait_for(is_at_rest)
    os.kill(talk.process.pid, signal.SIGKILL)
    talk.wait_for_end()
    with (repository / "fifo").open("w") as fifo:  # what it left ends
        fifo.write("on")
    again = start("-c", columns=140)
    again.wait_for(is_at_rest)
    again.say("heard?", "I heard of it.")
    assert again.leave() == 0
    events = list_events(treadle)
    assert [one["how"] for one in events if one["type"] == "background_ended"] == ["unknown"]
    begun = [one for one in events if one["type"] == "tool_started"]
    assert len(begun) == 1
    said = [one for one in events if one["type"] == "user_input"][-1]
    assert "s1 was running when its session died" in said["message"]["content"]
