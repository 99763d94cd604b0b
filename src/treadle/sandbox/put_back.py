"""Putting right what a command has changed where nothing could keep it from that."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Container, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.core.tools import ToolErrorKind
from treadle.platform.held_files import HOLD_FOLDER, HOLD_NAME, held_files
from treadle.sandbox.folders import is_link
from treadle.sandbox.repositories import ASIDE
from treadle.tool_failure import ToolFailure

COPY_SIZE_MAX: Final = 4 * 2**20
"""Bytes of protected files that are kept where nothing can shut them."""
_FOLDER: Final = HOLD_FOLDER | os.O_NOFOLLOW


class _Copy(Struct, frozen=True):
    """What a file holds, or a link leads to; `name_count` are the hard links of the file.

    A protected file that gets another name is changed through that: git writes `COMMIT_EDITMSG`,
    and so a hook that is the same file.
    """

    data: bytes
    mode: int
    name_count: int = 1


def undo(absent: Iterable[str]) -> list[str]:
    """Put aside what has come to be where nothing may; their paths.

    There was no link on the way to them. If there is one now, that is put aside.
    """
    undone = []
    for path in absent:
        if os.path.lexists(path):
            above = Path(path).parents[::-1]
            link = next((str(one) for one in above if is_link(str(one))), path)
            put_aside(link)
            undone.append(link)
    return undone


def put_aside(path: str) -> bool:
    """Give what stands there another name beside it; whether nothing stands there any more."""
    _put_back(path, None)
    return not os.path.lexists(path)


def make_accessible(path: str) -> bool:
    """Give the owner of a file or folder all access to it again; whether that was done.

    No link is followed, neither in its place nor on the way.
    """
    *folders, name = Path(path).parts[1:]
    place = os.open("/", _FOLDER)
    try:
        for folder in folders:
            above, place = place, os.open(folder, _FOLDER, dir_fd=place)
            os.close(above)
        fd = os.open(name, HOLD_NAME, dir_fd=place)
        try:
            held_files.add_access(fd)
        finally:
            os.close(fd)
    except OSError:
        return False
    finally:
        os.close(place)
    return True


class Copies:
    """Protected files as they were, to be put back where nothing can shut them.

    Raises:
        ToolFailure: they are larger than `COPY_SIZE_MAX`.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths: Final = tuple(paths)
        self._files: Final = _read(self._paths)
        if sum(len(copy.data) for copy in self._files.values()) > COPY_SIZE_MAX:
            raise ToolFailure(
                ToolErrorKind.REJECTED,
                "the hooks and settings of git are too large to be kept safe without bubblewrap; "
                "install it",
            )

    def restore(self) -> list[str]:
        """Put back what is not as it was; the paths of those.

        Nothing is read or written through a link that the command has made: this is done with all
        that the person may, so it could change files anywhere.
        """
        replaced = [path for path in self._above() if _is_no_folder(path)]
        for path in replaced:
            _put_back(path, None)
        now = _read(self._paths, self._files)
        changed = [
            path for path in {**self._files, **now} if self._files.get(path) != now.get(path)
        ]
        for path in changed:
            _put_back(path, self._files.get(path))
        after = _read(self._paths, self._files)
        return [
            path
            if self._files.get(path) == after.get(path)
            else f"{path} could not be put back: do it by hand"
            for path in (*changed, *replaced)
        ]

    def _above(self) -> list[str]:
        """The folders of the files as they were, and those above them; parents first."""
        return sorted({str(above) for path in self._files for above in Path(path).parents})


def _is_no_folder(path: str) -> bool:
    place = Path(path)
    return os.path.lexists(path) and (place.is_symlink() or not place.is_dir())


def _put_back(path: str, was: _Copy | None) -> None:
    """Put aside what stands there now, and make the file or link that stood there, if one did.

    Each folder on the way is opened in the one above it and is no link, so nothing that still runs
    can lead this elsewhere. What cannot be done is left.
    """
    *folders, name = Path(path).parts[1:]
    place = os.open("/", _FOLDER)
    try:
        with suppress(OSError):
            for folder in folders:
                above, place = place, _open_folder(folder, place, makes=was is not None)
                os.close(above)
            try:
                _replace(name, place, was)
            except PermissionError:  # a command has closed the folder
                held_files.add_access(place)
                _replace(name, place, was)
    finally:
        os.close(place)


def _replace(name: str, place: int, was: _Copy | None) -> None:
    _set_aside(name, place)
    if was is not None:
        _make(name, place, was)


def _open_folder(name: str, place: int, *, makes: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=place)
    except (FileNotFoundError, NotADirectoryError):
        if not makes:
            raise
    try:
        _set_aside(name, place)
        os.mkdir(name, 0o755, dir_fd=place)
    except PermissionError:  # a command has closed the folder
        held_files.add_access(place)
        _set_aside(name, place)
        os.mkdir(name, 0o755, dir_fd=place)
    return os.open(name, _FOLDER, dir_fd=place)


def _set_aside(name: str, place: int) -> None:
    aside = f"{name}.{secrets.token_hex(4)}{ASIDE}"
    with suppress(FileNotFoundError):
        os.rename(name, aside, src_dir_fd=place, dst_dir_fd=place)


def _make(name: str, place: int, was: _Copy) -> None:
    if was.mode == stat.S_IFLNK:
        os.symlink(was.data, name, dir_fd=place)
        return
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=place)
    with os.fdopen(fd, "wb") as file:
        file.write(was.data)
        os.fchmod(fd, was.mode)


def _read(paths: Iterable[str], known: Container[str] | None = None) -> dict[str, _Copy]:
    """Files, also those beneath folders; a link counts as a file that holds its target.

    Args:
        paths: files and folders. In these, what was put aside is not looked at: nothing runs it,
            and it may be too large to be kept.
        known: only of these is the content read: others may fill the memory.
    """
    found: dict[str, _Copy] = {}
    todo = [Path(path) for path in paths]
    while todo:
        path = todo.pop()
        with suppress(OSError):
            status = path.lstat()
            mode = status.st_mode
            if stat.S_ISDIR(mode):
                todo += (one for one in path.iterdir() if not one.name.endswith(ASIDE))
            elif stat.S_ISLNK(mode):
                found[str(path)] = _Copy(os.fsencode(path.readlink()), stat.S_IFLNK)
            elif stat.S_ISREG(mode) and known is not None and str(path) not in known:
                found[str(path)] = _Copy(b"", stat.S_IMODE(mode))
            elif stat.S_ISREG(mode):
                with path.open("rb") as file:
                    data = file.read(COPY_SIZE_MAX + 1)
                found[str(path)] = _Copy(data, stat.S_IMODE(mode), status.st_nlink)
    return found
