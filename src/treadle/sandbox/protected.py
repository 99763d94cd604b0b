"""What in a workspace runs programs later, and so must not be changed by a command.

Of git: a folder's `.git`, with its hooks, its settings, and the files that say where others of
them lie; the same of submodules, of other work trees, and of repositories further down, as far as
a bounded walk finds them; what their settings include, and the folder of hooks that they name. Of
this program: `.treadle`. What a command makes anew is looked at afterwards (`after_command`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.core.tools import ToolErrorKind
from treadle.sandbox.folders import is_link
from treadle.sandbox.git_includes import IncludedPath, OwnSettings, steered_by
from treadle.sandbox.placeholders import find_strangers
from treadle.sandbox.repositories import (
    DEPTH_MAX,
    GIT,
    REMOTES,
    RepositoryScan,
    common_folder_of,
    entries_of,
    find_repositories,
    is_open,
    named_by,
    was_repository,
)
from treadle.tool_failure import ToolFailure

_OWN: Final = ".treadle"
_STEERING: Final = ("commondir", "gitdir", "config.worktree")
"""Files of a git folder that say where its settings lie, or are such."""
_HERE: Final = b".\n"
"""In a `commondir`: the settings lie where they are looked for. Git makes no such file itself."""
_NO_HEAD: Final = b"Treadle keeps this while a command runs: no git repository may begin here.\n"
"""Nothing that git would take for a `HEAD`."""

NO_SETTINGS: Final = OwnSettings()
_LINK_COUNT_MAX: Final = 40
"""As many symbolic links as Linux follows in one path."""


class Protected(Struct, frozen=True):
    """Absolute paths, parents before children.

    `kept` are folders that stay writable, but not renamable. `shut` may not be changed at all.
    `missing` are folders that must not come to be, nor `absent` files, in whose place nothing can
    be. `stubs` are files that must not come to be either; each has the content that can stand in
    its place without any effect. `links` are a person's, on the way to what is protected: nothing
    can shut them. `repositories` are those that were found, by folder.
    """

    kept: tuple[str, ...] = ()
    shut: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    stubs: tuple[tuple[str, bytes], ...] = ()
    links: tuple[str, ...] = ()
    repositories: tuple[RepositoryScan, ...] = ()


class LinkError(ToolFailure):
    """A symbolic link, `path`, stands in the place of what is protected."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            ToolErrorKind.REJECTED,
            f"{path} is a symbolic link, which the sandbox cannot protect; a person has to replace "
            "it by what it points to",
        )
        self.path: Final = path


