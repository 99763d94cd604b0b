"""Real repositories, with a git that knows nothing of the machine it runs on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workspace.repo import CONFIG, Repo


@pytest.fixture(autouse=True)
def _own_git(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path_factory.mktemp("home")
    config = home / "gitconfig"
    config.write_text(CONFIG)
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("EMAIL", raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository with one commit of `a.py`, `b.py` and `docs/c.md`."""
    made = Repo(tmp_path / "repo")
    made.git("init")
    made.write("a.py", "print(1)\n")
    made.write("b.py", "print(2)\n")
    made.write("docs/c.md", "# C\n")
    made.git("add", ".")
    made.git("commit", "-m", "chore: begin")
    return made
