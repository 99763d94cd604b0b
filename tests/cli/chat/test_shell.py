"""A command that the person runs in the chat is kept, whatever becomes of the window."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from cli.chat.talks import Start


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
    talk.process.wait(timeout=20)
    (journal,) = repository.parent.rglob("T-*.jsonl")
    events = [json.loads(line).get("event", {}) for line in journal.read_text().splitlines()]
    assert [event["output"] for event in events if event.get("type") == "command_shown"] == [
        "own-23"
    ]
