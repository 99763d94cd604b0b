"""Compaction by command: a summary stands for what was said, and nothing is deleted."""

from __future__ import annotations

from cli.conftest import Run
from cli.test_approve import COMMAND, Script, only_thread

SUMMED = """
[[replies]]
when.system = "You write the summary"
text = "They said hello."

[[replies]]
when.seen = "they said hello|They said hello"
text = "I read the summary."

[[replies]]
text = "Hello to you."
"""


def test_compact_puts_a_summary_in_the_place_of_messages_and_deletes_none(
    treadle: Run, script: Script
) -> None:
    treadle("-p", "first words", "-m", script(SUMMED))
    thread = only_thread(treadle)["id"]
    done = treadle("compact", thread, "--focus", "the greeting")
    assert (done.returncode, done.stdout) == (
        0,
        "2 of 2 messages are no longer in view: a summary stands there\n",
    ), done.stderr
    treadle("-c", "-p", "more")
    shown = treadle("show", thread).stdout
    told = shown.index("the 2 messages above are summarised for the model")
    assert shown.index("first words") < told < shown.index("more")
    assert treadle("verify", thread).returncode == 0


def test_compact_says_why_there_is_nothing_to_compact(treadle: Run, script: Script) -> None:
    treadle("-p", "go", "-m", script(COMMAND), "--approval-mode", "ask")
    waiting = only_thread(treadle)["id"]
    done = treadle("compact", waiting)
    assert done.returncode == 2
    assert f"treadle approve {waiting}" in done.stderr
