"""The real command, in a folder of its own, under the shim."""

from __future__ import annotations

import os
from pathlib import Path

import warm_process
from lab.shim import MODES, Arming

ANSWER = """
[[replies]]
text = "I look first."
calls = [{ tool = "bash", arguments = { access = "write", command = "echo ran >> effects" } }]

[[replies]]
text = "It is done."
"""
HELLO = '[[replies]]\ntext = "Hello again."\n'

DONE, USAGE, TRY_LATER, KILLED = 0, 2, 75, -9
UNARMED = Arming()


class Command:
    """`treadle` in a folder of its own, under the shim."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._library = library
        self.home, self.work = folder / "home", folder / "work"
        self.effects = self.work / "effects"
        self.work.mkdir(parents=True)
        (folder / "answer.toml").write_text(ANSWER)
        (folder / "hello.toml").write_text(HELLO)
        self._folder = folder

    def run(self, *arguments: str, arming: Arming = UNARMED, **extra: str) -> tuple[int, str]:
        """Run it so; exit code, and what it said on both streams.

        The calls below its home count, unless `CRASH_DIR` names another folder. How it is armed
        stands in a file: a yes to a command is bound to the environment, which stays as it is.
        """
        settings = {
            "CRASH_DIR": str(self.home),
            "CRASH_AT": str(arming.at),
            "CRASH_MODE": str(MODES[arming.mode]),
            "FAIL_AT": str(arming.fail_at),
            "FAIL_FROM": str(arming.fail_from),
            "FAIL_WITH": str(arming.number),
            **extra,
        }
        path = self._folder / "settings"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._folder)}
        environment |= {"TREADLE_HOME": str(self.home), "CRASH_SETTINGS": str(path)}
        environment["LD_PRELOAD"] = str(self._library)
        done = warm_process.run(arguments, self.work, environment, None, timeout_s=100)
        return done.returncode, done.stdout + done.stderr

    def work_on(self, arming: Arming = UNARMED, **extra: str) -> tuple[int, str]:
        """The first turn: one command of the shell, one answer."""
        model = f"scripted:{self._folder / 'answer.toml'}"
        free = ("--approval-mode", "auto", "--sandbox", "off")
        return self.run("-p", "do it", "-m", model, *free, arming=arming, **extra)

    def go_on(self) -> list[str]:
        """A later process continues the thread, if one was acknowledged; what is wrong then."""
        model = f"scripted:{self._folder / 'hello.toml'}"
        status, said = self.run("-c", "-p", "go on", "-m", model)
        found = []
        if status == USAGE and "no thread has worked" in said and not self.effects.exists():
            return []  # killed before there was a thread
        if status != DONE or "Hello again." not in said:
            found.append(f"{status}: {said}")
        if self.effects.exists() and self.effects.read_text() != "ran\n":
            found.append(f"repeated: {self.effects.read_text()!r}")
        return found
