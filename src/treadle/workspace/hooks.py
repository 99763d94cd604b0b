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


async def find_hooks_folder(repository: Repository) -> Path:
    """Where the hooks are, if there are any."""
    ran = await repository.read("rev-parse", "--git-path", "hooks")
    return repository.folder / os.fsdecode(ran.out.rstrip(b"\n"))


async def look_at_hooks(repository: Repository) -> tuple[str, str]:
    """The folder of hooks that lies among the files, and a digest of it; both empty without one.

    `core.hooksPath` may name one, and then whatever changes files may change the hooks. Those in
    the repository itself are not looked at: commands cannot change them.
    """
    layout = await repository.layout()
    if isinstance(layout, Absent):
        return "", ""
    folder = await find_hooks_folder(repository)
    return await asyncio.to_thread(_look, folder, layout.root, layout.common_dir)


def _look(folder: Path, root: Path, common: Path) -> tuple[str, str]:
    folder, root = folder.resolve(), root.resolve()
    if not folder.is_relative_to(root) or folder.is_relative_to(common):
        return "", ""
    # What husky has in `_` calls what lies beside it.
    top = folder.parent if folder.name == "_" else folder
    digest, count = hashlib.sha256(), 0
    for where, folders, names in os.walk(top):
        folders[:] = [] if top == root else sorted(folders)
        for name in sorted(names):
            count += 1
            path = Path(where, name)
            with suppress(OSError):
                found = path.lstat()
                digest.update(f"{path} {found.st_mode} {found.st_size}\n".encode(errors="replace"))
                if stat.S_ISLNK(found.st_mode):
                    digest.update(os.fsencode(path.readlink()))
                elif stat.S_ISREG(found.st_mode):
                    with path.open("rb") as file:
                        digest.update(hashlib.sha256(file.read(SIZE_MAX)).digest())
            if count == COUNT_MAX:
                return str(folder), digest.hexdigest()
    return str(folder), digest.hexdigest()
