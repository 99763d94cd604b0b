"""What is protected stays so when a person writes it, by another file, while a command runs."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path

from treadle.core.messages import ToolCall
from treadle.core.tools import ToolExecutionOutcome
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Policy
from treadle.tools.builtin import builtin_tools
from treadle.tools.registry import Registry

ATTACK = r"""
: > up; cat go
for one in a b c; do
    printf '[core]\n\tfsmonitor = touch ran; false\n' >> $one/.git/config
    printf '[core]\n\tfsmonitor = touch ran; false\n' >> $one/more
    (echo 'touch ran' > $one/.git/hooks/pre-commit) || echo SHUT
done 2> /dev/null
"""


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(("git", *arguments), cwd=folder, capture_output=True, check=True)
    return done.stdout.decode()


def repository(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "config", "include.path", "../more")
    (folder / "more").write_text("[user]\n\tname = Ada\n")
    return folder


async def held_while(ws: Path, command: str) -> str:
    """What a command says that waits, beginning with `up`, until `go` is read."""
    box = Sandbox(Policy(), ws, backends=("bubblewrap",))
    call = ToolCall("c", "bash", json.dumps({"command": command, "access": "write"}))
    registry = Registry(builtin_tools(), workspace=ws, sandbox=box)
    outcome = await registry.execute(call, key="c", progress=lambda _: None)
    assert isinstance(outcome, ToolExecutionOutcome.Success), outcome
    return outcome.output


def replace(file: Path, text: str) -> None:
    """As git and editors write."""
    draft = file.with_name("draft")
    draft.write_text(text)
    draft.replace(file)


async def test_who_writes_settings_during_a_command_does_not_open_them_to_it(
    tmp_path: Path,
) -> None:
    a, b, c = (repository(tmp_path / name) for name in "abc")
    gone = repository(tmp_path / "gone")
    was = (a / ".git/config").read_text()
    os.mkfifo(tmp_path / "up")
    os.mkfifo(tmp_path / "go")
    running = asyncio.create_task(held_while(tmp_path, ATTACK))
    await asyncio.to_thread((tmp_path / "up").read_bytes)
    git(a, "remote", "add", "o", "https://h.example/x")
    replace(b / "more", "[user]\n\tname = Bea\n")
    (b / ".git/hooks").rename(b / ".git/old-hooks")
    (b / ".git/hooks").mkdir()
    shutil.rmtree(gone)
    await asyncio.to_thread((tmp_path / "go").write_bytes, b"")
    said = await running
    assert (a / ".git/config").read_text() == was
    assert (b / "more").read_text() == "[user]\n\tname = Ada\n"
    assert not (b / ".git/hooks").exists()
    assert not gone.exists()
    assert all(name in said for name in ("a/.git/config (", "b/more (", "b/.git/hooks ("))
    (kept,) = (a / ".git").glob("config.*.put-aside")
    assert "h.example" in kept.read_text()
    for folder in (a, b, c):
        git(folder, "status")
        git(
            folder,
            "-c",
            "user.name=x",
            "-c",
            "user.email=x",
            "commit",
            "-q",
            "--allow-empty",
            "-mx",
        )
        assert not (folder / "ran").exists()


async def test_settings_stay_that_only_a_person_has_written(tmp_path: Path) -> None:
    a = repository(tmp_path / "a")
    git(a, "config", "core.fsmonitor", "false")
    os.mkfifo(tmp_path / "up")
    os.mkfifo(tmp_path / "go")
    running = asyncio.create_task(held_while(tmp_path, ": > up; cat go"))
    await asyncio.to_thread((tmp_path / "up").read_bytes)
    git(a, "remote", "add", "o", "https://h.example/x")
    await asyncio.to_thread((tmp_path / "go").write_bytes, b"")
    assert "put back" not in await running
    assert "h.example" in git(a, "remote", "-v")
