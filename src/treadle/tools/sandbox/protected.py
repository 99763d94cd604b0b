"""What in a workspace runs programs later, and so must not be changed by a command.

Of git: a folder's `.git`, with its hooks, its settings, and the files that say where others of
them lie; the same of submodules, of other work trees, and of repositories further down, as far as
a bounded walk finds them. Of this program: `.treadle`. A repository that a command makes anew
below the workspace is not among them.
"""

from __future__ import annotations

import os
import secrets
import stat
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.core.tools import ToolErrorKind
from treadle.tools.failure import ToolFailure

FOLDER_COUNT_MAX: Final = 1000
DEPTH_MAX: Final = 5
COPY_SIZE_MAX: Final = 4 * 2**20
"""Bytes of protected files that are kept where nothing can shut them."""
_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "target", ".venv", "venv", ".tox"})
_FOLDER: Final = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GIT: Final = ".git"
_OWN: Final = ".treadle"
_PARTS: Final = ("HEAD", "config", "hooks", "objects", "refs")
_STEERING: Final = ("commondir", "gitdir", "config.worktree")
"""Files of a git folder that say where its settings lie, or are such."""


class Protected(Struct, frozen=True):
    """Absolute paths, parents before children.

    `kept` are folders that stay writable, but not renamable. `shut` may not be changed at all.
    `missing` are folders that must not come to be, nor `absent` files.
    """

    kept: tuple[str, ...] = ()
    shut: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


class _Found:
    def __init__(self) -> None:
        self.kept: list[str] = []
        self.shut: list[str] = []
        self.missing: list[str] = []
        self.absent: list[str] = []


def find_protected(folders: Iterable[str]) -> Protected:
    """What is protected in folders that a command may change.

    Raises:
        ToolFailure: a symbolic link stands where a protected file should: it cannot be shut.
    """
    found, folders = _Found(), tuple(folders)
    for folder in folders:
        own = Path(folder, _OWN)
        if _is_missing(own):
            found.missing.append(str(own))
        else:
            found.shut.append(str(_no_link(own)))
        if _is_missing(Path(folder, _GIT)):
            if Path(folder, "HEAD").is_file() and Path(folder, "objects").is_dir():
                _add_repository(Path(folder), found)  # it is a bare one itself
            else:
                found.missing.append(str(Path(folder, _GIT)))
        for place in _places_of_git(folder):
            if not _is_missing(place):
                # Who could rename a folder on the way could put another repository there.
                way = [one for one in place.parent.parents if one.is_relative_to(folder)]
                found.kept += map(str, reversed([place.parent, *way]))
                _add_repository(place, found)
    return Protected(
        tuple(one for one in dict.fromkeys(found.kept) if one not in folders),
        tuple(dict.fromkeys(found.shut)),
        tuple(dict.fromkeys(found.missing)),
        tuple(dict.fromkeys(found.absent)),
    )


