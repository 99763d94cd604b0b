"""A user with a home of its own and a project, and settings files where a test wants them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from treadle.config.loader import LoadedSettings, load_settings
from treadle.config.project_file import find_project_file
from treadle.config.project_trust import trust_project
from treadle.errors import ConfigError
from treadle.store.paths import Places


class Desk:
    """One user at one project."""

    def __init__(self, root: Path) -> None:
        self.environ = {"TREADLE_HOME": str(root / "home"), "HOME": str(root / "user")}
        self.places = Places.find(self.environ)
        self.user_file = self.places.config / "config.toml"
        self.project = root / "project"
        self.project_file = self.project / ".treadle" / "config.toml"
        for folder in (self.user_file.parent, self.project_file.parent, self.project / ".git"):
            folder.mkdir(parents=True)

    def write_user(self, text: str) -> None:
        self.user_file.write_text(text)

    def write_project(self, text: str, *, is_trusted: bool = True) -> None:
        self.project_file.write_text(text)
        if is_trusted:
            file = find_project_file(self.project)
            assert file is not None
            trust_project(self.places, file)

    def load(self, **environ: str) -> LoadedSettings:
        return load_settings(self.project, {**self.environ, **environ})


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def mistake(desk: Desk) -> Callable[[str], str]:
    """What is said of a user's file with this text, without the file's path."""

    def told(text: str) -> str:
        desk.write_user(text)
        with pytest.raises(ConfigError) as raised:
            desk.load()
        return raised.value.message.replace(str(desk.user_file), "FILE")

    return told
