"""Tasks in clones of repositories: what is changed is pushed, and travels to the next worker."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fleet.queue_checks import until
from fleet.test_tasks import has_status, working
from treadle import (
    Agent,
    EffectClass,
    Fleet,
    LocalStore,
    MemoryScheduler,
    Repositories,
    ScriptedModel,
    UsageError,
    builtin_tools,
    tool,
)
from treadle.fleet.port import JobStatus

WRITE = {"calls": [{"tool": "write_file", "arguments": {"path": "a.txt", "content": "one\n"}}]}
READ = {"calls": [{"tool": "read_file", "arguments": {"path": "a.txt"}}]}
DONE = {"text": "It is written."}


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that clones push to, with two commits and a tag on the first."""
    config = tmp_path / "gitconfig"
    config.write_text("[user]\n\tname = Ada\n\temail = ada@example.invalid\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    for name in ("first", "second"):
        (folder / name).write_text(name)
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", name)
    git(folder, "tag", "v1", "HEAD~1")
    return folder


def make_coder(
    folder: Path, store: LocalStore, *turns: Any, more: Sequence[Any] = ()
) -> Agent[None, str]:
    return Agent(
        "coder",
        model=ScriptedModel.of(*turns),
        tools=[*builtin_tools(), *more],
        store=store,
        repositories=Repositories(folder),
    )


async def test_what_a_task_has_changed_is_on_a_branch_where_the_repository_is_from(
    origin: Path, tmp_path: Path
) -> None:
    store, fleet = LocalStore.in_memory(), Fleet(MemoryScheduler())
    coder = make_coder(tmp_path / "cache", store, WRITE, DONE)
    fleet.add(coder)
    url = str(origin)
    tasks = [
        await coder.submit("Write it.", repository=url, ref=ref) for ref in ("main", "v1", "HEAD")
    ]
    async with working(fleet, concurrency=3):
        for task in tasks:
            assert (await task.result()).output == "It is written."
        await until(lambda: has_status(fleet, JobStatus.DONE))
    heads = [f"treadle/{task.id}" for task in tasks]
    assert [git(origin, "show", f"{head}:a.txt") for head in heads] == ["one"] * 3
    bases = [git(origin, "rev-parse", f"{head}~1") for head in heads]
    assert bases == [git(origin, "rev-parse", ref) for ref in ("main", "v1", "main")]
    assert git(origin, "rev-parse", "--abbrev-ref", "HEAD") == "main"
    assert [*(tmp_path / "cache" / "work").iterdir()] == []
    assert len([*(tmp_path / "cache" / "mirrors").glob("*.git")]) == 1


async def test_another_machine_goes_on_with_the_same_files(origin: Path, tmp_path: Path) -> None:
    """One is told to stop when a file is written; who goes on has a cache of its own."""
    store, queue = LocalStore.in_memory(), MemoryScheduler()
    paused, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect=EffectClass.READ)
    async def pause() -> str:
        """Wait."""
        paused.set()
        await go_on.wait()
        return "waited"

    turns = (WRITE, {"calls": [{"tool": "pause", "arguments": {}}]}, READ, DONE)
    first, second = Fleet(queue), Fleet(queue)
    one = make_coder(tmp_path / "one", store, *turns, more=[pause])
    other = make_coder(tmp_path / "two", store, *turns, more=[pause])
    first.add(one)
    second.add(other)
    task = await one.submit("Write it.", repository=str(origin))
    async with working(first) as stop:
        await paused.wait()
        stop.set()
        go_on.set()
    assert await has_status(first, JobStatus.QUEUED)
    async with working(second):
        result = await other.submitted(thread_id=task.id).result()
    assert result.output == "It is written."
    ends = [
        bytes(end.event) async for end in task.follow() if b"tool_completed" in bytes(end.event)
    ]
    assert len(ends) == 3
    assert b"one" in ends[-1]


async def test_what_cannot_be_cloned_is_said(origin: Path, tmp_path: Path) -> None:
    store, fleet = LocalStore.in_memory(), Fleet(MemoryScheduler())
    coder = make_coder(tmp_path / "cache", store, DONE)
    fleet.add(coder)
    with pytest.raises(UsageError, match="in a repository, and none is named"):
        await coder.submit("Write it.")
    place = Repositories(tmp_path / "cache")
    for url, ref, why in (
        (str(tmp_path / "nothing"), "main", "git clone has failed"),
        (str(origin), "nothing", "has no 'nothing'"),
        ("--upload-pack=x", "main", "names no repository"),
        (str(origin), "--orphan", "names no repository"),
    ):
        with pytest.raises(UsageError, match=why):
            async with place.open("T-1", url, ref):
                pass
    await coder.submit("Write it.", repository=str(origin), ref="nothing")
    async with working(fleet):
        await until(lambda: has_status(fleet, JobStatus.FAILED))
