"""What git has written reaches the disk before anything relies on it.

Git syncs no loose object by itself (before it is told to), never the index of a `commit --only`, a
reflog or the name of a file. After a power cut a branch may then name an empty object, and every
git command in the repository fails. So git is told to sync contents before it moves a ref, and what
it leaves out is synced here, objects before refs, before a record says that there is a commit.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from treadle import helper_programs
from treadle.process.command import run_command
from treadle.process.result import Bounds

VERSION_S_MAX: Final = 10.0

DURABLE: Final = (
    *("-c", "core.fsync=all", "-c", "core.fsyncMethod=fsync"),
    # What cleans up in the background goes on behind the record of the commit, and moves objects.
    # The person's own next commit, merge or fetch does it.
    *("-c", "maintenance.auto=false", "-c", "gc.auto=0"),
)
_BEFORE_2_36: Final = ("-c", "core.fsyncObjectFiles=true")
"""Newer ones warn of this name; older ones do not know the other."""

_OBJECTS: Final = (
    *("-c", "core.fsync=loose-object,pack,pack-metadata,reference"),
    *("-c", "core.fsyncMethod=fsync"),
)


def durable_options(program: str) -> tuple[str, ...]:
    """Options of a git that commits; hooks and their own gits inherit them.

    Args:
        program: its full path.
    """
    return (*_BEFORE_2_36, "-c", "gc.auto=0") if _is_old(program) else DURABLE


def durable_objects(program: str) -> tuple[str, ...]:
    """Options of a git that makes objects, of which some may be what a commit has, too."""
    return _BEFORE_2_36 if _is_old(program) else _OBJECTS


@cache
def _is_old(program: str) -> bool:
    try:
        ran = run_command(
            (program, "--version"), helper_programs.environment(), Bounds(VERSION_S_MAX)
        )
    except OSError:
        return False
    found = None if ran.problem else re.search(rb"(\d+)\.(\d+)", ran.out)
    return found is not None and (int(found[1]), int(found[2])) < (2, 36)


def sync_objects(objects: Path, oids: Iterable[str]) -> None:
    """Make these objects durable, and the names of all packs.

    Those that lie in a pack were synced when it was made.

    Args:
        objects: the folder of objects of the repository.
        oids: whole object ids.

    Raises:
        OSError: the disk refused. Nothing may rely on them.
    """
    folders: dict[Path, None] = {}
    for oid in oids:
        path = objects / oid[:2] / oid[2:]
        if _sync(path):
            folders[path.parent] = None
    for folder in (*folders, objects / "pack", objects):
        _sync(folder)


def sync_refs(paths: Mapping[Path, Path]) -> None:
    """Make files of a repository durable, with their names and those of the folders above.

    Args:
        paths: each file, and the folder up to which folders are synced; what is not there is left
            out, as refs and reflogs may be kept in other ways.

    Raises:
        OSError: the disk refused.
    """
    for path in paths:
        _sync(path)
    for folder in dict.fromkeys(one for path, top in paths.items() for one in _above(path, top)):
        _sync(folder)


def files_of_commit(git_dir: Path, common_dir: Path, branch: str | None) -> dict[Path, Path]:
    """What a commit changes in a repository besides its objects, as `sync_refs` takes it."""
    ref = () if branch is None else ("refs", "heads", *branch.split("/"))
    found = {git_dir / "index": git_dir, git_dir / "HEAD": git_dir}
    found[git_dir / "logs" / "HEAD"] = git_dir
    if ref:
        found[common_dir.joinpath(*ref)] = common_dir
        found[common_dir.joinpath("logs", *ref)] = common_dir
    # Where refs are kept as tables, these files name them.
    found[common_dir / "reftable" / "tables.list"] = common_dir
    return found


def _above(path: Path, top: Path) -> Iterator[Path]:
    for folder in path.parents:
        yield folder
        if folder == top:
            return


def _sync(path: Path) -> bool:
    """Whether it is there."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    return True
