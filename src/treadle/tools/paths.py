"""One folder, and a way to open names beneath it that cannot be led outside.

Checking a path first and opening it afterwards loses the race against whoever swaps a link in
between, and follows a dangling link out of the folder. So nothing is checked here: a `Root` holds
one descriptor of its folder, and `platform/open_beneath.py` opens every folder on the way relative
to one that is already held. The last component is never followed by the kernel either: links at the
end are read and resolved from their folder.

Links that stay inside are followed, also absolute ones. The rules on top:

- a file is a regular file; FIFOs, devices and sockets are refused before and after opening;
- nothing is written into a folder called `.git` or `.treadle`, whatever name led there, and no file
  or folder of that name is made: hooks and configurations run programs. Nor is anything written
  into a folder that git takes for a bare repository, or that what is written would make one;
- what is hidden from tools (`path_rules.py`) is neither opened nor made, under whatever name: the
  identity of each folder on the way is compared, so links, mounts and the case of letters do not
  lead around it;
- a second hard link does not matter: writing replaces the name by a new file (`files.py`), so the
  other name keeps its content.
"""

from __future__ import annotations

import errno
import os
import stat
import weakref
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from treadle import helper_programs
from treadle.core.tools import ToolErrorKind
from treadle.errors import UsageError
from treadle.platform.held_files import HOLD_FOLDER
from treadle.platform.open_beneath import (
    LINK_COUNT_MAX,
    OpenBeneath,
    make_relative,
    open_beneath,
    read_link,
)
from treadle.sandbox.path_rules import NO_RULES, PathRules
from treadle.sandbox.repositories import LAYOUT_NAMES, is_layout
from treadle.tool_failure import ToolFailure

PATH_SIZE_MAX: Final = 4095
"""Bytes of a path; the kernel's own limit, which the walk would not have."""
PROTECTED_NAMES: Final = (".git", ".treadle")
"""What runs programs later, and the settings of this one: people write that."""

_KIND_OF_ERRNO: Final = {
    errno.ENOENT: (ToolErrorKind.FILE_NOT_FOUND, ""),
    errno.EXDEV: (ToolErrorKind.PATH_OUTSIDE_WORKSPACE, ""),
    errno.ENOTDIR: (ToolErrorKind.FAILED, "a part of the path is not a folder"),
    errno.EISDIR: (ToolErrorKind.FAILED, "it is a folder, not a file"),
    errno.ELOOP: (ToolErrorKind.FAILED, "too many links on the way"),
}
"""The one place where the operating system's errors become words for the model."""
_SPECIAL: Final = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link that has just appeared",
}


@contextmanager
def as_failure(path: str) -> Iterator[None]:
    """Turn an `OSError` of the block into the `ToolFailure` that the model reads."""
    try:
        yield
    except OSError as error:
        kind, words = _KIND_OF_ERRNO.get(error.errno or 0, (ToolErrorKind.IO, ""))
        if kind is ToolErrorKind.IO:
            words = error.strerror or str(error)
        raise ToolFailure(kind, f"{path}: {words}" if words else path) from error


