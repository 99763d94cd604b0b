"""In a terminal, a person is asked what became of a command that a crash left uncertain."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Run
from cli.test_signals import Script, Turn

ANSWERED = """
[[replies]]
when.step = 0
text = "I run it."
calls = [{ tool = "bash", arguments = { command = "echo ran >> effects; cat fifo" } }]

[[replies]]
when = { step = 1, last = "did not succeed" }
text = "You say it failed."

[[replies]]
when = { step = 1, last = "it printed 42" }
text = "You say it printed 42."

[[replies]]
when = { step = 1, last = "through" }
text = "It ran again."

[[replies]]
text = "something else"
"""


@pytest.fixture
def interrupted(treadle: Run, repository: Path, environment: dict[str, str], script: Script) -> str:
    """A thread whose command was running when its process was killed."""
    turn = Turn(repository, environment, script(ANSWERED))
    turn.process.kill()
    turn.process.communicate()
    os.close(turn.fifo)
    return str(json.loads(treadle("list", "--json").stdout)[0]["id"])


class Terminal:
    """`treadle resume` in a terminal of its own."""

    def __init__(self, thread: str, cwd: Path, environment: dict[str, str]) -> None:
        self._screen, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "treadle", "resume", thread, "--no-commit"],
            cwd=cwd,
            env={**environment, "TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        self.shown = ""

    def read_until(self, words: str) -> None:
        while words not in self.shown:
            self.shown += os.read(self._screen, 65536).decode()

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def read_to_the_end(self) -> str:
        try:
            while piece := os.read(self._screen, 65536):
                self.shown += piece.decode()
        except OSError:  # Linux tells the end of a terminal so
            pass
        os.close(self._screen)
        return self.shown


@pytest.mark.parametrize(
    ("answer", "then"),
    [("f\r", "You say it failed."), ("e\rit printed 42\r", "You say it printed 42.")],
)
def test_a_person_says_what_became_of_it_and_it_is_not_run_again(
    interrupted: str, repository: Path, environment: dict[str, str], answer: str, then: str
) -> None:
    terminal = Terminal(interrupted, repository, environment)
    terminal.read_until("Run it again (r)")
    terminal.type(answer)
    assert then in terminal.read_to_the_end()
    assert terminal.process.wait() == 0
    assert (repository / "effects").read_text() == "ran\n"


def test_a_person_may_have_it_run_again(
    interrupted: str, repository: Path, environment: dict[str, str]
) -> None:
    terminal = Terminal(interrupted, repository, environment)
    terminal.read_until("Run it again (r)")
    terminal.type("r\r")
    with (repository / "fifo").open("w") as fifo:
        fifo.write("through\n")
    assert "It ran again." in terminal.read_to_the_end()
    assert terminal.process.wait() == 0
    assert (repository / "effects").read_text() == "ran\nran\n"


@pytest.mark.parametrize("leave", ["a signal", "the end of input"])
def test_who_does_not_answer_can_leave_and_is_asked_next_time(
    interrupted: str, repository: Path, environment: dict[str, str], treadle: Run, leave: str
) -> None:
    terminal = Terminal(interrupted, repository, environment)
    terminal.read_until("Run it again (r)")
    if leave == "a signal":
        terminal.process.send_signal(signal.SIGTERM)
    else:
        terminal.type("\x04")
    shown = terminal.read_to_the_end()
    assert terminal.process.wait() == (143 if leave == "a signal" else 130), shown
    assert "Traceback" not in shown
    assert "not finished: bash" in treadle("show", interrupted).stdout


def test_ctrl_c_at_the_question_cancels_the_turn(
    interrupted: str, repository: Path, environment: dict[str, str], treadle: Run
) -> None:
    terminal = Terminal(interrupted, repository, environment)
    terminal.read_until("Run it again (r)")
    terminal.process.send_signal(signal.SIGINT)
    assert "Traceback" not in terminal.read_to_the_end()
    assert terminal.process.wait() == 130
    assert "it had started and may have had effects" in treadle("show", interrupted).stdout


def test_a_question_that_is_not_answered_is_asked_again(
    interrupted: str, repository: Path, environment: dict[str, str], treadle: Run
) -> None:
    terminal = Terminal(interrupted, repository, environment)
    terminal.read_until("Run it again (r)")
    terminal.process.kill()
    terminal.read_to_the_end()
    terminal.process.wait()
    again = Terminal(interrupted, repository, environment)
    again.read_until("Run it again (r)")
    again.type("f\r")
    assert "You say it failed." in again.read_to_the_end()
    assert again.process.wait() == 0
    assert treadle("replay", interrupted).stdout.count("ToolUncertain") == 1
