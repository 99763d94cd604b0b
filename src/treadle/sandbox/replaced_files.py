"""What was protected by a mount that somebody outside has ended while a command ran.

Who gives another file the name of a protected one, as git does with its settings and editors do
with all they save, ends the mount on it, also where the command is: from then on that can write
there. What a person has written meanwhile is not lost: it stands beside what is put back.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.platform.held_files import HOLD_NAME
from treadle.sandbox.git_settings import (
    find_hooks,
    may_be_written,
    parse_settings,
    read_settings,
)
from treadle.sandbox.put_back import COPY_SIZE_MAX, Copies, put_aside

_SETTINGS: Final = frozenset({"config", "config.worktree"})

_OPEN_COUNT_MAX: Final = 200


class _Was(Struct, frozen=True):
    """A file or folder, held open so that no other gets its inode; of a file also what it held."""

    fd: int
    content: bytes | None = None
    copies: Copies | None = None


class MountedFiles:
    """Protected files and folders as they were before a command; `put_back` has to be called.

    Args:
        paths: absolute, without links, the most important first: `_OPEN_COUNT_MAX` are looked
            after, without files above `COPY_SIZE_MAX` bytes.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._before: dict[str, _Was] = {}
        for path in itertools.islice(paths, _OPEN_COUNT_MAX):
            with suppress(OSError):
                found = Path(path).lstat()
                if stat.S_ISDIR(found.st_mode):
                    self._before[path] = _Was(os.open(path, HOLD_NAME))
                elif stat.S_ISREG(found.st_mode) and found.st_size <= COPY_SIZE_MAX:
                    content = Path(path).read_bytes()
                    self._before[path] = _Was(os.open(path, HOLD_NAME), content, Copies([path]))

    def put_back(self) -> list[str]:
        """Put back files that were replaced, and aside new folders with hooks; what and why.

        Settings of git stay where a command that was asked about could have written them.
        """
        said: list[str] = []
        try:
            for path, was in self._before.items():
                if _is_replaced(path, was.fd):
                    said += _put_back(path, was)
        finally:
            for was in self._before.values():
                os.close(was.fd)
            self._before.clear()
        return [f"{path} (somebody replaced it while the command ran)" for path in said]


def _put_back(path: str, was: _Was) -> list[str]:
    if was.copies is None:
        is_risky = Path(path).name != "hooks" or find_hooks(Path(path).parent)
        return [path] if is_risky and put_aside(path) else []
    if _is_harmless(Path(path), was.content or b""):
        return []
    return was.copies.restore()


def _is_replaced(path: str, fd: int) -> bool:
    """Whether something else stands there. Nothing: it was taken away, with all that would run."""
    try:
        return not os.path.samestat(os.fstat(fd), os.lstat(path))
    except OSError:
        return False


def _is_harmless(path: Path, content: bytes) -> bool:
    """Whether a file that held this has come to hold nothing that runs a program."""
    if path.name not in _SETTINGS:
        return False
    before = parse_settings(content)
    after = read_settings(path)
    if before is None or after is None:
        return False
    return all(may_be_written(key, value) for key, value in Counter(after) - Counter(before))
