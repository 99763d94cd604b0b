"""The same bot in four libraries, and what becomes of it: `make peers` prints the table.

What is shown is what each library does by itself, on one machine, with the store it comes with
(pydantic-ai has none on disk, so its program keeps a file). Each answers from a script.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
BOTS = ("treadle", "pydantic_ai", "openai_agents", "langgraph")
ROUNDS = 10


class Bot:
    """A bot in a folder of its own."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        folder.mkdir()

    def start(self, prompt: str) -> subprocess.Popen[str]:
        """It says something, in a process of its own."""
        return self._run(f"{self.name}_bot.py", str(self.folder), "ann", prompt)

    def say(self, prompt: str) -> str:
        """What it answers; what it died of, if it did."""
        process = self.start(prompt)
        told, failed = process.communicate()
        return told.strip() if process.returncode == 0 else f"failed: {failed.strip()[-200:]}"

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, HERE / program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def effects(self) -> list[str]:
        """What its tools have done to the world."""
        file = self.folder / "effects.txt"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def prompts(self) -> list[str]:
        """What people have said to it, as it remembers."""
        told, failed = self._run("history.py", self.name, str(self.folder), "ann").communicate()
        assert told, failed
        found: list[str] = json.loads(told)
        return found


def kill_in_a_tool(bot: Bot) -> str:
    """Kill -9 behind the effect of a tool; then go on, and if that does not help, ask again."""
    bot.say("Hi")
    os.mkfifo(bot.folder / "hang")
    process = bot.start("Charge order 7.")
    with (bot.folder / "hang").open("w"):  # the tool has opened it: it is in the middle
        process.send_signal(signal.SIGKILL)
        process.communicate()
    (bot.folder / "hang").unlink()
    told = bot.say("resume")
    if "tool has answered" not in told:
        told = bot.say("Charge order 7.")
    return f"charged {len(bot.effects)} times"


def approve_after_a_restart(bot: Bot) -> str:
    """The question waits, another process says yes."""
    if not bot.say("Refund order 7.").startswith("waits"):
        return "was not asked"
    told = bot.say("yes")
    return "works" if "answered" in told and len(bot.effects) == 1 else f"{told}, {bot.effects}"


def approve_twice(bot: Bot) -> str:
    """Two processes say yes at the same time, as two people do who have the page open."""
    worst = 0
    for number in range(ROUNDS):
        bot.say(f"Refund order 7. {number}")
        before = len(bot.effects)
        for process in [bot.start("yes"), bot.start("yes")]:
            process.communicate()
        worst = max(worst, len(bot.effects) - before)
    return f"paid back {worst} times"


def speak_at_the_same_time(bot: Bot) -> str:
    """Two processes say something in one conversation at the same time."""
    answered = refused = 0
    for number in range(ROUNDS):
        for process in [bot.start(f"Hi {number}a"), bot.start(f"Hi {number}b")]:
            process.communicate()
            answered += process.returncode == 0
            refused += process.returncode != 0
    lost = answered - len(bot.prompts)
    return f"{lost} of {answered} answered prompts lost, {refused} refused"


SCENES = (kill_in_a_tool, approve_after_a_restart, approve_twice, speak_at_the_same_time)


def count_lines(name: str) -> int:
    """Lines of code: what is no blank, no comment and no text at the top."""
    code = (HERE / f"{name}_bot.py").read_text().split('"""', 2)[2]
    return sum(bool(line.strip()) and line.strip()[0] != "#" for line in code.splitlines())


def main() -> None:
    """Print the table."""
    print("| | " + " | ".join(BOTS) + " |")
    print("|---|" + "---|" * len(BOTS))
    print("| lines of the program | " + " | ".join(str(count_lines(bot)) for bot in BOTS) + " |")
    with tempfile.TemporaryDirectory() as folder:
        for scene in SCENES:
            told = [scene(Bot(name, Path(folder, f"{scene.__name__}-{name}"))) for name in BOTS]
            print(f"| {scene.__name__.replace('_', ' ')} | " + " | ".join(told) + " |", flush=True)


if __name__ == "__main__":
    main()
