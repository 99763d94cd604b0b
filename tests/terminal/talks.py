"""Whole sessions with the chat, in a terminal, for the tests that are about what a person sees."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import warm_process
from terminal.harness import ENTER, Screen

SCRIPT = r"""
[[replies]]
when.system = "commit message"
text = "fix: add instead of subtracting"

[[replies]]
when = { user = "^run", step = 0 }
text = "I run it."
calls = [{ tool = "bash", arguments = { access = "write", command = "echo ran >> effects" } }]

[[replies]]
when = { user = "^run", last = "rejected|ended by|denied|no:" }
text = "Then I leave it."

[[replies]]
when.user = "^run"
text = "It ran."

[[replies]]
when = { user = "^make", step = 0 }
calls = [{ tool = "bash", arguments = { access = "write", command = "touch made" } }]

[[replies]]
when.user = "^make"
text = "It is made."

[[replies]]
when = { user = "^edit", step = 0 }
text = "I edit it."
[[replies.calls]]
tool = "edit_file"
arguments = { path = "calc.py", edits = [{ old_str = "a - b", new_str = "a + b" }] }

[[replies]]
when.user = "^edit"
text = "It adds now."

[[replies]]
when = { user = "^wait", step = 0 }
text = "I wait."
calls = [{ tool = "bash", arguments = { access = "write", command = "cat fifo" } }]

[[replies]]
when = { user = "^ask", step = 0 }
calls = [{ tool = "plain__note", arguments = {} }]

[[replies]]
when = { user = "a wish" }
text = "Granted."

[[replies]]
when.user = "^ask"
text = "It was asked."

[[replies]]
when = { user = "^serve", step = 0 }
[[replies.calls]]
id = "s1"
tool = "bash"
arguments = { command = "echo listening; cat fifo", background = true, timeout_s = 400 }

[[replies]]
when.user = "^serve"
text = "It serves."

[[replies]]
when.user = "^heard"
text = "I heard of it."

[[replies]]
when.user = "steered"
text = "You steered."

[[replies]]
when = { user = "^wait", last = "through" }
text = "It came through."

[[replies]]
when.user = "^wait"
text = "I go on."

[[replies]]
when.user = "^slow"
text = "This is the beginning of an answer that is never written to its end, by nobody at all."
chunk_size = 4
delay_s = 0.2

[[replies]]
when.user = "second"
text = "The second answer."

[[replies]]
text = "Hello there."
"""
"""What the model says depends on the prompt alone."""

BRISK_S: Final = 0.1
"""Questions take keys so soon here; the tests that are about that show how long they hold out."""
BRISK: Final = {
    "treadle.terminal.choice_dialog.VISIBLE_S_MIN": BRISK_S,
    "treadle.terminal.choice_dialog.QUIET_S": BRISK_S,
    "treadle.terminal.choice_dialog.QUIET_WRITER_S": 2 * BRISK_S,
    "treadle.terminal.plain_terminal.VISIBLE_S_MIN": BRISK_S,
}

Start = Callable[..., "Talk"]


class Talk(Screen):
    """`treadle` in a terminal."""

    def __init__(
        self,
        cwd: Path,
        environment: dict[str, str],
        arguments: Sequence[str],
        columns: int = 80,
        rows: int = 40,
        constants: Mapping[str, float] = BRISK,
    ) -> None:
        super().__init__(
            [sys.executable, "-m", "treadle", *arguments],
            cwd=cwd,
            env=environment,
            columns=columns,
            rows=rows,
            constants=constants,
        )

    def say(self, text: str, until: str) -> None:
        """Send a line and wait for words that were not there before it as often."""
        before = self.text.count(until)
        self.type(text + ENTER)
        self.wait_for(lambda screen: screen.text.count(until) > before)

    def leave(self) -> int:
        """Ctrl+D; the exit code."""
        self.type("\x04")
        return self.wait_for_end()


@contextmanager
def held(fifo: Path) -> Iterator[None]:
    """From when a command has opened the FIFO that it reads: an order to end meets it at work."""
    end = os.open(fifo, os.O_WRONLY)
    try:
        yield
    finally:
        os.close(end)


def told(environment: dict[str, str], *arguments: str, cwd: Path) -> str:
    """What a command of the command line says of it."""
    done = warm_process.run(arguments, cwd, environment, None, timeout_s=60)
    assert done.returncode == 0, done.stderr
    return done.stdout
