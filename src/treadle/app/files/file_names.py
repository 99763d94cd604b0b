"""The names of a workspace's files, for whoever types one."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from treadle.process.result import Ran

PATHS_MAX: Final = 50_000
"""Files that are looked at."""

LISTING_SIZE_MAX: Final = 32 * 1024 * 1024
LISTING_SECONDS_MAX: Final = 5.0
FRESH_S: Final = 5.0
"""A listing is used for so long."""


_FIRST_READ: Final = (
    "README.md",
    "README.rst",
    "README",
    "pyproject.toml",
    "package.json",
    "Makefile",
)
"""What says most about a project, in the order in which people look."""


def find_first_read(folder: Path) -> str | None:
    """The file that one reads first in a project; `None` if it has none of the usual names."""
    return next((name for name in _FIRST_READ if (folder / name).is_file()), None)


class FileNames:
    """The files of a folder that git would show; without git, those of a bounded walk.

    Not thread-safe: one thread at a time lists.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._listed: list[str] = []
        self._until = 0.0

    def list(self) -> list[str]:
        """Paths relative to the folder, at most `PATHS_MAX`; it may take seconds."""
        if time.monotonic() >= self._until:
            paths = _list_git_files(self._folder)
            if paths is None:
                paths = _walk_files(self._folder)
            self._listed = [path for path in paths if path.isprintable()]
            self._until = time.monotonic() + FRESH_S
        return self._listed


def _list_git_files(folder: Path) -> list[str] | None:
    """What is tracked, and what is new and not ignored; `None` outside of a repository."""
    try:
        ran = asyncio.run(asyncio.wait_for(_run_ls_files(folder), LISTING_SECONDS_MAX))
    except TimeoutError:
        return None
    if ran.status != 0:
        return None
    names = ran.out.decode(errors="surrogateescape").split("\0")[:-1]
    return sorted(set(names))[:PATHS_MAX]


async def _run_ls_files(folder: Path) -> Ran:
    # Here, because it is not needed until somebody types a name.
    from treadle.workspace.git import Repository

    return await Repository(folder).read(
        *("ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        out_size_max=LISTING_SIZE_MAX,
    )


def _walk_files(folder: Path) -> list[str]:
    """Files that are not hidden, nor in hidden folders, as far as the time goes."""
    until = time.monotonic() + LISTING_SECONDS_MAX
    paths: list[str] = []
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = os.path.relpath(where, folder)
        shown = sorted(name for name in names if not name.startswith("."))
        paths += shown if below == "." else [f"{below}/{name}" for name in shown]
        if len(paths) > PATHS_MAX or time.monotonic() > until:
            break
    return paths[:PATHS_MAX]
