"""Runs the real command in real processes, each test with a home and a repository of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import warm_process
from treadle.app.sessions import background_sync

if TYPE_CHECKING:
    from cli.teams import Machine, Team

Run = Callable[..., "subprocess.CompletedProcess[str]"]

TIMEOUT_S: Final = 100


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that runs in this process waits until all is sent, however slow the machine is."""
    monkeypatch.setattr(background_sync, "CLOSE_S_MAX", 60.0)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a fresh user has: a home, git, an identity, no keys."""
    config = tmp_path / "gitconfig"
    config.write_text("[user]\n\tname = Ada\n\temail = ada@example.invalid\n")
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(tmp_path / "user"),
        "TREADLE_HOME": str(tmp_path / "home"),
        "GIT_CONFIG_GLOBAL": str(config),
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
    }


@pytest.fixture
def repository(tmp_path: Path, environment: dict[str, str]) -> Path:
    """A git repository with one commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    for arguments in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "--all"],
        ["commit", "--quiet", "--message", "feat: add"],
    ):
        subprocess.run(["git", *arguments], cwd=folder, env=environment, check=True)
    return folder


@pytest.fixture
def treadle(environment: dict[str, str], repository: Path, fresh_treadle: Run) -> Run:
    """The command, run to its end in the repository, in a process of its own."""

    def run(
        *arguments: str,
        stdin: str | None = None,
        cwd: Path = repository,
        constants: Mapping[str, float] | None = None,
        **extra: str,
    ) -> subprocess.CompletedProcess[str]:
        changed = {**environment, **extra}
        if warm_process.can_be_forked(changed):
            return warm_process.run(arguments, cwd, changed, stdin, TIMEOUT_S, constants)
        assert not constants, "only what is forked can have other constants"
        return fresh_treadle(*arguments, stdin=stdin, cwd=cwd, **extra)

    return run


@pytest.fixture
def fresh_treadle(environment: dict[str, str], repository: Path) -> Run:
    """The same, in an interpreter of its own: it sees what this process has mounted, for one."""

    def run(
        *arguments: str, stdin: str | None = None, cwd: Path = repository, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "treadle", *arguments],
            cwd=cwd,
            env={**environment, **extra},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )

    return run


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """A scripted model of this text, as `-m` takes it."""

    def write(text: str, name: str = "script.toml") -> str:
        (tmp_path / name).write_text(text)
        return f"scripted:{tmp_path / name}"

    return write


@pytest.fixture(scope="session")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A team server; whoever needs to be alone there makes a user of their own."""
    from cli.teams import Team

    found = Team(tmp_path_factory.mktemp("team"))
    yield found
    found.stop()


@pytest.fixture
def laptop(tmp_path: Path, environment: dict[str, str]) -> Machine:
    """A machine on which nobody is logged in."""
    from cli.teams import machine

    return machine(tmp_path, environment, "laptop")


@pytest.fixture
def desktop(tmp_path: Path, environment: dict[str, str]) -> Machine:
    """Another one."""
    from cli.teams import machine

    return machine(tmp_path, environment, "desktop")
