"""`rewind --files`, killed at any file call: files are old or new, and the same command ends it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Final

import pytest

from lab.command import DONE, KILLED, UNARMED, USAGE, Command
from lab.kills import killing
from lab.layers import SEED
from lab.shim import Arming

TURN: Final = """
[[replies]]
calls = [{ tool = "read_file", arguments = { path = "a.txt" } }]

[[replies]]
text = "I write."
calls = [
  { tool = "write_file", arguments = { path = "a.txt", content = "changed\\n" } },
  { tool = "write_file", arguments = { path = "new/b.txt", content = "new\\n" } },
  { tool = "bash", arguments = { access = "write", command = "rm gone.txt" } },
]

[[replies]]
text = "It is done."
"""
BEFORE: Final = {"a.txt": "old\n", "gone.txt": "gone\n", "own.txt": "mine\n"}
"""What the person has; `own.txt` is not in a commit, and changed behind the turn."""
AFTER: Final = {"a.txt": "changed\n", "new/b.txt": "new\n", "own.txt": "mine, changed\n"}
GONE_BACK: Final = {**BEFORE, "own.txt": AFTER["own.txt"]}


class Stage:
    """A repository with a turn of the agent behind it, put back before each kill."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._folder, self._copy = folder / "stage", folder / "copy"
        self.command = Command(library, self._folder)
        work = self.command.work
        for name in ("a.txt", "gone.txt"):
            (work / name).write_text(BEFORE[name])
        self._git("init", "--quiet")
        self._git("add", ".")
        self._git("-c", "user.name=A", "-c", "user.email=a@b", "commit", "--quiet", "-m", "first")
        (work / "own.txt").write_text(BEFORE["own.txt"])
        (self._folder / "turn.toml").write_text(TURN)
        free = ("--approval-mode", "auto", "--sandbox", "off", "--no-commit")
        model = f"scripted:{self._folder}/turn.toml"
        status, said = self.command.run("-p", "go", "-m", model, *free)
        assert status == DONE, said
        (work / "own.txt").write_text(AFTER["own.txt"])
        assert self.files() == AFTER
        [journal] = (self.command.home / "data/threads").glob("*.jsonl")
        self._rewind = ("rewind", journal.stem, "--files")
        shutil.copytree(self._folder, self._copy, symlinks=True)

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(
            ("git", *arguments), cwd=self.command.work, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def files(self) -> dict[str, str]:
        """What stands in the repository."""
        work = self.command.work
        return {
            path.relative_to(work).as_posix(): path.read_text()
            for path in work.rglob("*")
            if path.is_file() and path.relative_to(work).parts[0] != ".git"
        }

    def rewind(self, arming: Arming = UNARMED, **extra: str) -> tuple[int, str]:
        """Run it; calls below home and repository count."""
        extra["CRASH_DIR"] = str(self._folder)
        return self.command.run(*self._rewind, arming=arming, **extra)

    def armings(self) -> list[Arming]:
        """Every way in which it can be killed."""
        kinds = self._folder / "kinds"
        status, said = self.rewind(CRASH_KINDS=str(kinds))
        assert (status, self.files()) == (DONE, GONE_BACK), said
        return list(killing(kinds.read_text()))

    def kill(self, arming: Arming) -> list[str]:
        """The command so killed, what is there then, the same again; what is wrong."""
        shutil.rmtree(self._folder)
        shutil.copytree(self._copy, self._folder, symlinks=True)
        status, said = self.rewind(arming)
        if status == DONE:
            return []  # it came to fewer calls this time
        found = [] if status == KILLED else [f"ended with {status}: {said}"]
        known = {(name, text) for state in (AFTER, BEFORE) for name, text in state.items()}
        drafts = {one for one in self.files().items() if one[0].endswith(".treadle-tmp")}
        if torn := {*self.files().items()} - known - drafts:
            found.append(f"neither old nor new: {torn}")
        status, said = self.rewind()
        if status != DONE and not (status in (1, USAGE) and "no turn in view" in said):
            found.append(f"again: {status}: {said}")
        if self.files() != GONE_BACK:
            found.append(f"files: {self.files()}")
        status, said = self.command.run("verify", "--all")
        if status != DONE:
            found.append(f"verify: {status}: {said}")
        self._git("fsck", "--strict")
        return [f"{arming}: {text}" for text in found]


@pytest.fixture
def stage(shim_library: Path, fast_folder: Path) -> Stage:
    return Stage(shim_library, fast_folder)


@pytest.mark.torture
def test_a_rewind_with_files_killed_anywhere_is_ended_by_the_same_command(stage: Stage) -> None:
    armings = stage.armings()
    assert len(armings) > 20
    assert [text for arming in armings for text in stage.kill(arming)] == []


def test_a_rewind_with_files_killed_somewhere_is_ended_by_the_same_command(stage: Stage) -> None:
    armings = Random(SEED).sample(stage.armings(), 4)
    assert [text for arming in armings for text in stage.kill(arming)] == []