class Root:
    """A folder whose files tools may touch; holds one descriptor until `close`.

    Paths are relative to it; absolute ones are accepted if they begin with its name. All methods
    raise `ToolFailure`, and may be called from several threads.

    Args:
        path: an existing folder. `UsageError` if it is none.
        opener: how folders are opened beneath it; by default as this system does it best.
        rules: which places in it are hidden.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        opener: OpenBeneath = open_beneath,
        rules: PathRules = NO_RULES,
    ) -> None:
        given = Path(path).absolute()
        try:
            self._fd = os.open(given, HOLD_FOLDER)
        except OSError as error:
            raise UsageError(f"{given} cannot be a workspace: {error.strerror}") from error
        self._close = weakref.finalize(self, os.close, self._fd)
        self.path: Final = given.resolve()
        self.rules: Final = rules
        self._names: Final = (str(self.path), str(given))
        self._open_beneath: Final = opener

    def close(self) -> None:
        """Give the descriptor back; the root is of no use afterwards."""
        self._close()

    def relative(self, path: str) -> str:
        """The path made relative by its words alone, links not looked at; never empty.

        Raises:
            ToolFailure: an absolute path to elsewhere, the home folder, or no path at all.
        """
        if not path or "\0" in path:
            what = "the path contains a NUL" if path else "the path is empty"
            raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, what)
        # A shell would go home; here a folder called `~` would come to be, a trap for `rm -r ~`.
        if path == "~" or path.startswith("~/"):
            raise ToolFailure(ToolErrorKind.PATH_OUTSIDE_WORKSPACE, path)
        with as_failure(path):
            if len(os.fsencode(path)) > PATH_SIZE_MAX:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            return make_relative(path, self._names) or "."

    def open_folder(self, path: str) -> int:
        """A descriptor of a folder, good for listing it and for names relative to it."""
        with as_failure(path):
            place = self._place(self.relative(path))
            try:
                self._refuse_hidden(place, path)
                return _reopen(place)
            finally:
                os.close(place)

    def open_file(self, path: str) -> int:
        """A descriptor of a regular file, for reading. Never blocks on what is not one."""
        with as_failure(path), self.locate(path) as (place, name):
            fd = open_regular(name, place)
            try:
                self._refuse_hidden(place, path, file=fd)
            except BaseException:
                os.close(fd)
                raise
            return fd

    @contextmanager
    def locate(self, path: str, *, create_parents: bool = False) -> Iterator[tuple[int, str]]:
        """Where a file stands or would stand: its folder's descriptor, and its name there.

        The name is no link at the time of asking, so it must be opened without following.

        Args:
            path: names a file; need not exist.
            create_parents: make missing folders, beneath the root only.

        Raises:
            ToolFailure: the path leads outside or to a hidden place, or its folder is missing.
        """
        folder, name = self._split(self.relative(path))
        with as_failure(path):
            for _ in range(LINK_COUNT_MAX):
                place = self._make_place(folder) if create_parents else self._place(folder)
                try:
                    target = read_link(name, place)
                    if target is None:
                        self._refuse_hidden(place, path, name)
                        yield place, name
                        return
                finally:
                    os.close(place)
                is_absolute = target.startswith("/")
                target = make_relative(target, self._names) if is_absolute else f"{folder}/{target}"
                folder, name = self._split(target)
            raise OSError(errno.ELOOP, "")

    def refuse_protected(self, place: int, name: str, path: str) -> None:
        """Refuse to write `name` in the folder `place` if that is part of a protected folder.

        Walks up from the descriptor and compares inodes, so that neither links nor the case of
        letters hide anything.

        Raises:
            ToolFailure: it is.
        """
        _refuse_protected_name(name, path)
        _refuse_layout(place, path, name)
        own = {_identity_of_name(one, place) for one in helper_programs.own_code()}
        with closing(self._up(place)) as ways:
            for child, parent in ways:
                if _identity(child) in own:
                    raise _own(path)
                _refuse_layout(parent, path)
                for protected in PROTECTED_NAMES:
                    if _identity(child) == _identity_of_name(protected, parent):
                        raise _protected(protected, path)

    def _up(self, place: int) -> Generator[tuple[int, int], None, None]:
        """Each folder from a descriptor up to the root, with the one above it."""
        top, here = _identity(self._fd), os.dup(place)
        try:
            while _identity(here) != top:
                parent = os.open("..", HOLD_FOLDER, dir_fd=here)
                child, here = here, parent
                try:
                    yield child, here
                    if _identity(child) == _identity(here):
                        raise OSError(errno.EXDEV, "")  # the file system's root: moved outside
                finally:
                    os.close(child)
        finally:
            os.close(here)

    def _refuse_hidden(self, place: int, path: str, name: str = "", file: int = -1) -> None:
        """Refuse what is hidden, or lies in what is: a folder, a name in it, an open file in it."""
        if not self.rules.hidden:
            return
        located, here = self.rules.locate(), _identity(self._fd)
        hidden = located.existing.get(here)
        with closing(self._up(place)) as ways:
            for child, _ in ways:
                hidden = hidden or located.existing.get(_identity(child))
        if name:
            hidden = hidden or located.missing.get((_identity(place), name.casefold()))
        with suppress(FileNotFoundError):
            if file >= 0:
                hidden = hidden or located.holder_of(os.fstat(file))
            elif name:
                found = os.stat(name, dir_fd=place, follow_symlinks=False)
                hidden = hidden or located.holder_of(found)
        if hidden is not None:
            raise hidden.failure(path)

    def name_of(self, path: str) -> str:
        """What the path is called without links, relative to the root: for reports only."""
        relative = self.relative(path)
        resolved = Path(os.path.realpath(self.path / relative))
        if resolved.is_relative_to(self.path):
            return str(resolved.relative_to(self.path))
        return relative

    @staticmethod
    def _split(relative: str) -> tuple[str, str]:
        folder, _, name = relative.rpartition("/")
        if name in ("", ".", ".."):
            raise OSError(errno.EISDIR, "")
        return folder or ".", name

    def _place(self, relative: str) -> int:
        return self._open_beneath(self._fd, relative, self._names)

    def _make_place(self, relative: str) -> int:
        """Like `_place`, but makes the folders that are missing at the end of the path."""
        parts = [part for part in relative.split("/") if part not in ("", ".")]
        missing: list[str] = []
        while True:
            try:
                place = self._place("/".join(parts) or ".")
                break
            except FileNotFoundError:
                if not parts:
                    raise  # the root itself is gone
                missing.append(parts.pop())
        # `missing/../x` is not there, and must not come to be by asking for it.
        if ".." in missing:
            os.close(place)
            raise FileNotFoundError(errno.ENOENT, "")
        try:
            self.refuse_protected(place, missing[-1] if missing else ".", relative)
            while missing:
                inner = self._make_folder(missing.pop(), place, relative)
                os.close(place)
                place = inner
        except BaseException:
            os.close(place)
            raise
        return place

    def _make_folder(self, name: str, parent: int, path: str) -> int:
        _refuse_protected_name(name, path)
        self._refuse_hidden(parent, path, name)
        try:
            os.mkdir(name, dir_fd=parent)
        except FileExistsError:
            if read_link(name, parent) is not None:
                raise FileNotFoundError(errno.ENOENT, "") from None  # a link to nowhere
        else:
            sync_folder(parent)
        return os.open(name, HOLD_FOLDER | os.O_NOFOLLOW, dir_fd=parent)


def _refuse_protected_name(name: str, path: str) -> None:
    if name.casefold() in PROTECTED_NAMES:
        raise _protected(name.casefold(), path)


def _refuse_layout(place: int, path: str, made: str = "") -> None:
    """Refuse what lies in a bare repository, or makes one of a folder: its settings run programs.

    Whoever works in that folder has git find it, also in a subfolder of another repository.
    """
    there = [
        name
        for name in LAYOUT_NAMES
        if made.casefold() == name.casefold()
        or _identity_of_name(name, place, follow=False) is not None
    ]
    if is_layout(there):
        raise ToolFailure(
            ToolErrorKind.FAILED,
            f"{path}: git would take its folder for a repository, and tools write nothing in one",
        )


def _own(path: str) -> ToolFailure:
    message = f"{path}: Treadle itself runs from there, so tools do not write it"
    return ToolFailure(ToolErrorKind.FAILED, message)


def _protected(name: str, path: str) -> ToolFailure:
    message = f"{path}: files in {name} are not written by tools"
    return ToolFailure(ToolErrorKind.FAILED, message)


def open_regular(name: str, place: int) -> int:
    """Open a regular file in a folder for reading, without following a link, without waiting.

    Raises:
        OSError: it is missing or may not be read.
        ToolFailure: it is something else than a file.
    """
    _refuse_special(os.stat(name, dir_fd=place, follow_symlinks=False), name)
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
    try:
        _refuse_special(os.fstat(fd), name)
    except BaseException:
        os.close(fd)
        raise
    return fd


def sync_folder(place: int) -> None:
    """Make the names in a folder durable."""
    fd = _reopen(place)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _refuse_special(found: os.stat_result, name: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "")
    if not stat.S_ISREG(found.st_mode):
        what = _SPECIAL.get(stat.S_IFMT(found.st_mode), "a device")
        message = f"{name} is not a regular file but {what}"
        raise ToolFailure(ToolErrorKind.FAILED, message)


def _reopen(place: int) -> int:
    return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _identity_of_name(name: str, place: int, *, follow: bool = True) -> tuple[int, int] | None:
    try:
        found = os.stat(name, dir_fd=place, follow_symlinks=follow)
    except OSError:
        return None
    return found.st_dev, found.st_ino
