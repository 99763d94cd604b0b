"""Signals and crashes: what the next process finds."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Run

Script = Callable[[str], str]

OPTIONS = ["--approval-mode", "auto", "--no-commit"]

SLOW = """
[[replies]]
when.step = 0
text = "I run it."
[[replies.calls]]
tool = "bash"
arguments = { access = "write", command = "echo ran >> effects; cat fifo" }

[[replies]]
when = { step = 1, last = "Uncertain" }
text = "It may have happened."

[[replies]]
when = { step = 1, last = "Cancelled" }
text = "It was stopped."

[[replies]]
when = { step = 1, last = "through" }
text = "It went through."

[[replies]]
text = "something else"
"""


class Turn:
    """A turn whose command runs and waits for somebody to write into the FIFO it reads."""

    def __init__(self, repository: Path, environment: dict[str, str], model: str) -> None:
        os.mkfifo(repository / "fifo")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "treadle",
                "-p",
                "go",
                "-m",
                model,
                "--approval-mode",
                "auto",
                "--no-commit",
            ],
            cwd=repository,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # Opening this end returns when the command has opened the other.
        self.fifo = os.open(repository / "fifo", os.O_WRONLY)


@pytest.fixture
def turn(repository: Path, environment: dict[str, str], script: Script) -> Turn:
    return Turn(repository, environment, script(SLOW))


def test_a_killed_command_is_reported_as_uncertain_and_not_run_again(
    treadle: Run, turn: Turn, repository: Path
) -> None:
    turn.process.kill()
    turn.process.communicate()
    os.close(turn.fifo)
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    assert "not finished: bash" in treadle("show", thread).stdout
    done = treadle("resume", thread)
    assert (done.returncode, done.stdout) == (0, "It may have happened.\n"), done.stderr
    assert "had died" in done.stderr
    assert (repository / "effects").read_text() == "ran\n"
    replayed = treadle("replay", thread)
    assert replayed.returncode == 0, replayed.stdout
    assert replayed.stdout.count("ToolUncertain") == 1
    assert treadle("verify", thread).returncode == 0


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_the_command_with_its_children_and_settles_the_thread(
    treadle: Run, turn: Turn, repository: Path, number: int, code: int
) -> None:
    turn.process.send_signal(number)
    _, errors = turn.process.communicate(timeout=60)
    assert turn.process.returncode == code, errors
    unread = select.poll()
    unread.register(turn.fifo, 0)
    assert unread.poll(60_000) == [(turn.fifo, select.POLLERR)]  # `cat` is gone, or going
    os.close(turn.fifo)
    thread = json.loads(treadle("list", "--json").stdout)[0]["id"]
    done = treadle("resume", thread)
    assert done.returncode == 0, done.stderr
    assert done.stdout in ("It was stopped.\n", "It may have happened.\n", "")
    assert (repository / "effects").read_text() == "ran\n"
    assert treadle("verify", thread).returncode == 0


def test_a_second_process_on_the_thread_is_told_to_try_later(
    treadle: Run, turn: Turn, repository: Path
) -> None:
    done = treadle("-c", "-p", "me too")
    assert done.returncode == 75
    assert "open in another process" in done.stderr
    assert treadle("list").returncode == 0
    os.write(turn.fifo, b"through\n")
    os.close(turn.fifo)
    assert turn.process.communicate(timeout=60)[0] == "It went through.\n"
