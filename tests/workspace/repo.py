"""A repository as tests use it: files, git, hooks, and everything that must not change."""

from __future__ import annotations

import os
import select
import subprocess
from pathlib import Path

from msgspec.structs import replace

from treadle.core.tools import CompletedToolInfo
from treadle.thread.facts import GitObserved
from treadle.workspace.commit import GitWorkspace, HookResult

TRAILER = "Treadle-Thread: T-01890a5d-ac96-774b-bcce-b302099a8057@12"

GONE_S_MAX = 60.0

CONFIG = """
[user]
    name = Ada
    email = ada@example.com
[init]
    defaultBranch = main
[protocol "file"]
    allow = always
"""


class Repo:
    """A folder that git is run in."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    def git(self, *arguments: str, is_ok: bool = True) -> str:
        done = subprocess.run(
            ("git", *arguments), cwd=self.path, capture_output=True, stdin=subprocess.DEVNULL
        )
        assert not is_ok or done.returncode == 0, done.stderr.decode()
        return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def remove(self, name: str) -> None:
        (self.path / name).unlink()

    def read(self, name: str) -> str:
        return (self.path / name).read_text()

    def hook(self, name: str, script: str) -> None:
        path = self.write(f".git/hooks/{name}", f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def make_conflict(self) -> None:
        """Leave a merge of two changes of `a.py` unfinished."""
        self.git("checkout", "-b", "side")
        self.write("a.py", "side\n")
        self.git("commit", "-am", "side")
        self.git("checkout", "main")
        self.write("a.py", "main\n")
        self.git("commit", "-am", "main")
        self.git("merge", "side", is_ok=False)

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    @property
    def message(self) -> str:
        return self.git("show", "--no-patch", "--format=%B", "HEAD").rstrip("\n")

    @property
    def committed(self) -> dict[str, str]:
        """The files of the last commit, with A, M or D."""
        lines = self.git("show", "--format=", "--name-status", "--no-renames", "HEAD").splitlines()
        return {name: letter for letter, name in (line.split("\t") for line in lines)}

    @property
    def short_status(self) -> list[str]:
        return self.git("status", "--short", "--untracked-files=all", "--no-renames").splitlines()

    @property
    def index(self) -> tuple[str, str, str]:
        """What the index means: its entries, what is staged, and what is only to be added."""
        return (
            self.git("ls-files", "--stage"),
            self.git("diff", "--cached", "--no-ext-diff"),
            self.git("status", "--porcelain=v2", "--untracked-files=all"),
        )


class Agent:
    """An agent's rounds of tools in a repository, as the runtime tells a workspace of them."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.workspace = GitWorkspace(folder, **options)  # type: ignore[arg-type]
        self.before: GitObserved | None = None

    async def begin(self) -> None:
        self.before = await self.workspace.observe()

    async def end(self, *completed: CompletedToolInfo, is_whole: bool = True) -> HookResult:
        result = await self.workspace.after_tools(
            completed, self.before, is_whole=is_whole, trailer=TRAILER
        )
        seen = await self.workspace.observe()
        assert result.observed in (None, seen)
        return replace(result, observed=None)


def edited(*names: str) -> CompletedToolInfo:
    return CompletedToolInfo("edit_file", True, names)


BASH = CompletedToolInfo("bash", True)
READ = CompletedToolInfo("read_file", True)
FAILED_EDIT = CompletedToolInfo("edit_file", False)
FAILED_BASH = CompletedToolInfo("bash", False)


def is_gone(pid: int) -> bool:
    """Whether the process has ended; a killed one may take a moment."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], GONE_S_MAX)[0])
    finally:
        os.close(handle)
