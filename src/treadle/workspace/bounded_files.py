"""Reads a file that others may have put there: bounded, never waiting, never outside a folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def read_within(path: Path, root: Path | None, size_max: int) -> tuple[bytes, bool]:
    """At most `size_max` bytes, and whether there were more.

    A link may lead to another file below `root`, nowhere else: what a repository says must not
    bring a file of its reader into a prompt.

    Args:
        path: the file.
        root: the folder that it has to stay in, without links in its name; `None` for anywhere.
        size_max: bytes.

    Raises:
        OSError: it is missing, or cannot be read.
        ValueError: it leads out of the folder or in a circle, or is no regular file.
    """
    real = resolve_within(path, root)
    descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is no regular file")
        data = file.read(size_max + 1)
    return data[:size_max], len(data) > size_max


def resolve_within(path: Path, root: Path | None) -> Path:
    """The path without links.

    Raises:
        OSError: nothing is there.
        ValueError: it leads out of `root`, or in a circle.
    """
    try:
        real = path.resolve(strict=True)
    except RuntimeError as error:  # Python 3.11 and 3.12 say so; later ones raise an OSError
        raise ValueError("it is a link that leads in a circle") from error
    if root is not None and real != root and root not in real.parents:
        raise ValueError("it is a link that leads out of the repository")
    return real


def find_repository_root(folder: Path) -> Path:
    """The nearest folder, from this one upwards, that holds `.git`; without one this one.

    Args:
        folder: an absolute path without links.
    """
    has_git = (one for one in (folder, *folder.parents) if os.path.exists(one / ".git"))  # noqa: PTH110
    return next(has_git, folder)


def list_folders_up(root: Path, folder: Path) -> list[Path]:
    """A folder, and those above it up to the root of its repository: the nearest first."""
    return [one for one in (folder, *folder.parents) if one == root or root in one.parents]
