"""After a command: what git would now run that it would not have run before is put aside.

Only what cannot be shut beforehand is left to this: repositories that a command makes, wherever
git finds them by itself, and the steps of a rebase. One whose settings name no program and that has
no hooks stays, and is protected from then on.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.sandbox.git_includes import OwnSettings, steered_by
from treadle.sandbox.git_settings import (
    FOLDERS_OF_STEPS,
    find_hooks,
    find_program,
    find_steps,
    places_of_steps,
)
from treadle.sandbox.gitlinks import find_gitlinks, find_links, find_strange_indexes
from treadle.sandbox.path_rules import is_below
from treadle.sandbox.protected import ClosedError, LinkError, find_protected
from treadle.sandbox.put_back import make_accessible, put_aside
from treadle.sandbox.repositories import (
    GIT,
    ODD,
    RepositoryScan,
    find_repositories,
    git_folder_of,
    is_folder,
    modules_of,
    remember,
    was_repository,
)
from treadle.tool_failure import ToolFailure

REPOSITORY_COUNT_MAX: Final = 200
"""New repositories of one command that are looked into; more than these are put aside unseen."""
_LINK_COUNT_MAX: Final = 100
_left_there: Final[set[Path]] = set()
"""What could not be put aside: said again after each command, for as long as it is there."""
_under_way: Final[dict[tuple[str, ...], list[GitBeforeCommand]]] = {}
"""What git found before each of the commands that run, the oldest first; by their folders."""


class GitBeforeCommand(Struct, frozen=True):
    """What git found before a command.

    `places` are protected: every `.git` of a repository. Those that are or name none, or one that
    cannot be looked into, or one that should have been put aside, are `dangling`. `modules` are
    repositories of submodules. `bare` are bare layouts, with a digest of what git would run there.
    `steps` are commands that a rebase would have run. `links` stand where git writes, each with
    where it leads. `closed` are folders that could not be looked into.
    """

    places: frozenset[Path]
    dangling: frozenset[Path]
    modules: frozenset[Path]
    bare: Mapping[Path, str]
    steps: frozenset[bytes]
    links: frozenset[tuple[Path, str]]
    closed: frozenset[Path]


class Looked(Struct, frozen=True):
    """What was `put_aside` and why, and what was `unseen`: it could not be looked at. In words."""

    put_aside: tuple[str, ...]
    unseen: tuple[str, ...]


def look_before(found: Iterable[RepositoryScan]) -> GitBeforeCommand:
    """What stands there now, in folders that a command is about to change."""
    places = {place for one in found for place in one.places}
    folders = {place: git_folder_of(place) for place in places}
    dangling = {place for place, folder in folders.items() if not _is_protected(place, folder)}
    real = [folder for folder in folders.values() if folder is not None]
    return GitBeforeCommand(
        frozenset(places - dangling),
        frozenset(dangling),
        frozenset(module for folder in real for module in modules_of(folder)),
        {bare: _digest(bare) for one in found for bare in one.bare},
        frozenset(step for folder in real for step in _steps_in(folder)),
        frozenset(link for folder in real for link in find_links(folder)),
        frozenset(folder for one in found for folder in one.closed),
    )


@contextmanager
def hold(folders: tuple[str, ...], before: GitBeforeCommand) -> Iterator[GitBeforeCommand]:
    """While a command runs: what is to count as having been there before it.

    A repository that has come to be since an older command began, which still runs, may be the work
    of that one. It is judged at the end of each command, as it would else stand open for hours.
    """
    running = _under_way.setdefault(folders, [])
    running.append(before)
    oldest = running[0]
    try:
        yield replace(
            before,
            places=oldest.places,
            dangling=oldest.dangling,
            modules=oldest.modules,
            bare=oldest.bare,
        )
    finally:
        running[:] = (one for one in running if one is not before)
        if not running:
            _under_way.pop(folders, None)


def _is_protected(place: Path, git_folder: Path | None) -> bool:
    """Whether it was a repository already, which a command cannot have changed."""
    if git_folder is None or place in _left_there:
        return False
    return is_folder(git_folder) and was_repository(git_folder)


def put_programs_aside(
    folders: tuple[str, ...], own: OwnSettings, before: GitBeforeCommand
) -> Looked:
    """Put aside what a command has made for git to run.

    Args:
        folders: those that the command could change, without links.
        own: as in `find_protected`.
        before: what `look_before` said.
    """
    said = _put_unprotectable_aside(folders, own)
    look = _SettingsScan(folders, before, own)
    for folder in folders:
        look.into(folder, find_repositories(folder))
        look.from_above(folder)
    return Looked((*said, *look.said), tuple(dict.fromkeys(look.unseen)))


def _put_unprotectable_aside(folders: tuple[str, ...], own: OwnSettings) -> list[str]:
    """What would make all later commands fail: there was none before, or nothing had run.

    These are links in the place of protected files, and what the modes keep from being read.
    """
    said: list[str] = []
    for _ in range(_LINK_COUNT_MAX):
        try:
            find_protected(folders, own)
        except LinkError as error:
            if not put_aside(str(error.path)):
                break
            said.append(f"{error.path} (a link cannot be protected)")
        except ClosedError as error:
            if make_accessible(str(error.path)):
                continue
            if not put_aside(str(error.path)):
                break
            said.append(f"{error.path} (it cannot be read)")
        except (ToolFailure, *ODD):
            break
        else:
            break
    return said


class _SettingsScan:
    def __init__(
        self, folders: tuple[str, ...], before: GitBeforeCommand, own: OwnSettings
    ) -> None:
        self.said: list[str] = []
        self.unseen: list[str] = []
        self._folders = folders
        self._before = before
        self._own = own
        self._trusted = {one for one in map(git_folder_of, before.places) if one is not None}
        self._seen: set[Path] = set()
        self._count = 0

    def into(self, folder: str, found: RepositoryScan) -> None:
        for bare in found.bare:
            if self._before.bare.get(bare) != _digest(bare):
                self._judge(bare / "HEAD", bare)
        self._follow(folder, found.places)
        self.unseen += [str(one) for one in found.closed if one not in self._before.closed]

    def from_above(self, folder: str) -> None:
        """Where repositories that the folder is a part of have entries for others in it.

        Their indexes cannot be changed here, but what such an entry names can come to be.
        """
        for above in Path(folder).parents:
            git_folder = git_folder_of(above / GIT)
            if git_folder is not None and is_folder(git_folder):
                self._follow(folder, self._linked_from(above / GIT, git_folder))

    def _follow(self, folder: str, places: Iterable[Path]) -> None:
        todo = deque(places)
        while todo:
            place = todo.popleft()
            if place in self._seen:
                continue
            self._seen.add(place)
            try:
                todo += self._look_at(folder, place)
            except ODD:
                # Whatever it is, what stands beside it must still be looked at.
                if place not in self._before.places:
                    self._put_aside(place, "it cannot be looked at")

    def _look_at(self, folder: str, place: Path) -> list[Path]:
        """Judge a `.git`; those that it makes git look into besides."""
        git_folder = git_folder_of(place)
        if place not in self._before.places:
            if self._is_put_aside(place, git_folder):
                return []
            remember(folder, [place])
        if git_folder is None or not is_folder(git_folder):
            return []
        self._into_git(git_folder)
        return list(self._linked_from(place, git_folder))

    def _is_put_aside(self, place: Path, git_folder: Path | None) -> bool:
        """Whether a new `.git` had to be."""
        is_old = place in self._before.dangling
        if place.is_symlink():
            return self._put_aside(place, "it is a link")
        if git_folder is None:
            return not is_old and self._put_aside(place, "it cannot be read")
        if not is_folder(git_folder):
            return not is_old and self._put_aside(place, "what it names is not there, or closed")
        if not any(is_below(str(git_folder), one) for one in self._folders):
            return False
        return self._judge(place, git_folder)

    def _judge(self, place: Path, git_folder: Path) -> bool:
        self._count += 1
        is_many = self._count > REPOSITORY_COUNT_MAX
        if is_many:
            why = "too many new ones"
        else:
            why = find_program(git_folder, self._trusted, self._folders)
            why = why or self._find_own_hooks(place.parent)
        return bool(why) and self._put_aside(place, why)

    def _find_own_hooks(self, root: Path) -> str:
        """Hooks in a new work tree, where the person's own settings have git look for them."""
        for one in steered_by((), self._own, root):
            if one.is_folder and os.path.lexists(one.path) and is_below(one.path, str(root)):
                return f"your own settings have git run what is in {one.path}"
        return ""

    def _put_aside(self, place: Path, why: str) -> bool:
        if is_folder(place) and not place.is_symlink():
            # Else the folder would be a repository under its new name.
            put_aside(str(place / "HEAD"))
        if put_aside(str(place)):
            self.said.append(f"{place} ({why})")
            _left_there.discard(place)
        else:
            self.said.append(f"{place} could not be put aside: remove it ({why})")
            _left_there.add(place)
        return True

    def _into_git(self, git_folder: Path) -> None:
        """What may have come to be in a repository that itself is as it was."""
        for index in find_strange_indexes(git_folder):
            self._put_aside(index, "it is no file")
        for link in list(find_links(git_folder)):
            if link not in self._before.links:
                self._put_aside(link[0], "git would write where this link leads")
        for module in modules_of(git_folder):
            if module not in self._before.modules:
                self._judge(module, module)
        for folder in places_of_steps(git_folder):
            if _steps_of(folder) - self._before.steps:
                for name in FOLDERS_OF_STEPS:
                    if os.path.lexists(folder / name):
                        self._put_aside(folder / name, "its steps run commands")

    def _linked_from(self, place: Path, git_folder: Path) -> Iterator[Path]:
        names = find_gitlinks(git_folder)
        if names is None:
            self.unseen.append(f"what the index of {git_folder} has entries for")
        for name in names or ():
            path = Path(os.path.realpath(place.parent / name), GIT)
            if not any(is_below(str(path), one) for one in self._folders):
                continue
            try:
                path.lstat()
            except PermissionError:
                self.unseen.append(str(path))
            except OSError:
                continue  # there is none, or git cannot get there either
            else:
                yield path


def _steps_in(git_folder: Path) -> Iterator[bytes]:
    for folder in places_of_steps(git_folder):
        yield from _steps_of(folder)


def _steps_of(folder: Path) -> set[bytes]:
    try:
        return find_steps(folder)
    except OSError:
        return {b"it cannot be read"}


def _digest(bare: Path) -> str:
    """Of all that decides what git runs in a bare layout."""
    digest = hashlib.sha256()
    try:
        files = [bare / name for name in ("commondir", "config", "config.worktree")]
        files += [bare / "hooks" / name for name in find_hooks(bare)]
        for file in files:
            digest.update(f"{file}\0{file.is_symlink()}\0".encode(errors="surrogateescape"))
            if file.is_file():
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    except OSError:
        return ""
    return digest.hexdigest()
