"""Which programs git runs at a commit, who runs them confined, and what is told of them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from treadle.process.result import Ran
from treadle.workspace.commit_settings import find_hooks_folder
from treadle.workspace.git import Absent, Repository

SAID_LINE_COUNT_MAX: Final = 3
SAID_LENGTH_MAX: Final = 300
"""How much of what git or a hook said is told."""

COUNT_MAX: Final = 1000
SIZE_MAX: Final = 1024 * 1024
"""Files of a folder of hooks, and bytes of each, that are compared."""


_COLOUR: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class RunsConfined(Protocol):
    """Runs a hook where the agent's commands run, so that it can do no more than they could."""

    async def __call__(
        self, argv: tuple[str, ...], folder: Path, scratch: Path, timeout_s: float
    ) -> tuple[Ran, tuple[str, ...]]:
        """Run it to its end, or end it.

        Args:
            argv: the program, by its whole path, and its arguments.
            folder: where it runs.
            scratch: a folder that it may change besides what commands may.
            timeout_s: seconds after which it is ended.

        Returns:
            How it went, also if it could not be started; and what was put right afterwards.
        """
        ...


class ConfinedHooks(Struct, frozen=True):
    """Where the hooks are, who runs them, and the seconds that each of them has."""

    folder: Path
    run: RunsConfined
    timeout_s: float


def find_hooks(folder: Path, names: Iterable[str]) -> dict[str, Path]:
    """Those of these hooks that there are in the folder of hooks."""
    return {name: folder / name for name in names if os.access(folder / name, os.X_OK)}


def summarize_output(ran: Ran) -> str:
    """The first lines of what git and the hooks said."""
    text = _COLOUR.sub("", (ran.err or ran.out).decode("utf-8", "replace"))
    lines = ("".join(filter(str.isprintable, line)).strip() for line in text.splitlines())
    told = [line for line in lines if line and not line.startswith("hint:")]
    short = "; ".join(told[:SAID_LINE_COUNT_MAX])[:SAID_LENGTH_MAX]
    return short or f"exit status {ran.status}"


async def look_at_hooks(repository: Repository) -> tuple[str, str]:
    """The folder of hooks that lies among the files, and a digest of it; both empty without one.

    For hooks that nothing holds.

    `core.hooksPath` may name one, and then whatever changes files may change the hooks. Those in
    the repository itself are not looked at: commands cannot change them.
    """
    layout = await repository.layout()
    if isinstance(layout, Absent):
        return "", ""
    folder = await find_hooks_folder(repository)
    return await asyncio.to_thread(_look, folder, layout.root, layout.common_dir)


async def describe_changed_hooks(repository: Repository, known: tuple[str, str] | None) -> str:
    """Why hooks that nothing holds must not run; empty if they may.

    Args:
        repository: where they are.
        known: what `look_at_hooks` said when the run began; `None` if it was not asked.
    """
    if known is None:
        return ""
    now = await look_at_hooks(repository)
    if now == known:
        return ""
    return (
        f"the hooks in {now[0] or known[0]} have changed since this run began, and would "
        "run now; look at them, then begin a new run"
    )


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
