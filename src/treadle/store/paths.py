"""Where things live on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from treadle.errors import UsageError


class Places(Struct, frozen=True):
    """The folders of a user. Nothing in them is readable by others.

    Below `cache` is what can be fetched again; without one nothing of it is kept.
    """

    data: Path
    state: Path
    config: Path
    cache: Path | None = None

    @property
    def remote(self) -> Path:
        """The file that says which server this machine syncs with; it holds a token."""
        return self.config / "remote.json"

    @property
    def keys(self) -> Path:
        """The folder of the keys that `treadle login` keeps: a file for each provider."""
        return self.config / "keys"

    @property
    def caches(self) -> str:
        """The folder of the caches of commands, one for each workspace; empty for none."""
        return "" if self.cache is None else str(self.cache / "commands")

    @property
    def scratch(self) -> str:
        """The folder of what commands keep for their threads, one for each; empty for none."""
        return "" if self.cache is None else str(self.cache / "scratch")

    @property
    def server(self) -> Path:
        """The file with the database of a team server on this machine, unless it has another."""
        return self.state / "server" / "server.db"

    @classmethod
    def find(cls, environment: Mapping[str, str] | None = None) -> Places:
        """The folders of this user: `TREADLE_HOME` overrides all, else the XDG variables."""
        environment = os.environ if environment is None else environment
        home = environment.get("TREADLE_HOME")
        if home:
            return cls.below(Path(home).expanduser())
        import platformdirs  # costs more than everything else a short command does

        dirs = platformdirs.PlatformDirs("treadle", appauthor=False)
        return cls(
            dirs.user_data_path, dirs.user_state_path, dirs.user_config_path, dirs.user_cache_path
        )

    @classmethod
    def below(cls, folder: str | os.PathLike[str]) -> Places:
        """All of them in one folder, as where `TREADLE_HOME` names it."""
        root = Path(folder).absolute()
        return cls(root / "data", root / "state", root / "config", root / "cache")


def find_places(value: object) -> Places:
    """The folders themselves, or those below a folder; `UsageError` for anything else."""
    if isinstance(value, Places):
        return value
    if isinstance(value, str | os.PathLike) and str(value):
        return Places.below(value)
    raise UsageError(
        f"a store is kept in a folder, not in {value!r}",
        hint='LocalStore("threads"), or LocalStore(Places.find()) for this user\'s threads',
    )
