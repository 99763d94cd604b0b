"""In a terminal, a person is asked what became of an uncertain command, and whether one may run."""

from __future__ import annotations

import codecs
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pytest

import warm_process
from cli.conftest import Run
from cli.made_once import Once
from cli.made_once import once as once
from cli.made_once import place as place
from cli.made_once import tmp_path as tmp_path
from cli.test_signals import Script, Turn
from treadle.answers import Verdict
from treadle.cli.question_dialog import SHOWN_LENGTH_MAX
from treadle.core.approval import Approved, Modified, Question, Rejected, Scope
from treadle.core.messages import ToolCall
from treadle.core.tools import RiskLevel

ANSI = re.compile(r"\x1b\[[0-9;]*m")
"""What our own colours are made of."""

ANSWERED = """
[[replies]]
when.step = 0
text = "I run it."
[[replies.calls]]
tool = "bash"
arguments = { access = "write", command = "echo ran >> effects; cat fifo # \\u001b" }

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
def interrupted(
    treadle: Run, repository: Path, environment: dict[str, str], script: Script, once: Once[str]
) -> str:
    """A thread whose command was running when its process was killed."""

    def make() -> str:
        turn = Turn(repository, environment, script(ANSWERED))
        turn.process.kill()
        turn.process.communicate()
        os.close(turn.fifo)
        return str(json.loads(treadle("list", "--json").stdout)[0]["id"])

    return once(make)


TREADLE: Final = (sys.executable, "-m", "treadle")


class Terminal:
    """A program in a terminal of its own; by default `treadle resume`."""

    def __init__(
        self, thread: str, cwd: Path, environment: dict[str, str], program: Sequence[str] = ()
    ) -> None:
        self._screen, theirs = pty.openpty()
        words = program or [*TREADLE, "resume", thread, "--no-commit"]
        changed = {**environment, "TERM": "xterm"}
        handles = (theirs, theirs, theirs)
        self.process = (
            warm_process.start(words[3:], cwd, changed, handles)
            if tuple(words[:3]) == TREADLE and warm_process.can_be_forked(changed)
            else subprocess.Popen(
                words, cwd=cwd, env=changed, stdin=theirs, stdout=theirs, stderr=theirs
            )
        )
        os.close(theirs)
        self.shown = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end within a character

    def read_until(self, words: str) -> None:
        while words not in self.shown:
            self.shown += self._decoder.decode(os.read(self._screen, 65536))

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def read_to_the_end(self) -> str:
        try:
            while piece := os.read(self._screen, 65536):
                self.shown += self._decoder.decode(piece)
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
    assert "$ echo ran >> effects; cat fifo # �" in terminal.shown
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


# ---- may it run? -------------------------------------------------------------------------------

DECIDING = """
import asyncio, signal, sys
import msgspec
from treadle.cli.question_dialog import ask_for_approval
from treadle.core.approval import Question

async def main():
    answer = lambda: print("<the loop goes on>", file=sys.stderr)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, answer)
    verdict = await ask_for_approval(msgspec.json.decode(sys.argv[1], type=Question))
    print(f"<{msgspec.json.encode(verdict).decode()}>")

if sys.argv[2:]:
    open(sys.argv[2]).close()  # until the test has typed
