"""Commands that change what is kept, killed at any file call: the same command again ends them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest
from msgspec import Struct

from lab.command import DONE, KILLED, UNARMED, USAGE, Command
from lab.kills import killing
from lab.layers import SEED
from lab.shim import Arming

WAITING: Final = 4
"""The exit code of a run that waits for a person's yes."""


NOTHING_LEFT: Final = (1, USAGE)
"""The exit codes of a command that finds nothing to do."""


class Killed(Struct, frozen=True):
    """A command, what there is before it, and what its second run may say if nothing is left to do.

    In `arguments`, `ID` stands for the thread and `HOME` for the folder of the user.
    """

    arguments: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    is_done: str = "nothing is left to do"
    effect_count_max: int = 1


COMMANDS: Final = {
    "approve": Killed(
        ("approve", "ID", "--yes", "-m", "ANSWER", "--sandbox", "off"),
        is_done="waits for",
    ),
    "compact": Killed(("compact", "ID", "-m", "HELLO"), is_done="nothing to compact"),
    "fork": Killed(("fork", "ID")),
    "import": Killed(("import", "HOME/session.jsonl")),
    "note": Killed(("note", "ID", "a word")),
    "rewind": Killed(("rewind", "ID"), is_done="no turn in view"),
    # That of the thread before it, of the task that was killed, and of the next one.
    "run": Killed(
        ("run", "do it", "-m", "ANSWER", "--approval-mode", "auto", "--sandbox", "off"),
        effect_count_max=3,
    ),
    "scrub": Killed(("scrub", "ID", "first", "--yes"), (("fork", "ID"),), is_done="found nowhere"),
    "trash": Killed(("trash", "ID"), is_done="is in the trash"),
    "restore": Killed(("restore", "ID"), (("trash", "ID"),), is_done="not in the trash"),
}

SESSION: Final = (
    {"type": "user", "sessionId": "5f1c", "uuid": "a1", "cwd": "/tmp", "parentUuid": None},
    {"type": "assistant", "sessionId": "5f1c", "uuid": "a2", "cwd": "/tmp", "parentUuid": "a1"},
)
SAID: Final = ({"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hi."})


class Stage:
    """A command and what there is before it, put back before each run."""

    def __init__(self, library: Path, folder: Path, killed: Killed) -> None:
        self.command = Command(library, folder / "stage")
        self._folder, self._copy, self._killed = folder / "stage", folder / "copy", killed
        lines = [
            {**line, "message": said, "timestamp": f"2026-11-21T08:15:0{number}.000Z"}
            for number, (line, said) in enumerate(zip(SESSION, SAID, strict=True))
        ]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (self._folder / "session.jsonl").write_text(text)
        model = ("-m", f"scripted:{self._folder / 'answer.toml'}", "--sandbox", "off")
        status, said = self.command.run("-p", "do it first", *model, "--approval-mode", "ask")
        assert status == WAITING, said
        self.thread = json.loads(self.command.run("list", "--json")[1])[0]["id"]
        if killed.arguments[0] != "approve":
            status, said = self.run(COMMANDS["approve"].arguments)
            assert status == DONE, said
        for before in killed.before:
            status, said = self.run(before)
            assert status == DONE, said
        shutil.copytree(self._folder, self._copy, symlinks=True)

    def run(
        self, arguments: Sequence[str] = (), arming: Arming = UNARMED, **extra: str
    ) -> tuple[int, str]:
        """Run these arguments, or the command itself; exit code, and what it said."""
        meant = {
            "ID": self.thread,
            "ANSWER": f"scripted:{self._folder / 'answer.toml'}",
            "HELLO": f"scripted:{self._folder / 'hello.toml'}",
        }
        words = [
            meant.get(one, one.replace("HOME", str(self._folder)))
            for one in arguments or self._killed.arguments
        ]
        return self.command.run(*words, arming=arming, **extra)

    def put_back(self) -> None:
        """As it was before the command."""
        shutil.rmtree(self._folder)
        shutil.copytree(self._copy, self._folder, symlinks=True)

    def armings(self) -> list[Arming]:
        """Every way in which the command can be killed."""
        kinds = self._folder / "kinds"
        status, said = self.run(CRASH_KINDS=str(kinds))
        assert status == DONE, said
        return list(killing(kinds.read_text()))

    def kill(self, arming: Arming) -> list[str]:
        """The command so killed, the same again, and a look at all; what is wrong."""
        self.put_back()
        status, said = self.run(arming=arming)
        if status == DONE:
            return []  # it came to fewer calls this time
        found = [] if status == KILLED else [f"ended with {status}: {said}"]
        status, said = self.run()
        if status != DONE and not (status in NOTHING_LEFT and self._killed.is_done in said):
            found.append(f"again: {status}: {said}")
        status, said = self.command.run("verify", "--all")
        if status != DONE:
            found.append(f"verify: {status}: {said}")
        effects = self.command.effects
        if effects.exists() and effects.read_text() not in self._allowed_effects:
            found.append(f"repeated: {effects.read_text()!r}")
        return [f"{arming}: {text}" for text in found]

    @property
    def _allowed_effects(self) -> list[str]:
        return ["ran\n" * count for count in range(1, self._killed.effect_count_max + 1)]


@pytest.fixture
def stage(request: pytest.FixtureRequest, shim_library: Path, fast_folder: Path) -> Stage:
    return Stage(shim_library, fast_folder, COMMANDS[request.param])


@pytest.mark.torture
@pytest.mark.parametrize("stage", COMMANDS, indirect=True)
def test_a_command_killed_anywhere_is_ended_by_the_same_command(stage: Stage) -> None:
    assert [text for arming in stage.armings() for text in stage.kill(arming)] == []


def test_some_commands_killed_somewhere_are_ended_by_the_same_command(
    shim_library: Path, fast_folder: Path
) -> None:
    dice = Random(SEED)
    found = []
    for name in ("approve", "scrub", "trash"):
        stage = Stage(shim_library, fast_folder / name, COMMANDS[name])
        for arming in dice.sample(stage.armings(), 2):
            found += [f"{name}: {text}" for text in stage.kill(arming)]
    assert found == []
