"""What a project brings along that its user has to look at before it is used."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from treadle.app.sessions.prompt_files import find_project_prompts
from treadle.config.project_file import (
    SERVERS_NAME,
    SETTINGS_NAME,
    ProjectFile,
    find_project_file,
    find_project_root,
)
from treadle.config.project_trust import read_trusted_files
from treadle.errors import UsageError
from treadle.store.paths import Places
from treadle.workspace.prompt_files.discovery import PromptFile


class ProjectFiles(Struct, frozen=True):
    """The settings and servers of a project, if it has any, and its untrusted skills and commands.

    What is shown of them is what is trusted, whatever becomes of the files meanwhile.
    """

    settings: ProjectFile | None
    prompts: tuple[PromptFile, ...]
    servers: ProjectFile | None = None

    @property
    def contents(self) -> tuple[tuple[str, str], ...]:
        """All that is to be looked at: path and text of each file, as a terminal may show them."""
        found = (one for one in (self.settings, self.servers) if one is not None)
        first = [(one.path, one.data) for one in found]
        return tuple(
            (_mark_invisible(str(path)), _mark_invisible(data.decode("utf-8", "replace")))
            for path, data in (*first, *((one.path, one.data) for one in self.prompts))
        )


def read_project_files(folder: Path, places: Places) -> ProjectFiles:
    """What is to be looked at in the project that a folder belongs to.

    Args:
        folder: in the project.
        places: the folders of the user.

    Raises:
        UsageError: there is nothing to look at.
        ConfigError: its settings cannot be read.
        DiskError: the machine fails to read what is trusted.
    """
    settings = find_project_file(folder)
    servers = find_project_file(folder, SERVERS_NAME)
    trusted = read_trusted_files(places)
    prompts = [one for one in find_project_prompts(folder, places).files if one.root is not None]
    new = tuple(one for one in prompts if trusted.find_prompt_state(one) != "trusted")
    if settings is None and servers is None and not prompts:
        names = f"{SETTINGS_NAME}, no {SERVERS_NAME}, no skills and no commands"
        raise UsageError(f"{find_project_root(folder)} has no {names}")
    return ProjectFiles(settings, new, servers)


def _mark_invisible(text: str) -> str:
    """The text with a mark for each character that would hide or rearrange others."""
    mark = "\N{REPLACEMENT CHARACTER}"
    return "".join(c if c.isprintable() or c in "\n\t" else mark for c in text)
