"""What in a folder of git leads elsewhere: entries for other repositories, and links."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from treadle.sandbox.git_settings import run_git
from treadle.sandbox.repositories import ODD, modules_of

_MODE: Final = b"\0\0\xe0\0"
"""The mode of such an entry, as it stands in every version of the file."""
_NOT_WRITTEN: Final = frozenset({"objects", "modules", "annex"})
"""Folders of many files in which git writes over none; modules are looked into one by one."""
_LISTED: Final = b"160000 "
_READ_S_MAX: Final = 30.0
_Version = tuple[tuple[str, int, int, int], ...]
_known: Final[dict[Path, tuple[_Version, tuple[str, ...] | None]]] = {}


def find_strange_indexes(git_folder: Path) -> list[Path]:
    """What stands in the place of an index and is no file, as a pipe that git would wait for."""
    indexes = (git_folder / "index", *sorted(git_folder.glob("sharedindex.*")))
    return [path for path in indexes if os.path.lexists(path) and not path.is_file()]


def find_links(git_folder: Path) -> Iterator[tuple[Path, str]]:
    """Symbolic links where git writes files by their names, following links.

    The index, `COMMIT_EDITMSG`, `packed-refs`, reflogs, what a rebase or `rerere` keeps, and the
    like: a commit or a merge would write its message, or a file, wherever they lead. Objects are
    never written over.

    Returns:
        Each with where it leads.
    """
    for module in (git_folder, *modules_of(git_folder)):
        for where, folders, files in os.walk(module):
            folders[:] = [name for name in folders if name not in _NOT_WRITTEN]
            for path in (Path(where, name) for name in (*folders, *files)):
                with suppress(OSError):  # it is no link
                    yield path, str(path.readlink())


def find_gitlinks(git_folder: Path) -> tuple[str, ...] | None:
    """Their names, relative to the work tree; `None` if git cannot tell, or takes too long.

    Of a repository whose settings name no program that was not there before: git reads them here.
    """
    try:
        shared = sorted(git_folder.glob("sharedindex.*"))
        files = [path for path in (git_folder / "index", *shared) if path.is_file()]
        version = tuple(_version_of(path) for path in files)
        before = _known.get(git_folder)
        if before is None or before[0] != version:
            has_any = any(_MODE in path.read_bytes() for path in files)
            before = version, _list(git_folder) if has_any else ()
            _known[git_folder] = before
    except ODD:
        return None
    return before[1]


def _version_of(path: Path) -> tuple[str, int, int, int]:
    found = path.stat()
    return path.name, found.st_ino, found.st_ctime_ns, found.st_size


def _list(git_folder: Path) -> tuple[str, ...] | None:
    environment = {
        "GIT_DIR": str(git_folder),
        "GIT_WORK_TREE": "/",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        # What is not there is not fetched: that would run programs.
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "LC_ALL": "C",
    }
    command = ("-c", "core.fsmonitor=false", "ls-files", "--stage", "-z")
    for more in (("--sparse",), ()):  # older ones know no sparse index
        output = run_git((*command, *more), environment, _READ_S_MAX)
        if output is not None:
            lines = (line for line in output.split(b"\0") if line.startswith(_LISTED))
            return tuple(os.fsdecode(line.partition(b"\t")[2]) for line in lines)
    return None
