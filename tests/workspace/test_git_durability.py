"""Every git that writes is told to sync, in the words that its version knows."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from treadle.process.result import Ran
from treadle.workspace.commit import GitWorkspace
from treadle.workspace.files.states import FileStates
from workspace.repo import Agent, Repo, edited

OLD, NEW = "core.fsyncObjectFiles=", "core.fsync="
WRITING = ("add", "commit", "reset")


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
    repo.write("new.py", "print(10)\n")
    assert (await agent.end(edited("new.py"))).action_taken
    asked = lines_of(calls)
    writes = [line for line in asked if set(line.split()) & set(WRITING)]
    assert len(writes) == 2
    assert [line for line in writes if told not in line or never in line] == []
    assert not any(never in line for line in asked)


@pytest.mark.parametrize("version", ["2.39.5"])
async def test_a_round_that_writes_a_file_starts_few_gits(repo: Repo, calls: Path) -> None:
    """Each takes milliseconds, in every round of every agent."""
    workspace = GitWorkspace(repo.path, confined=run_nothing)
    states = FileStates(workspace.repository, "T-01890a5d-ac96-774b-bcce-b302099a8057")
    newest = await states.save("before", None)
    counts = []
    for name in ("a.py", "a.py", "new.py", "b.py", "deep/new.py"):
        known = len(lines_of(calls))
        before = await workspace.observe()
        newest = await states.save("before", newest) or newest
        repo.write(name, f"print({len(counts)}, 'new')\n")
        round_ = [edited(name)]
        result = await workspace.after_tools(round_, before, is_whole=True, trailer="A: b")
        assert result.action_taken
        assert result.observed is not None
        assert result.observed.head == result.commit
        made = await states.save("after", newest)
        assert made is not None, states.problem
        newest = made
        asked = [line for line in lines_of(calls)[known:] if line.startswith("-c")]
        counts.append(len(asked))
    # A new file takes one more: it is made known to the index.
    assert counts[1:] == [6, 7, 6, 7]
    assert repo.git("status", "--short") == ""


async def run_nothing(*_: object) -> tuple[Ran, tuple[str, ...]]:
    """There is no hook to run."""
    raise AssertionError


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()
