"""Where git finds repositories in folders that a command may change.

A repository is a `.git`, a folder or a file that names one, or a bare layout: a folder with `HEAD`,
`objects` and `refs`, which git takes for a repository when somebody works in it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.core.tools import ToolErrorKind
from treadle.tool_failure import ToolFailure

GIT: Final = ".git"
FOLDER_COUNT_MAX: Final = 1000
ALL_COUNT_MAX: Final = 100_000
"""Folders that are looked at before and after each command, and before the first one."""
GENERATED_COUNT_MAX: Final = 20_000
"""Of those that programs fill, as many are looked at before the first command."""
ASIDE: Final = ".put-aside"
"""The end of the name of what a command has made, and may not stay."""
DEPTH_MAX: Final = 5
"""Folders deep that are looked at before and after each command; before the first one all are."""
_GENERATED: Final = frozenset({"node_modules", "__pycache__", "target", ".venv", "venv", ".tox"})
REMOTES: Final = ("remotes", "branches")
"""Folders of addresses, as git kept them before they were settings: it believes them still."""
LAYOUT_NAMES: Final = ("HEAD", "objects", "refs", "commondir")
"""What `is_layout` looks for."""
_PARTS: Final = frozenset({"HEAD", "config", "hooks", "objects", "refs"})
_OF_REPOSITORY: Final = frozenset({"objects", "refs", "hooks", "info", "logs", "branches"})
_NAMING: Final = b"gitdir: "
_NAMING_SIZE_MAX: Final = 4096
ODD: Final = (OSError, ValueError, RuntimeError)
"""What odd contents, links and modes raise: a NUL in a path, links in a ring, a name too long."""
_found_before: Final[dict[str, dict[Path, None]]] = {}


class RepositoryScan(Struct, frozen=True):
    """Absolute paths: each `.git`, each folder that is a bare layout, those that are `closed`.

    The modes of these keep this user from looking into them, and git too.
    """

    places: tuple[Path, ...] = ()
    bare: tuple[Path, ...] = ()
    closed: tuple[Path, ...] = ()


def find_repositories(folder: str) -> RepositoryScan:
    """What there is beneath a folder.

    The first look in a process, before a command has run, is a long one; what it finds is
    remembered, so that a command cannot make so many folders that they are not found any more.

    Raises:
        ToolFailure: there are more folders than `ALL_COUNT_MAX`.
    """
    is_first = folder not in _found_before
    walk = _Walk()
    is_whole = walk.scan_folders(
        [(folder, 0)], ALL_COUNT_MAX if is_first else FOLDER_COUNT_MAX, is_first
    )
    if is_first and not is_whole:
        raise ToolFailure(
            ToolErrorKind.REJECTED,
            f"{folder} has more than {ALL_COUNT_MAX} folders: the sandbox cannot find all git "
            "repositories in it, to protect them; a person has to choose a smaller workspace",
        )
    if is_first:
        walk.scan_folders([(one, 0) for one in walk.generated], GENERATED_COUNT_MAX, is_first)
    remember(folder, walk.places)
    known = _found_before[folder]
    places = tuple(one for one in known if os.path.lexists(one))
    return RepositoryScan(places, tuple(walk.bare), tuple(walk.closed))


def remember(folder: str, places: Iterable[Path]) -> None:
    """Have these found among the others, however many folders there will be."""
    _found_before.setdefault(folder, {}).update(dict.fromkeys(places))


class _Walk:
    def __init__(self) -> None:
        self.places: list[Path] = []
        self.bare: list[Path] = []
        self.closed: list[Path] = []
        self.generated: list[str] = []

    def scan_folders(self, begin: Iterable[tuple[str, int]], count_max: int, is_deep: bool) -> bool:
        """Look at so many folders, the upper ones first; whether these were all."""
        todo, count = deque(begin), 0
        while todo and count < count_max:
            place, depth = todo.popleft()
            count += 1
            try:
                with os.scandir(place) as entries:
                    listed = {entry.name: entry for entry in entries}
            except PermissionError:
                self.closed.append(Path(place))
                continue
            except OSError:
                continue
            if GIT in listed:
                self.places.append(Path(place, GIT))
            is_bare = is_layout(listed)
            if is_bare:
                self.bare.append(Path(place))
            for name, entry in listed.items():
                if name == GIT or (is_bare and name in _OF_REPOSITORY):
                    continue
                with suppress(OSError):
                    if not entry.is_dir(follow_symlinks=False):
                        continue
                    if name in _GENERATED and count_max != GENERATED_COUNT_MAX:
                        self.generated.append(entry.path)
                    elif is_deep or depth < DEPTH_MAX:
                        todo.append((entry.path, depth + 1))
        return not todo


def is_layout(names: Iterable[str]) -> bool:
    """Whether git may take a folder with these names in it for a repository."""
    names = set(names)
    return "HEAD" in names and ({"objects", "refs"} <= names or "commondir" in names)


def was_repository(folder: Path) -> bool:
    """Whether it is one, or was before a command took it apart, to put it together later."""
    return any(os.path.lexists(folder / name) for name in _PARTS)


def git_folder_of(place: Path) -> Path | None:
    """The folder of git that a `.git` is or names, without links; it need not be there."""
    try:
        return named_by(place) if place.is_file() else place.resolve()
    except ODD:
        return None


def named_by(path: Path) -> Path | None:
    """The folder that a `.git` file names, without links; `None` too if no folder can be named so.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        said = file.read(_NAMING_SIZE_MAX)
    if not said.startswith(_NAMING):
        return None
    named = path.parent / os.fsdecode(said.removeprefix(_NAMING).rstrip(b"\r\n"))
    try:
        return named.resolve()
    except ODD:
        return None


def common_folder_of(git_folder: Path) -> Path:
    """The folder with the settings and hooks of a folder of git: for a work tree's another one."""
    file = git_folder / "commondir"
    try:
        if not file.is_file():
            return git_folder
        with file.open("rb") as opened:
            said = opened.read(_NAMING_SIZE_MAX).rstrip(b"\r\n")
        return (git_folder / os.fsdecode(said)).resolve()
    except ODD:
        return git_folder


def is_folder(path: Path) -> bool:
    """Whether a folder is there that can be looked into."""
    try:
        return path.is_dir() and is_open(path)
    except ODD:
        return False


def is_open(path: Path) -> bool:
    """Whether the modes let this user read a file, or look into a folder."""
    return os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0))


def entries_of(folder: Path) -> list[Path]:
    """What is in a folder, but links and closed folders that were put aside."""
    entries = sorted(folder.iterdir())
    return [one for one in entries if not (one.name.endswith(ASIDE) and _is_useless(one))]


def _is_useless(path: Path) -> bool:
    return path.is_symlink() or not is_open(path)


def modules_of(git_folder: Path, depth: int = 0) -> Iterator[Path]:
    """The repositories of submodules that a folder of git keeps; links among them too."""
    with suppress(OSError):
        for entry in entries_of(git_folder / "modules" if depth == 0 else git_folder):
            if entry.is_symlink() or was_repository(entry):
                yield entry
                yield from () if entry.is_symlink() else modules_of(entry)
            elif depth < DEPTH_MAX and entry.is_dir():
                yield from modules_of(entry, depth + 1)
