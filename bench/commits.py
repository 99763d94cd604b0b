"""What a round that writes one file costs in git, beside the bare gits of a person."""

from __future__ import annotations

import asyncio
import resource
import subprocess
from pathlib import Path

from bench.report import Row, at_most
from treadle.core.tools import CompletedToolInfo
from treadle.process.result import Ran
from treadle.scratch_folders import scratch_folder
from treadle.workspace.commit import GitWorkspace
from treadle.workspace.files.states import FileStates

FILE_COUNT = 5000
FOLDER_COUNT = 50
ROUNDS = 5
THREAD = "T-01890a5d-ac96-774b-bcce-b302099a8057"
BARE = (("status", "--porcelain"), ("add", "--all"), ("commit", "--quiet", "-m", "a change"))
PERSON = ("-c", "user.name=Bench", "-c", "user.email=bench@example.invalid")


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(("git", *PERSON, *arguments), cwd=folder, check=True, capture_output=True)


def _make_repository(folder: Path) -> None:
    for number in range(FILE_COUNT):
        path = folder / f"d{number % FOLDER_COUNT}" / f"f{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"x = {number}\n" * 40)
    _git(folder, "init", "--quiet")
    _git(folder, "config", "user.name", "Bench")
    _git(folder, "config", "user.email", "bench@example.invalid")
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "-m", "begin")


def _processor_s() -> float:
    own, theirs = (
        resource.getrusage(one) for one in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + theirs.ru_utime + theirs.ru_stime


async def _run_nothing(*_: object) -> tuple[Ran, tuple[str, ...]]:
    raise AssertionError("the repository has no hooks")


async def _measure_rounds(folder: Path) -> list[float]:
    """Processor seconds of each round, from the look before it to the state after it."""
    workspace = GitWorkspace(folder, confined=_run_nothing)
    states = FileStates(workspace.repository, THREAD)
    newest = await states.save("before", None)
    costs = []
    for number in range(ROUNDS):
        start = _processor_s()
        before = await workspace.observe()
        newest = await states.save("before", newest) or newest
        name = f"new{number}.py"
        (folder / name).write_text("x = 1\n")
        call = CompletedToolInfo("write_file", True, (name,))
        result = await workspace.after_tools([call], before, is_whole=True, trailer="A: b")
        assert result.action_taken, result.note
        newest = await states.save("after", newest) or newest
        costs.append(_processor_s() - start)
    return costs


def _measure_bare(folder: Path) -> list[float]:
    costs = []
    for number in range(ROUNDS):
        start = _processor_s()
        (folder / f"bare{number}.py").write_text("x = 1\n")
        for command in BARE:
            _git(folder, *command)
        costs.append(_processor_s() - start)
    return costs


def measure() -> list[Row]:
    """A round, its commit and its two states in a repository of 5,000 files, to the bare gits."""
    with scratch_folder() as name:
        folder = Path(name)
        _make_repository(folder)
        bare = min(_measure_bare(folder))
        ours = sorted(asyncio.run(_measure_rounds(folder)))[ROUNDS // 2]
    note = f"{1000 * ours:.0f} ms of processor, {1000 * bare:.0f} ms bare"
    return [
        at_most("a round that writes a file, 5,000 files, to bare gits", ours / bare, "x", 4, note)
    ]