def _is_missing(path: Path) -> bool:
    """Whether there is nothing, or an empty folder: one that a killed run has left."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode) and not any(path.iterdir())
    except FileNotFoundError:
        return True


def _no_link(path: Path) -> Path:
    if path.is_symlink():
        raise ToolFailure(
            ToolErrorKind.REJECTED,
            f"{path} is a symbolic link, which the sandbox cannot protect; a person has to replace "
            "it by what it points to",
        )
    return path


def _places_of_git(folder: str) -> list[Path]:
    found, todo, count = [], [(folder, 0)], 0
    while todo and count < FOLDER_COUNT_MAX:
        place, depth = todo.pop(0)
        count += 1
        try:
            with os.scandir(place) as entries:
                listed = list(entries)
        except OSError:
            continue
        for entry in listed:
            if entry.name == _GIT:
                found.append(Path(entry.path))
            elif entry.name not in _SKIPPED and depth < DEPTH_MAX:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        todo.append((entry.path, depth + 1))
    return found


def _add_repository(place: Path, found: _Found) -> None:
    _no_link(place)
    config, hooks = _no_link(place / "config"), _no_link(place / "hooks")
    if not place.is_dir() or not config.is_file():
        # A file that names the folder, or a folder that could be given any settings.
        found.shut.append(str(place))
        return
    found.kept.append(str(place))
    found.shut.append(str(config))
    if _is_missing(hooks):
        found.missing.append(str(hooks))
    else:
        found.shut.append(str(hooks))
    _add_steering(place, found)
    trees = place / "worktrees"
    if _no_link(trees).is_dir():
        found.kept.append(str(trees))
        for tree in sorted(trees.iterdir()):
            if _no_link(tree).is_dir():
                found.kept.append(str(tree))
                _add_steering(tree, found)
    if _no_link(place / "modules").is_dir():
        _add_modules(place / "modules", found, 0)


def _add_modules(folder: Path, found: _Found, depth: int) -> None:
    found.kept.append(str(folder))
    for entry in sorted(folder.iterdir()):
        if not _no_link(entry).is_dir():
            continue
        if _was_repository(entry):
            _add_repository(entry, found)
        elif depth < DEPTH_MAX:
            _add_modules(entry, found, depth + 1)


def _was_repository(folder: Path) -> bool:
    """Whether it is one, or was before a command took it apart, to put it together later."""
    return any(os.path.lexists(folder / name) for name in _PARTS)


def _add_steering(folder: Path, found: _Found) -> None:
    for name in _STEERING:
        path = _no_link(folder / name)
        (found.shut if path.exists() else found.absent).append(str(path))


class Placeholders:
    """Empty folders on which something can be laid for as long as commands run.

    They stand where nothing may come to be. Several commands share them; the last one takes them
    away again.
    """

    def __init__(self) -> None:
        self._counts: Final[dict[str, int]] = {}
        self._lock: Final = threading.Lock()

    def make(self, paths: Iterable[str]) -> list[str]:
        """Those that could be made: where this user cannot, a command cannot either."""
        made = []
        with self._lock:
            for path in paths:
                with suppress(OSError):
                    Path(path).mkdir(mode=0o755, exist_ok=True)
                    self._counts[path] = self._counts.get(path, 0) + 1
                    made.append(path)
        return made

    def remove(self, paths: Iterable[str]) -> list[str]:
        """Take away those that nobody else needs; those that are not empty any more stay."""
        left = []
        with self._lock:
            for path in paths:
                self._counts[path] -= 1
                if self._counts[path] == 0:
                    del self._counts[path]
                    try:
                        Path(path).rmdir()
                    except FileNotFoundError:
                        continue
                    except OSError:
                        left.append(path)
        return left


def undo(absent: Iterable[str]) -> list[str]:
    """Put aside what has come to be where nothing may; their paths."""
    undone = []
    for path in absent:
        if os.path.lexists(path):
            _put_back(path, None)
            undone.append(path)
    return undone


class Copies:
    """Protected files as they were, to be put back where nothing can shut them.

    Raises:
        ToolFailure: they are larger than `COPY_SIZE_MAX`.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths: Final = tuple(paths)
        self._files: Final = _read(self._paths)
        if sum(len(data) for data, _ in self._files.values()) > COPY_SIZE_MAX:
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
        now = _read(self._paths)
        changed = [
            path for path in {**self._files, **now} if self._files.get(path) != now.get(path)
        ]
        for path in changed:
            _put_back(path, self._files.get(path))
        return [*changed, *replaced]

    def _above(self) -> list[str]:
        """The folders of the files as they were, and those above them; parents first."""
        return sorted({str(above) for path in self._files for above in Path(path).parents})


def _is_no_folder(path: str) -> bool:
    place = Path(path)
    return os.path.lexists(path) and (place.is_symlink() or not place.is_dir())


def _put_back(path: str, was: tuple[bytes, int] | None) -> None:
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
            _set_aside(name, place)
            if was is not None:
                _make(name, place, *was)
    finally:
        os.close(place)


def _open_folder(name: str, place: int, *, makes: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=place)
    except (FileNotFoundError, NotADirectoryError):
        if not makes:
            raise
    _set_aside(name, place)
    os.mkdir(name, 0o755, dir_fd=place)
    return os.open(name, _FOLDER, dir_fd=place)


def _set_aside(name: str, place: int) -> None:
    aside = f"{name}.{secrets.token_hex(4)}.put-aside"
    with suppress(FileNotFoundError):
        os.rename(name, aside, src_dir_fd=place, dst_dir_fd=place)


def _make(name: str, place: int, data: bytes, mode: int) -> None:
    if mode == stat.S_IFLNK:
        os.symlink(data, name, dir_fd=place)
        return
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=place)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        os.fchmod(fd, mode)


def _read(paths: Iterable[str]) -> dict[str, tuple[bytes, int]]:
    """Files, also those beneath folders; a link counts as a file that holds its target."""
    found: dict[str, tuple[bytes, int]] = {}
    todo = [Path(path) for path in paths]
    while todo:
        path = todo.pop()
        with suppress(OSError):
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                todo += path.iterdir()
            elif stat.S_ISLNK(mode):
                found[str(path)] = os.fsencode(path.readlink()), stat.S_IFLNK
            elif stat.S_ISREG(mode):
                with path.open("rb") as file:
                    found[str(path)] = file.read(COPY_SIZE_MAX + 1), stat.S_IMODE(mode)
    return found