asyncio.run(main())
"""
QUESTION = "instead (n): "
EDIT = "an empty line goes back: "
REMOVE = '{"command": "rm -rf build", "cwd": "src"}'

Decide = Callable[..., Terminal]


@pytest.fixture
def deciding(tmp_path: Path, environment: dict[str, str]) -> Iterator[Decide]:
    """A program that has a person decide about a call, in a terminal."""
    terminals: list[Terminal] = []

    def start(
        arguments_json: str = REMOVE, *, gate: str = "", scope: Scope | None = None
    ) -> Terminal:
        call = ToolCall("id", "bash", arguments_json)
        why = "calls of high risk and above need approval"
        question = Question(call, RiskLevel.HIGH, why, scope or Scope())
        told = msgspec.json.encode(question).decode()
        program = [sys.executable, "-c", DECIDING, told, *filter(None, [gate])]
        terminals.append(Terminal("", tmp_path, environment, program))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.process.kill()
        terminal.process.wait()


def verdict_of(terminal: Terminal) -> Verdict:
    shown = terminal.read_to_the_end()
    assert terminal.process.wait() == 0, shown
    return msgspec.json.decode(shown[shown.rindex("<") + 1 : shown.rindex(">")], type=Verdict)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ("y\r", Verdict(Approved())),
        ("YES \r", Verdict(Approved())),
        ("a\r", Verdict(Approved(), always=True)),
        ("always\r", Verdict(Approved(), always=True)),
        ("n\r\r", Verdict(Rejected())),
        ("no\rnot on a Friday\r", Verdict(Rejected("not on a Friday"))),
        ("abort\r\rnever\ryn\ry\r", Verdict(Approved())),
        ('e\r{"command": "ls"}\r', Verdict(Modified('{"command": "ls"}'))),
        ('edit\r["ls"]\rls\r{"command": NaN}\r{}\r', Verdict(Modified("{}"))),
        ("e\r\rn\rnothing fits\r", Verdict(Rejected("nothing fits"))),
    ],
)
def test_a_person_decides_whether_a_call_may_run(
    deciding: Decide, answer: str, verdict: Verdict
) -> None:
    terminal = deciding()
    terminal.read_until(QUESTION)
    terminal.type(answer)
    assert verdict_of(terminal) == verdict


def test_a_person_sees_the_exact_call_its_risk_and_the_reason(deciding: Decide) -> None:
    terminal = deciding('{"command": "cd a &&\\nrm -rf b\\ncwd: c", "cwd": "src", "n": [1, {}]}')
    terminal.read_until(QUESTION)
    lines = [ANSI.sub("", line) for line in terminal.shown.splitlines()]
    assert lines[:-1] == [
        "bash needs your approval · high risk",
        "  │ command:",
        "  │   cd a &&",
        "  │   rm -rf b",
        "  │   cwd: c",
        "  │ cwd: src",
        "  │ n: [1,{}]",
        "  calls of high risk and above need approval",
    ]
    assert lines[-1].startswith(
        "Run it? yes (y), always bash in this thread (a), edit its arguments (e), no, and what"
    )


def test_a_yes_for_good_is_for_the_kinds_that_are_named(deciding: Decide) -> None:
    kinds = ("git status", "npm test")
    terminal = deciding(scope=Scope(kinds=kinds))
    terminal.read_until(QUESTION)
    assert "`git status`, `npm test` in this thread (a)" in terminal.shown
    terminal.type("a\r")
    assert verdict_of(terminal) == Verdict(Approved(), always=True, kinds=kinds)


def test_a_kind_that_is_not_what_it_seems_to_be_cannot_be_allowed_for_good(
    deciding: Decide,
) -> None:
    terminal = deciding(scope=Scope(kinds=("git status", "evil\x1b[2K")))
    terminal.read_until(QUESTION)
    assert "(a)" not in terminal.shown
    terminal.type("a\ralways\rn\r\r")
    assert verdict_of(terminal) == Verdict(Rejected())


def test_a_call_without_a_kind_cannot_be_allowed_for_good(deciding: Decide) -> None:
    reasons = ("it deletes a root\x1b[2K",)
    terminal = deciding(scope=Scope(reasons, confined="read-only, no network"))
    terminal.read_until(QUESTION)
    seen = ANSI.sub("", terminal.shown)
    assert "careful: it deletes a root\N{REPLACEMENT CHARACTER}[2K" in seen
    assert "confined: read-only, no network" in seen
    assert "(a)" not in seen
    terminal.type("a\ralways\rn\r\r")
    assert verdict_of(terminal) == Verdict(Rejected())


@pytest.mark.parametrize("text", ["", "{", "[1]", '"ls"', "rm -rf /"])
def test_arguments_that_are_no_object_are_shown_as_the_model_wrote_them(
    deciding: Decide, text: str
) -> None:
    terminal = deciding(text)
    terminal.read_until(QUESTION)
    assert f"  │ {text}" in [ANSI.sub("", line) for line in terminal.shown.splitlines()]


def test_of_two_arguments_of_one_name_the_one_that_would_run_is_shown(deciding: Decide) -> None:
    terminal = deciding('{"command": "ls", "command": "rm -rf /"}')
    terminal.read_until(QUESTION)
    assert "command: rm -rf /" in terminal.shown
    assert "command: ls" not in terminal.shown


def test_a_long_argument_is_shown_whole_and_hides_no_other(deciding: Decide) -> None:
    arguments = {"cwd": "src", "command": f"{'x' * SHOWN_LENGTH_MAX}the end"}
    terminal = deciding(json.dumps(arguments))
    terminal.read_until(QUESTION)
    assert terminal.shown.count("x") == SHOWN_LENGTH_MAX
    assert "the end" in terminal.shown
    assert "not shown" not in terminal.shown
    assert terminal.shown.index("cwd: src") > terminal.shown.index("the end")
    assert "(a)" not in terminal.shown  # nothing so long is allowed for good
    terminal.type("a\ralways\rn\r\r")
    assert verdict_of(terminal) == Verdict(Rejected())


def test_what_would_run_is_the_brightest_and_only_what_is_critical_is_red(
    deciding: Decide,
) -> None:
    terminal = deciding(scope=Scope(("it is odd",)))
    terminal.read_until(QUESTION)
    assert "\x1b[1m" in terminal.shown.partition("│ ")[2][:12]
    assert terminal.shown.count("\x1b[1m") == terminal.shown.count("│ ")
    assert "\x1b[31m" not in terminal.shown


HOSTILE = "ls\x1b[2K\x1b]0;t\x07\r\u202edlrow\u2066\u200b\x9b1m\x7f\u2028\x08"


def test_no_control_or_hidden_character_reaches_the_terminal_and_they_are_named(
    deciding: Decide,
) -> None:
    arguments = json.dumps({"command": HOSTILE, "evil\x1b[2K\n\u202e": HOSTILE})
    terminal = deciding(arguments)
    terminal.read_until(QUESTION)
    terminal.type("e\r")
    terminal.read_until(EDIT)
    seen = ANSI.sub("", terminal.shown).replace("\r\n", "\n")
    assert [c for c in seen if not c.isprintable() and c != "\n"] == []
    assert "  │ command: ls�[2K�]0;t���dlrow���1m���\n" in seen
    assert '  │ "evil\\u001b[2K\\n\\u202e": ls' in seen
    assert "shown as �: U+0007, U+0008, U+000D, U+001B, U+007F, ...\n" in seen
    offered = next(line for line in seen.splitlines() if line.startswith("  │ {"))
    assert json.loads(offered.removeprefix("  │ ")) == json.loads(arguments)


def test_what_was_typed_before_the_question_is_no_answer(deciding: Decide, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    terminal = deciding(gate="gate")
    terminal.type("y\r")
    terminal.read_until("y\r\n")  # its echo: the line has arrived
    (tmp_path / "gate").open("w").close()
    terminal.read_until(QUESTION)
    terminal.type("n\r\r")
    assert verdict_of(terminal) == Verdict(Rejected())


def test_other_things_go_on_while_a_person_thinks(deciding: Decide) -> None:
    terminal = deciding()
    terminal.read_until(QUESTION)
    terminal.process.send_signal(signal.SIGUSR1)
    terminal.read_until("<the loop goes on>")
    terminal.type("y\r")
    assert verdict_of(terminal) == Verdict(Approved())


@pytest.mark.parametrize("before", ["", "n\r", "e\r"])
def test_the_end_of_input_is_no_answer(deciding: Decide, before: str) -> None:
    terminal = deciding()
    terminal.read_until(QUESTION)
    terminal.type(before)
    terminal.read_until({"": QUESTION, "n\r": "may be empty: ", "e\r": EDIT}[before])
    terminal.type("\x04")
    assert "click.exceptions.Abort" in terminal.read_to_the_end()
    assert terminal.process.wait() == 1
