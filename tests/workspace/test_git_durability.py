"""Every git that writes is told to sync, in the words that its version knows."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from treadle.workspace.files.states import FileStates
from workspace.repo import Agent, Repo, edited

OLD, NEW = "core.fsyncObjectFiles=", "core.fsync="
WRITING = ("hash-object", "mktree", "write-tree", "commit-tree", "commit", "update-index", "reset")


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> Path:
    """What a git of a version was asked; the real one does it."""
    real, folder, log = shutil.which("git"), tmp_path / "bin", tmp_path / "calls"
    folder.mkdir()
    program = folder / "git"
    program.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = --version ] && {{ echo "git version {version}"; exit; }}\n'
        f'echo "$*" >> {log}\nexec {real} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return log


@pytest.mark.parametrize(
    ("version", "told", "never"),
    [("2.11.0", OLD, NEW), ("2.35.9", OLD, NEW), ("2.36.0", NEW, OLD), ("2.39.5", NEW, OLD)],
)
async def test_a_git_that_writes_is_told_to_sync(
    repo: Repo, calls: Path, version: str, told: str, never: str
) -> None:
    repo.write("a.py", "print(1)\n")
    states = FileStates(repo.path, "T-01890a5d-ac96-774b-bcce-b302099a8057")
    assert await states.save("before", None) is not None, states.problem
    agent = Agent(repo.path)
    await agent.begin()
    repo.write("a.py", "print(10)\n")
    assert (await agent.end(edited("a.py"))).action_taken
    asked = lines_of(calls)
    writes = [line for line in asked if set(line.split()) & set(WRITING)]
    assert len(writes) >= 3
    assert [line for line in writes if told not in line or never in line] == []
    assert not any(never in line for line in asked)


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()
