"""Where the repository around a folder lies, found without believing what a command may have made.

Git looks for a repository by itself, and takes a folder that looks like a bare one, or follows a
`commondir` that somebody has put there: with the settings of that, which name programs. So the
`.git` is looked for here, and every git is told which one it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from msgspec import Struct

NOT_BARE: Final = ("-c", "safe.bareRepository=explicit")
"""Options that keep git from taking a folder for a bare repository; of no effect before 2.38."""

_NAMING_SIZE_MAX: Final = 4096
_NAMING: Final = b"gitdir: "
_BRANCH: Final = "ref: refs/heads/"
_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}\Z")


class GitRepository(Struct, frozen=True):
    """A `.git` and what it leads to.

    `place` is the folder that holds it, `identity` changes when another one is put there.
    `git_dir` and `common_dir` are without links; they differ in a work tree beside the main one.
    """

    place: Path
    identity: tuple[int, int]
    git_dir: Path
    common_dir: Path

    @property
    def stray_commondir(self) -> Path | None:
        """A file that would make git take its settings from elsewhere, where git never has one.

        While a command runs, a sandbox keeps one there that leads back to where it stands.
        """
        path = self.git_dir / "commondir"
        if self.common_dir != self.git_dir or not os.path.lexists(path):
            return None
        is_harmless = not path.is_symlink() and path.is_file() and path.read_bytes() == b".\n"
        return None if is_harmless else path

    def leads_to(self, git_dir: str) -> bool:
        """Whether this is what lies behind it."""
        return os.path.realpath(git_dir) == str(self.git_dir)


def find_repository(folder: Path) -> GitRepository | None:
    """The nearest `.git` above a folder, or in it. An empty folder is none: it is in the way."""
    for place in (folder, *folder.parents):
        path = place / ".git"
        try:
            found = path.stat()
            target = path if path.is_dir() else _named_by(path)
            if target is None or (target == path and not any(path.iterdir())):
                continue
            git_dir = target.resolve()
        except (OSError, ValueError, RuntimeError):  # of a NUL in a path, and of links in a ring
            continue
        # Work trees beside the main one lie in its repository: what their `commondir` says.
        is_beside = git_dir.parent.name == "worktrees" and (git_dir / "commondir").is_file()
        common_dir = git_dir.parent.parent if is_beside else git_dir
        return GitRepository(place, (found.st_dev, found.st_ino), git_dir, common_dir)
    return None


def find_branch(repository: GitRepository) -> str | None:
    """The branch that is checked out; empty if none is, `None` if its file does not say.

    Read and not asked of git, so that it costs nothing. Where a repository keeps its references in
    another way, the file names a branch that cannot be.
    """
    try:
        with (repository.git_dir / "HEAD").open("rb") as file:
            said = file.read(_NAMING_SIZE_MAX).decode("utf-8", "replace").strip()
    except OSError:
        return None
    if not said.startswith(_BRANCH):
        return "" if _COMMIT.match(said) else None
    branch = said.removeprefix(_BRANCH)
    return None if branch == ".invalid" else branch


def git_environment(git_dir: Path, common_dir: Path, root: Path) -> dict[str, str]:
    """The environment in which git looks for nothing by itself."""
    return {
        "GIT_DIR": str(git_dir),
        "GIT_COMMON_DIR": str(common_dir),
        "GIT_WORK_TREE": str(root),
    }


def _named_by(path: Path) -> Path | None:
    """The folder that a `.git` file names."""
    with path.open("rb") as file:
        said = file.read(_NAMING_SIZE_MAX)
    if not said.startswith(_NAMING):
        return None
    return path.parent / os.fsdecode(said.removeprefix(_NAMING).rstrip(b"\r\n"))
