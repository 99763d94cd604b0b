"""What in a workspace runs programs later, and so must not be changed by a command.

Of git: a folder's `.git`, with its hooks, its settings, and the files that say where others of
them lie; the same of submodules, of other work trees, and of repositories further down, as far as
a bounded walk finds them; what their settings include, and the folder of hooks that they name. Of
this program: `.treadle`. A repository that a command makes anew
below the workspace is not among them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.core.tools import ToolErrorKind
from treadle.tools.failure import ToolFailure
from treadle.tools.sandbox.steering import steered_by

FOLDER_COUNT_MAX: Final = 1000
ALL_COUNT_MAX: Final = 100_000
"""Folders that are looked at before each command, and before the first one."""
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
_TRIES_MAX: Final = 5
_found_before: Final[dict[str, dict[Path, None]]] = {}


class Protected(Struct, frozen=True):
    """Absolute paths, parents before children.

    `kept` are folders that stay writable, but not renamable. `shut` may not be changed at all.
    `missing` are folders that must not come to be, nor `blank` files, in whose place an empty one
    can be; nor `absent` files, in whose place nothing can be.
    """

    kept: tuple[str, ...] = ()
    shut: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    blank: tuple[str, ...] = ()


class _Found:
    def __init__(self) -> None:
        self.kept: list[str] = []
        self.shut: list[str] = []
        self.missing: list[str] = []
        self.absent: list[str] = []
        self.blank: list[str] = []


def find_protected(folders: Iterable[str], settings: Iterable[Path] = ()) -> Protected:
    """What is protected in folders that a command may change.

    Args:
        folders: absolute paths, without links.
        settings: files of git's settings that hold in all of them.

    Raises:
        ToolFailure: a symbolic link stands where a protected file should: it cannot be shut. Or
            there are more folders than `ALL_COUNT_MAX`.
    """
    found, folders, settings = _Found(), tuple(folders), tuple(settings)
    steered = [one for file in settings for one in steered_by(file, Path("/nowhere"))]
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
                found.kept += ways_to(place, folder)
                steered += _add_door(place, found, settings, folders)
    for path, is_folder in dict.fromkeys(steered):
        for folder in folders:
            if is_in(path, folder):
                _add_steered(Path(path), folder, is_folder, found)
    return Protected(
        tuple(one for one in dict.fromkeys(found.kept) if one not in folders),
        tuple(dict.fromkeys(found.shut)),
        tuple(dict.fromkeys(found.missing)),
        tuple(dict.fromkeys(found.absent)),
        tuple(dict.fromkeys(found.blank)),
    )


def ways_to(path: Path, folder: str) -> list[str]:
    """The folders that lead to something in a folder, without that, parents first."""
    way = [str(one) for one in path.parents if is_in(str(one), folder)]
    return way[::-1]


def is_in(path: str, folder: str) -> bool:
    """Whether a path lies in a folder, and is not it."""
    return path != folder and Path(path).is_relative_to(folder)


def first_missing(path: Path) -> Path:
    """The path, or the first of the folders that lead to it that is not there."""
    for one in reversed((path, *path.parents)):
        if not os.path.lexists(one):
            return one
    return path


def _add_steered(path: Path, folder: str, is_folder: bool, found: _Found) -> None:
    """What settings lead to; what leads to it must not be renamed, and no link."""
    for one in (*ways_to(path, folder), str(path)):
        _no_link(Path(one))
    if (is_folder and _is_missing(path)) or not path.parent.is_dir():
        first = first_missing(path)
        found.kept += ways_to(first, folder)
        found.missing.append(str(first))
        return
    found.kept += ways_to(path, folder)
    if os.path.lexists(path):
        found.shut.append(str(path))
    else:
        found.blank.append(str(path))


def _add_door(
    place: Path, found: _Found, settings: Iterable[Path], folders: Iterable[str]
) -> list[tuple[str, bool]]:
    """A `.git`; and what the settings behind it lead to."""
    _add_repository(place, found)
    target = place
    if place.is_file():
        named = _named_by(place)
        if named is None:
            return []
        target = named.parent.parent if named.parent.name == "worktrees" else named
        inside = [one for one in folders if is_in(str(target), one)]
        if inside and target.name != _GIT and _was_repository(target):
            # One that no walk finds, as it goes by another name.
            found.kept += ways_to(target, inside[0])
            _add_repository(target, found)
    files = (target / "config", target / "config.worktree", *settings)
    return [one for file in files for one in steered_by(file, place.parent)]


def _named_by(path: Path) -> Path | None:
    """The folder that a `.git` file names, without links."""
    with path.open("rb") as file:
        said = file.read(4096)
    if not said.startswith(b"gitdir: "):
        return None
    return (path.parent / os.fsdecode(said[8:].rstrip(b"\r\n"))).resolve()


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
    """Repositories beneath a folder.

    The first look in a process, before a command has run, is a long one; what it finds is
    remembered, so that a command cannot make so many folders that they are not found any more.
    """
    is_first = folder not in _found_before
    found, is_cut = _walk(folder, ALL_COUNT_MAX if is_first else FOLDER_COUNT_MAX)
    if is_first and is_cut:
        raise ToolFailure(
            ToolErrorKind.REJECTED,
            f"{folder} has more than {ALL_COUNT_MAX} folders: the sandbox cannot find all git "
            "repositories in it, to protect them; a person has to choose a smaller workspace",
        )
    known = _found_before.setdefault(folder, {})
    known |= dict.fromkeys(found)
    return [place for place in known if os.path.lexists(place)]


def _walk(folder: str, count_max: int) -> tuple[list[Path], bool]:
    found, todo, count = [], deque([(folder, 0)]), 0
    while todo and count < count_max:
        place, depth = todo.popleft()
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
    return found, bool(todo)


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
    _add_steering(place, found, config, is_beside=False)
    trees = place / "worktrees"
    if _no_link(trees).is_dir():
        found.kept.append(str(trees))
        for tree in sorted(trees.iterdir()):
            if _no_link(tree).is_dir():
                found.kept.append(str(tree))
                _add_steering(tree, found, config, is_beside=True)
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


def _add_steering(folder: Path, found: _Found, config: Path, *, is_beside: bool) -> None:
    has_two = b"worktreeconfig" in config.read_bytes().lower()
    for name in _STEERING:
        path = folder / name
        if name == "commondir" and not is_beside:
            found.absent.append(str(path))  # git never makes one there
        elif _no_link(path).exists():
            found.shut.append(str(path))
        else:
            is_read = name == "config.worktree" and has_two
            (found.blank if is_read else found.absent).append(str(path))


class Made(Struct, frozen=True):
    """A placeholder that is there, and the descriptor by which it is held."""

    path: str
    fd: int
    is_folder: bool


def make_placeholders(missing: Iterable[str], blank: Iterable[str]) -> list[Made]:
    """Make empty folders and files on which something can be laid for as long as commands run.

    They stand where nothing may come to be. Several commands share them, also of other programs
    like this one: each holds a lock. Those that cannot be made are left out: where this user
    cannot, a command cannot either.
    """
    return [
        made
        for paths, is_folder in ((missing, True), (blank, False))
        for path in paths
        if (made := _make_one(path, is_folder)) is not None
    ]


def remove_placeholders(made: Iterable[Made]) -> list[str]:
    """Take away those that nobody else needs; those that are not empty any more, which stay."""
    left = []
    for one in made:
        try:
            fcntl.flock(one.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_same(one.fd, one.path):
                if one.is_folder:
                    Path(one.path).rmdir()
                elif os.fstat(one.fd).st_size == 0:
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


def _make_one(path: str, is_folder: bool) -> Made | None:
    for _ in range(_TRIES_MAX):
        try:
            if is_folder:
                Path(path).mkdir(mode=0o755, exist_ok=True)
                fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            else:
                flags = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                fd = os.open(path, flags, 0o644)
        except OSError:
            continue
        with suppress(OSError):  # there are file systems without locks
            fcntl.flock(fd, fcntl.LOCK_SH)
        if _is_same(fd, path):
            return Made(path, fd, is_folder)
        os.close(fd)  # somebody has just taken it away
    return None


def _is_same(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except OSError:
        return False


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
