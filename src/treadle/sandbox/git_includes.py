"""What the settings of git lead to: files that they include, folders of hooks and of templates."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle import helper_programs
from treadle.process.command import run_command
from treadle.process.result import Bounds
from treadle.sandbox.path_rules import is_below
from treadle.sandbox.repositories import GIT, common_folder_of, git_folder_of, is_folder

_WANTED: Final = r"^(core\.hookspath|init\.templatedir|include\.path|includeif\..*\.path)$"
_READ_S_MAX: Final = 5.0
_COUNT_MAX: Final = 50
"""Files of settings that lead to each other."""
_known: Final[dict[tuple[str, int, int, int], tuple[tuple[str, str], ...]]] = {}


class OwnSettings(Struct, frozen=True):
    """The settings of git that hold in every repository of a person.

    `files` need not exist; each is absolute, links in it stay. `single` are those that variables
    hold: keys in small letters, and their values.
    """

    files: tuple[Path, ...] = ()
    single: tuple[tuple[str, str], ...] = ()


class IncludedPath(Struct, frozen=True):
    """An absolute path that settings lead to; `is_folder`, if to all that is in it."""

    path: str
    is_folder: bool = False


def own_settings(environ: Mapping[str, str], folder: str | Path) -> OwnSettings:
    """Where git looks for them in this environment, and what the environment itself says.

    Args:
        environ: the person's.
        folder: absolute; where git is run. A relative name leads elsewhere in each folder.
    """
    home = environ.get("HOME", "/")
    at = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    own = environ.get("GIT_CONFIG_GLOBAL")
    names = [own] if own else [f"{home}/.gitconfig", f"{at}/git/config"]
    names.append(environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig")
    template = environ.get("GIT_TEMPLATE_DIR")
    return OwnSettings(
        tuple(Path(folder, name) for name in names),
        (*_numbered(environ), *((("init.templatedir", template),) if template else ())),
    )


def steered_by(files: Iterable[Path], own: OwnSettings, root: Path) -> Iterator[IncludedPath]:
    """What the settings of a repository lead to; also what is not there.

    Args:
        files: those of the repository, absolute.
        own: those that hold everywhere.
        root: the work tree, which hooks run in.
    """
    todo = [*files, *own.files]
    seen = set(todo)
    settings = [(root, *one) for one in own.single]
    while settings or (todo and len(seen) < _COUNT_MAX):
        if not settings:
            file = todo.pop()
            settings = [(file.parent, *one) for one in _read(file)]
            continue
        base, key, value = settings.pop()
        if key == "core.hookspath":
            folder = _expanded(value, root)
            # What husky has in `_` calls what lies beside it.
            yield IncludedPath(str(folder.parent if folder.name == "_" else folder), is_folder=True)
        elif key == "init.templatedir":
            yield IncludedPath(str(_expanded(value, root)), is_folder=True)
        elif key.startswith("include"):
            included = _expanded(value, base)
            yield IncludedPath(str(included))
            if included not in seen:
                seen.add(included)
                todo.append(included)


def why_git_runs(path: Path, environ: Mapping[str, str]) -> tuple[str, str]:
    """What git reads of what lies on a path, and so may run programs for; both empty if nothing.

    Settings of the person, and what these and those of the repositories around it lead to.

    Args:
        path: absolute, without links; a file that is to be written.
        environ: the person's.
    """
    own = own_settings(environ, "/nowhere")
    found = [*map(IncludedPath, map(str, own.files)), *steered_by((), own, Path("/nowhere"))]
    for folder in path.parents:
        found += map(IncludedPath, map(str, own_settings(environ, folder).files))
        git_folder = git_folder_of(folder / GIT)
        if git_folder is not None and is_folder(git_folder):
            common = common_folder_of(git_folder)
            files = (common / "config", common / "config.worktree", git_folder / "config.worktree")
            found += steered_by(files, own, folder)
    for one in found:
        place = os.path.realpath(one.path)
        if str(path) == place or (one.is_folder and is_below(str(path), place)):
            return one.path, "the settings of git lead there, and name programs and hooks"
    return "", ""


def _numbered(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    count = environ.get("GIT_CONFIG_COUNT", "")
    for number in range(min(int(count), _COUNT_MAX) if count.isdecimal() else 0):
        key = environ.get(f"GIT_CONFIG_KEY_{number}", "")
        yield key.lower(), environ.get(f"GIT_CONFIG_VALUE_{number}", "")


def _expanded(value: str, base: Path) -> Path:
    return Path(os.path.normpath(os.path.join(base, os.path.expanduser(value))))  # noqa: PTH111, PTH118


def _read(file: Path) -> tuple[tuple[str, str], ...]:
    try:
        found = file.stat()
    except OSError:
        return ()
    version = str(file), found.st_ino, found.st_mtime_ns, found.st_size
    if version not in _known:
        _known[version] = tuple(_asked(file))
    return _known[version]


def _asked(file: Path) -> Iterator[tuple[str, str]]:
    program = helper_programs.find_program("git")
    if program is None:
        return
    command = (program, "config", "--file", str(file), "--no-includes", "-z", "--get-regexp")
    try:
        ran = run_command(
            (*command, _WANTED), helper_programs.environment(), Bounds(_READ_S_MAX), folder="/"
        )
    except OSError:
        return
    for setting in filter(None, [] if ran.problem else ran.out.split(b"\0")):
        key, _, value = os.fsdecode(setting).partition("\n")
        # Of the key of a condition only the last part is sure to be in small letters.
        yield key.lower(), value
