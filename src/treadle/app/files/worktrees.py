"""A git worktree of its own for a thread: a folder and a branch that nobody else works in."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.errors import UsageError
from treadle.workspace.git import Absent, Layout, Repository
from treadle.workspace.git_repository import find_repository
from treadle.workspace.hooks import summarize_output

CHECKOUT_S_MAX: Final = 600.0
"""Seconds that git may take to write all files of a branch."""

FOLDER_SUFFIX: Final = ".worktrees"

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")


class Worktree(Struct, frozen=True):
    """A worktree beside a repository.

    `folder` is where one works in it: the same place in it as in the repository. `left` says how
    many files have changes in the folder one came from; these stay there.
    """

    folder: Path
    branch: str
    is_new: bool
    left: int = 0


async def open_worktree(folder: str | Path, name: str) -> Worktree:
    """The worktree of this name; made, with a branch of this name, if it is not there.

    It lies beside the repository's main work tree, in `FOLDER.worktrees/NAME`. A branch that is
    there already is checked out in it; a new one begins at what is checked out in `folder`. No hook
    runs.

    Args:
        folder: a folder of the repository, or of one of its worktrees.
        name: letters, digits, `.`, `_` and `-`, 64 at most.

    Raises:
        UsageError: there is no repository, or no commit in it; the name is none; something else
            lies in its place, or a worktree that is not whole; or git refuses, as for a branch
            that is checked out elsewhere.
    """
    if not _NAME.fullmatch(name) or ".." in name or name.endswith(".lock"):
        raise UsageError(
            f"{name!r} cannot be a worktree's name",
            hint="letters, digits, '.', '_' and '-', 64 at most, beginning with a letter or digit",
        )
    repository = Repository(folder)
    status = await repository.status()
    layout = await repository.layout()
    if isinstance(status, Absent):
        raise UsageError(f"a worktree needs a repository: {status.text}")
    if isinstance(layout, Absent):
        raise UsageError(f"a worktree needs a repository: {layout.text}")
    if status.head is None:
        raise UsageError(
            f"the repository in {layout.root} has no commit yet, which a worktree could begin at",
            hint="make one: git commit --allow-empty -m begin",
        )
    places = await _list_worktrees(repository)
    main = await _find_main(repository, layout, places)
    place = main.with_name(main.name + FOLDER_SUFFIX) / name
    is_new = not await asyncio.to_thread(_is_worktree, place, places)
    if is_new:
        await _add(repository, place, name)
    inside = place / layout.prefix
    left = len(status.changes) if is_new else 0
    return Worktree(inside if inside.is_dir() else place, name, is_new, left)


def _is_worktree(place: Path, places: Sequence[Path]) -> bool:
    """Whether this is one of these worktrees.

    Raises:
        UsageError: something else is there.
    """
    if not os.path.lexists(place):
        return False
    if place.resolve() not in [one.resolve() for one in places]:
        raise UsageError(
            f"{place} is there and is no worktree of this repository",
            hint="choose another name, or move it away",
        )
    if not _is_whole(place):
        raise UsageError(
            f"the worktree {place} is not whole: another process is making it, or has died of it",
            hint=f"if nobody is: git worktree remove --force --force '{place}'",
        )
    return True


def _is_whole(place: Path) -> bool:
    """Whether all files of a worktree are there; git locks it while it writes them.

    It writes the index behind the last file, and whoever locks one later has an index in it.
    """
    found = find_repository(place)
    if found is None or found.place != place:
        return False
    return (found.git_dir / "index").exists() or not (found.git_dir / "locked").exists()


async def _find_main(repository: Repository, layout: Layout, places: Sequence[Path]) -> Path:
    """The folder of the main work tree, also from within a worktree.

    Of a submodule git lists the folder where its repository is kept, in the one around it: what is
    made there is gone with the submodule.
    """
    if layout.git_dir == layout.common_dir:
        return layout.root
    config = str(layout.common_dir / "config")
    ran = await repository.read("config", "--file", config, "--get", "core.worktree")
    if ran.status == 0:
        return (layout.common_dir / os.fsdecode(ran.out.removesuffix(b"\n"))).resolve()
    return places[0] if places else layout.root


async def _list_worktrees(repository: Repository) -> list[Path]:
    ran = await repository.read("worktree", "list", "--porcelain")
    lines = ran.out.split(b"\n")
    return [Path(os.fsdecode(line[9:])) for line in lines if line.startswith(b"worktree ")]


async def _add(repository: Repository, place: Path, branch: str) -> None:
    known = await repository.read("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")
    what = (str(place), branch) if known.status == 0 else ("-b", branch, str(place))
    try:
        await asyncio.to_thread(place.parent.mkdir, exist_ok=True)
    except OSError as error:
        raise UsageError(f"no worktree can be made in {place.parent}: {error.strerror}") from error
    ran = await repository.change("worktree", "add", *what, timeout_s=CHECKOUT_S_MAX)
    if ran.status != 0:
        raise UsageError(
            f"git worktree add failed: {summarize_output(ran)}",
            hint="git worktree list shows them all; git worktree prune forgets those that are gone",
        )
