"""Which programs git runs at a commit, and whether they are those of the beginning."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from treadle.workspace.git import Absent, Repository

COUNT_MAX: Final = 1000
SIZE_MAX: Final = 1024 * 1024
"""Files of a folder of hooks, and bytes of each, that are compared."""

NAMING_COMMANDS: Final = (
    *(".pre-commit-config.y*ml", "lefthook*.y*ml", ".lefthook*.y*ml", "lefthook*.toml"),
    *("lefthook*.json", ".overcommit.yml", ".huskyrc*", ".lintstagedrc*", "lint-staged.config.*"),
    *(".commitlintrc*", "commitlint.config.*"),
)
"""Files of a repository with commands that programs run which are installed as its hooks."""


async def find_hooks_folder(repository: Repository) -> Path:
    """Where the hooks are, if there are any."""
    ran = await repository.read("rev-parse", "--git-path", "hooks")
    return repository.folder / os.fsdecode(ran.out.rstrip(b"\n"))


async def look_at_hooks(repository: Repository) -> tuple[str, str]:
    """What among the files git or a hook would run at a commit, and a digest of it; else empty.

    `core.hooksPath` may name a folder there, and programs that are installed as a hook
    (`pre-commit`, lefthook) have their commands in a file of the repository: whatever changes files
    may change both. Hooks in the repository itself are not looked at: file tools do not write
    there, and a confined command cannot change them, or they are put back when it ends. So what
    changed there during a run was the person, who may mend a hook that has failed.
    """
    layout = await repository.layout()
    if isinstance(layout, Absent):
        return "", ""
    folder = await find_hooks_folder(repository)
    return await asyncio.to_thread(_look, folder, layout.root, layout.common_dir)


def _look(folder: Path, root: Path, common: Path) -> tuple[str, str]:
    folder, root = folder.resolve(), root.resolve()
    if not _has_hooks(folder):
        return "", ""
    # A hook finds these in the folder that it runs in, which is the root.
    paths = sorted(path for name in NAMING_COMMANDS for path in root.glob(name))
    what = ", ".join(path.name for path in paths)
    if folder.is_relative_to(root) and not folder.is_relative_to(common):
        what = str(folder)
        # What husky has in `_` calls what lies beside it.
        paths += _below(folder.parent if folder.name == "_" else folder, root)
    digest = hashlib.sha256()
    for path in paths:
        with suppress(OSError):
            found = path.lstat()
            digest.update(f"{path} {found.st_mode} {found.st_size}\n".encode(errors="replace"))
            if stat.S_ISLNK(found.st_mode):
                digest.update(os.fsencode(path.readlink()))
            elif stat.S_ISREG(found.st_mode):
                with path.open("rb") as file:
                    digest.update(hashlib.sha256(file.read(SIZE_MAX)).digest())
    return what, digest.hexdigest() if paths else ""


def _has_hooks(folder: Path) -> bool:
    with suppress(OSError):
        return any(not one.name.endswith(".sample") for one in folder.iterdir())
    return False


def _below(top: Path, root: Path) -> list[Path]:
    """The files of a folder of hooks; of the root itself only those that lie in it."""
    found: list[Path] = []
    for where, folders, names in os.walk(top):
        folders[:] = [] if top == root else sorted(folders)
        found += (Path(where, name) for name in sorted(names))
        if len(found) >= COUNT_MAX:
            break
    return found[:COUNT_MAX]