class ClosedError(ToolFailure):
    """The modes of `path` keep this user from looking at what is protected."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            ToolErrorKind.REJECTED,
            f"{path} cannot be read, so the sandbox cannot protect what is in it; a person has to "
            f"open it: chmod u+rwX {path}",
        )
        self.path: Final = path


class _ProtectedPaths:
    def __init__(self) -> None:
        self.kept: list[str] = []
        self.shut: list[str] = []
        self.missing: list[str] = []
        self.absent: list[str] = []
        self.stubs: list[tuple[str, bytes]] = []
        self.links: list[str] = []
        self.repositories: list[RepositoryScan] = []


def find_protected(folders: Iterable[str], own: OwnSettings = NO_SETTINGS) -> Protected:
    """What is protected in folders that a command may change.

    Args:
        folders: absolute paths, without links.
        own: the settings of git that hold in all of them.

    Raises:
        LinkError: it stands where a protected file should: it cannot be shut.
        ClosedError: a folder or file of git cannot be read.
        ToolFailure: there are more folders than `ALL_COUNT_MAX`.
    """
    folders = tuple(folders)
    try:
        return _find_protected(folders, own)
    except PermissionError as error:
        path = Path(os.fsdecode(error.filename or "/"))
        ways = [Path(way) for folder in folders for way in ways_to(path, folder)]
        # Parents first: beneath a closed folder nothing can be asked.
        for one in (*ways, path):
            if not is_open(one):
                raise ClosedError(one) from error
        raise


def _find_protected(folders: tuple[str, ...], own: OwnSettings) -> Protected:
    found = _ProtectedPaths()
    steered = list(steered_by((), own, Path("/nowhere")))
    for file in own.files:
        _add_own_settings(file, folders, found)
    for folder in folders:
        ours = Path(folder, _OWN)
        if _is_missing(ours):
            found.missing.append(str(ours))
        else:
            found.shut.append(str(_no_link(ours)))
        if _is_missing(Path(folder, GIT)):
            if Path(folder, "HEAD").is_file() and Path(folder, "objects").is_dir():
                _add_repository(Path(folder), found)  # it is a bare one itself
            else:
                found.missing.append(str(Path(folder, GIT)))
                # In a repository `HEAD` names a commit: a file of this name makes that ambiguous.
                if not any(os.path.lexists(above / GIT) for above in Path(folder).parents):
                    _add_head(Path(folder), found)
        repositories = find_repositories(folder)
        found.repositories.append(repositories)
        for place in repositories.places:
            if not _is_missing(place):
                # Who could rename a folder on the way could put another repository there.
                found.kept += ways_to(place, folder)
                steered += _add_git_path(place, found, own, folders)
    for one in dict.fromkeys(steered):
        _add_steered(one, folders, found)
    return Protected(
        tuple(one for one in dict.fromkeys(found.kept) if one not in folders),
        tuple(dict.fromkeys(found.shut)),
        tuple(dict.fromkeys(found.missing)),
        tuple(dict.fromkeys(found.absent)),
        tuple(dict.fromkeys(found.stubs)),
        tuple(dict.fromkeys(found.links)),
        tuple(found.repositories),
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


def _without_links(path: Path, folders: tuple[str, ...]) -> tuple[Path, list[Path]]:
    """Where a path leads that need not exist; and the links in one of the folders on the way."""
    inside: list[Path] = []
    for _ in range(_LINK_COUNT_MAX):
        link = next((one for one in (*path.parents[::-1], path) if is_link(str(one))), None)
        if link is None:
            break
        if any(is_in(str(link), folder) for folder in folders):
            inside.append(link)
        target = os.path.normpath(link.parent / link.readlink())
        path = Path(target, path.relative_to(link))
    return path, inside


def _add_own_settings(file: Path, folders: tuple[str, ...], found: _ProtectedPaths) -> None:
    """A file of settings that holds everywhere; people keep these behind links of theirs."""
    real, links = _without_links(file, folders)
    found.links += map(str, links)
    for folder in folders:
        if not is_in(str(real), folder):
            continue
        found.kept += ways_to(first_missing(real), folder)
        if os.path.lexists(real):
            found.shut.append(str(real))
        elif real.parent.is_dir():
            found.stubs.append((str(real), b""))
        else:
            # Programs of a command may have to make the folder for settings of their own.
            found.absent.append(str(real))


def _add_steered(one: IncludedPath, folders: tuple[str, ...], found: _ProtectedPaths) -> None:
    """What settings lead to; what leads to it must not be renamed, and no link.

    A link elsewhere may lead here, as from a home folder to where its files are kept.
    """
    path, links = _without_links(Path(one.path), folders)
    if links:
        raise LinkError(links[0])
    for folder in folders:
        if not is_in(str(path), folder):
            continue
        if (one.is_folder and _is_missing(path)) or not path.parent.is_dir():
            first = first_missing(path)
            found.kept += ways_to(first, folder)
            found.missing.append(str(first))
            continue
        found.kept += ways_to(path, folder)
        if os.path.lexists(path):
            found.shut.append(str(path))
        else:
            found.stubs.append((str(path), b""))


def _add_head(folder: Path, found: _ProtectedPaths) -> None:
    """Where there is no repository, keep the folder from becoming one without a `.git`."""
    head = folder / "HEAD"
    if not os.path.lexists(head) or not find_strangers([(str(head), _NO_HEAD)]):
        found.stubs.append((str(head), _NO_HEAD))


def _add_git_path(
    place: Path, found: _ProtectedPaths, own: OwnSettings, folders: Iterable[str]
) -> list[IncludedPath]:
    """A `.git`; and what the settings behind it lead to."""
    _add_repository(place, found)
    target, files = place, tuple[Path, ...]()
    if place.is_file():
        named = named_by(place)
        if named is None:
            return []
        target = common_folder_of(named)
        inside = [one for one in folders if is_in(str(target), one)]
        if inside and str(target) not in found.kept and was_repository(target):
            # One that no walk finds, as it goes by another name or lies too deep.
            found.kept += ways_to(target, inside[0])
            _add_repository(target, found)
        beside = [one for one in folders if is_in(str(named), one)]
        if beside and named != target and named.is_dir() and (target / "config").is_file():
            # A work tree whose settings lie elsewhere: where, it says in files of its own.
            found.kept += [*ways_to(named, beside[0]), str(named)]
            _add_steering(named, found, target / "config", is_beside=True)
        files = (*files, named / "config.worktree")
    files = (*files, target / "config", target / "config.worktree")
    return list(steered_by(files, own, place.parent))


def _is_missing(path: Path) -> bool:
    """Whether there is nothing, or an empty folder: one that a killed run has left."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode) and not any(path.iterdir())
    except FileNotFoundError:
        return True


def _no_link(path: Path) -> Path:
    if path.is_symlink():
        raise LinkError(path)
    return path


def _add_repository(place: Path, found: _ProtectedPaths) -> None:
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
    for folder in (_no_link(place / name) for name in REMOTES):
        (found.shut if folder.exists() else found.absent).append(str(folder))
    _add_steering(place, found, config, is_beside=False)
    trees = place / "worktrees"
    if _no_link(trees).is_dir():
        found.kept.append(str(trees))
        for tree in entries_of(trees):
            if _no_link(tree).is_dir():
                found.kept.append(str(tree))
                _add_steering(tree, found, config, is_beside=True)
    if _no_link(place / "modules").is_dir():
        _add_modules(place / "modules", found, 0)


def _add_modules(folder: Path, found: _ProtectedPaths, depth: int) -> None:
    found.kept.append(str(folder))
    for entry in entries_of(folder):
        if not _no_link(entry).is_dir():
            continue
        if was_repository(entry):
            _add_repository(entry, found)
        elif depth < DEPTH_MAX:
            _add_modules(entry, found, depth + 1)


def _add_steering(folder: Path, found: _ProtectedPaths, config: Path, *, is_beside: bool) -> None:
    has_two = b"worktreeconfig" in config.read_bytes().lower()
    for name in _STEERING:
        path = folder / name
        if name == "commondir" and not is_beside:
            # Git never makes one there. One that leads nowhere keeps others from being made.
            found.stubs.append((str(path), _HERE))
        elif _no_link(path).exists():
            found.shut.append(str(path))
        else:
            if name == "config.worktree" and has_two:
                found.stubs.append((str(path), b""))
            else:
                found.absent.append(str(path))
