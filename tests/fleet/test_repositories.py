"""Tasks in clones of repositories: what is changed is pushed, and travels to the next worker."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
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
    SubmittedTask,
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


class Machines:
    """Two workers with a cache each, for one task that pauses between its calls."""

    def __init__(self, origin: Path, folder: Path, *turns: Any) -> None:
        self.store, self.queue, self.origin = LocalStore.in_memory(), MemoryScheduler(), origin
        self.paused, self.go_on = asyncio.Event(), asyncio.Event()
        self.fleets = [Fleet(self.queue), Fleet(self.queue)]

        @tool(effect=EffectClass.READ)
        async def pause() -> str:
            """Wait."""
            self.paused.set()
            await self.go_on.wait()
            return "waited"

        names = ("one", "two")
        self.coders = [
            make_coder(folder / name, self.store, *turns, more=[pause]) for name in names
        ]
        for fleet, coder in zip(self.fleets, self.coders, strict=True):
            fleet.add(coder)

    async def begin_and_die(self) -> SubmittedTask[str]:
        """The first one works until the pause, and is killed there."""
        task = await self.coders[0].submit("Write it.", repository=str(self.origin))
        work = asyncio.create_task(self.fleets[0].run())
        await self.paused.wait()
        work.cancel()
        await asyncio.wait([work])
        self.go_on.set()
        return task

    async def go_on_elsewhere(self, task: SubmittedTask[str]) -> list[str]:
        """The second one ends it; gives what its model was told besides."""
        await self.fleets[1].make_worker().sweep()
        async with working(self.fleets[1]):
            await self.coders[1].submitted(thread_id=task.id).result()
        await asyncio.sleep(0)
        records = [msgspec.json.decode(one.event) async for one in task.follow()]
        return [one["text"] for one in records if one["type"] == "task_informed"]


PAUSE = {"tool": "pause", "arguments": {}}
WRITES = WRITE["calls"]


async def test_changes_that_went_with_a_killed_worker_are_told_with_the_calls_that_made_them(
    origin: Path, tmp_path: Path
) -> None:
    """One wrote a file, and was killed before the round was over."""
    machines = Machines(origin, tmp_path, {"calls": [*WRITES, PAUSE]}, READ, DONE)
    task = await machines.begin_and_die()
    [told] = await machines.go_on_elsewhere(task)
    assert f"as they were in commit {git(origin, 'rev-parse', 'main')[:12]}" in told
    assert told.splitlines()[1:] == ['- write_file {"path":"a.txt","content":"one\\n"}']
    requests = [message.content for message in machines.store.load(task.id).fold.conversation]
    assert requests.count(told) == 1


async def test_what_was_pushed_is_not_told_as_lost(origin: Path, tmp_path: Path) -> None:
    """A round that was over, and one that only reads."""
    machines = Machines(origin, tmp_path, WRITE, {"calls": [PAUSE]}, READ, DONE)
    task = await machines.begin_and_die()
    assert await machines.go_on_elsewhere(task) == []


async def test_a_branch_that_was_not_pushed_is_told_as_lost(origin: Path, tmp_path: Path) -> None:
    """The hook has made a commit, and the repository took none."""
    hook = origin / ".git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    machines = Machines(origin, tmp_path, WRITE, {"calls": [PAUSE]}, READ, DONE)
    task = await machines.begin_and_die()
    hook.unlink()
    [told] = await machines.go_on_elsewhere(task)
    assert "write_file" in told


async def test_a_commit_that_was_pushed_before_it_was_recorded_is_not_told_as_lost(
    origin: Path, tmp_path: Path
) -> None:
    """One died right behind the push: the commit says which version of the thread it has."""
    machines = Machines(origin, tmp_path, {"calls": [*WRITES, PAUSE]}, READ, DONE)
    task = await machines.begin_and_die()
    version = machines.store.load(task.id).fold.version
    git(origin, "checkout", "--quiet", "-b", f"treadle/{task.id}")
    (origin / "a.txt").write_text("one\n")
    git(origin, "add", "--all")
    git(origin, "commit", "-q", "-m", f"Write it\n\nTreadle-Thread: {task.id}@{version}")
    git(origin, "checkout", "--quiet", "main")
    assert await machines.go_on_elsewhere(task) == []


async def test_a_worker_that_is_to_stop_commits_the_round_that_it_ends(
    origin: Path, tmp_path: Path
) -> None:
    machines = Machines(origin, tmp_path, {"calls": [*WRITES, PAUSE]}, READ, DONE)
    task = await machines.coders[0].submit("Write it.", repository=str(origin))
    async with working(machines.fleets[0]) as stop:
        await machines.paused.wait()
        stop.set()
        machines.go_on.set()
    assert await has_status(machines.fleets[0], JobStatus.QUEUED)
    assert git(origin, "show", f"treadle/{task.id}:a.txt") == "one"
    assert await machines.go_on_elsewhere(task) == []
