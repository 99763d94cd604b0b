"""Empty folders and small files that stand where a command must not make anything."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

_TRIES_MAX: Final = 5
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class MadePlaceholder(Struct, frozen=True):
    """A placeholder that is there, and the descriptor by which it is held.

    `content` is that of a file, `None` for a folder.
    """

    path: str
    fd: int
    content: bytes | None

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.content is None


def make_placeholders(
    missing: Iterable[str], stubs: Iterable[tuple[str, bytes]]
) -> list[MadePlaceholder]:
    """Make what stands where nothing else may come to be, for as long as commands run.

    Something can be laid on it. Several commands share them, also of other programs like this one:
    each holds a lock. Those that cannot be made are left out: where this user cannot, a command
    cannot either.

    Args:
        missing: empty folders.
        stubs: files, each with its content.
    """
    wanted = [*((path, None) for path in missing), *stubs]
    return [made for path, content in wanted if (made := _make_one(path, content)) is not None]


def remove_placeholders(made: Iterable[MadePlaceholder]) -> list[str]:
    """Take away those that nobody else needs; those that are not as they were made, which stay."""
    left = []
    for one in made:
        try:
            fcntl.flock(one.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same(one.fd, one.path):
                if one.content is None:
                    Path(one.path).rmdir()
                elif _holds(one.fd, one.content):
                    Path(one.path).unlink()
                else:
                    left.append(one.path)
            elif os.path.lexists(one.path):
                left.append(one.path)
        except (BlockingIOError, FileNotFoundError):
            pass  # somebody else holds it, or it is gone
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                left.append(one.path)
        finally:
            os.close(one.fd)
    return left


def find_strangers(stubs: Iterable[tuple[str, bytes]]) -> list[str]:
    """What stands in the place of a file that is a placeholder, and is none."""
    return [
        path for path, content in stubs if os.path.lexists(path) and not _is_stub(path, content)
    ]


def _is_stub(path: str, content: bytes) -> bool:
    try:
        fd = os.open(path, _READ)
    except OSError:
        return False
    try:
        return stat.S_ISREG(os.fstat(fd).st_mode) and _holds(fd, content)
    except OSError:
        return False
    finally:
        os.close(fd)


def _holds(fd: int, content: bytes) -> bool:
    return os.pread(fd, len(content) + 1, 0) == content


def _make_one(path: str, content: bytes | None) -> MadePlaceholder | None:
    for _ in range(_TRIES_MAX):
        try:
            if content is None:
                Path(path).mkdir(mode=0o755, exist_ok=True)
            else:
                _make_file(path, content)
            fd = os.open(path, _READ | (os.O_DIRECTORY if content is None else 0))
        except OSError:
            continue
        with suppress(OSError):  # there are file systems without locks
            fcntl.flock(fd, fcntl.LOCK_SH)
        if _is_same(fd, path):
            return MadePlaceholder(path, fd, content)
        os.close(fd)  # somebody has just taken it away
    return None


def _make_file(path: str, content: bytes) -> None:
    """Give a file its name when all of it is there: git reads it at any moment."""
    if os.path.lexists(path):
        return
    fd, draft = tempfile.mkstemp(".placeholder", "treadle-", Path(path).parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            os.fchmod(fd, 0o644)
        with suppress(FileExistsError):
            os.link(draft, path, follow_symlinks=False)
    except OSError:
        Path(draft).rename(path)  # there are file systems without second names
    finally:
        with suppress(FileNotFoundError):
            Path(draft).unlink()


def _is_same(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except OSError:
        return False
