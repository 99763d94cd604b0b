"""What a folder of git would make git run: programs in its settings, hooks, steps of a rebase.

Who asks has not made the folder, and does not trust it: nothing here runs anything of it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from treadle import helper_programs
from treadle.process.command import run_command
from treadle.process.result import Bounds
from treadle.sandbox.path_rules import is_below
from treadle.sandbox.repositories import ODD, REMOTES, entries_of

_SIZE_MAX: Final = 1024 * 1024
"""Bytes of settings that are judged; larger ones are not believed."""
_READ_S_MAX: Final = 5.0
_HARMLESS: Final = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode"
    r"|symlinks|worktree|autocrlf|eol|safecrlf|sharedrepository|quotepath|abbrev)"
    r"|extensions\.(objectformat|noop|refstorage|worktreeconfig)"
    r"|remote\..*\.(url|pushurl|fetch|push|tagopt|prune|mirror)"
    r"|branch\..*\.(remote|pushremote|merge|rebase|description)"
    r"|submodule\..*\.(url|active|branch|ignore|path|fetchrecursesubmodules|update)|submodule\.active"
    r"|user\.(name|email)|init\.defaultbranch|lfs\.repositoryformatversion"
    r"|(pull|push|merge|rebase|diff|advice)\.(ff|rebase|default|conflictstyle|autosetupremote)",
    re.DOTALL,
)
"""Settings that name no program. All others may: git learns new ones each year.

Those of a partial clone are not here: they make `git status` fetch what is not there.
"""
_HARMLESS_UPDATES: Final = frozenset({"checkout", "merge", "rebase", "none"})
_HELPER: Final = re.compile(r"[A-Za-z0-9+.-]*::|-")
"""A URL that names the program that speaks to it, or looks like an option."""
_OTHER_END: Final = re.compile(r"branch\..*\.(remote|pushremote)", re.DOTALL)
"""The name of a remote, or the address of one."""
_ADDRESS: Final = re.compile(r"(https?|ssh|git|git\+ssh)://(?!-)|([\w.-]+@)?[\w][\w.-]*:(?!:|//)")
_LEADS_AWAY: Final = re.compile(
    r"core\.(worktree|bare|repositoryformatversion|sharedrepository)|extensions\..*", re.DOTALL
)
_STEPS: Final = frozenset(
    b"pick p revert edit e reword r squash s fixup f label l reset t merge m update-ref u drop d"
    b" noop break b".split()
)
"""What a rebase does by itself; `exec` is not among them, nor what a later git may learn."""
FOLDERS_OF_STEPS: Final = ("rebase-merge", "sequencer")
_STRATEGIES: Final = frozenset(b"ort recursive resolve octopus ours subtree".split())


def find_program(git_folder: Path, trusted: Collection[Path], folders: Collection[str]) -> str:
    """What git would run in a repository, in words; empty if nothing.

    Args:
        git_folder: what a `.git` is or names, or a bare layout; without links.
        trusted: folders of settings that no command can change.
        folders: those that commands may change; a work tree elsewhere is written by a checkout.
    """
    try:
        return _find_program(git_folder, trusted, folders)
    except ODD:
        return "it cannot be looked at"


def _find_program(git_folder: Path, trusted: Collection[Path], folders: Collection[str]) -> str:
    if git_folder in trusted:
        return ""
    names = ("commondir", "config", "config.worktree", "hooks", *FOLDERS_OF_STEPS)
    links = [name for name in names if (git_folder / name).is_symlink()]
    if links:
        return f"its {links[0]} is a link"
    common = git_folder
    if (git_folder / "commondir").exists():
        said = _read(git_folder / "commondir").rstrip(b"\r\n")
        common = (git_folder / os.fsdecode(said)).resolve()
        is_work_tree = git_folder.parent.name == "worktrees" and git_folder.parent.parent == common
        if common != git_folder and not is_work_tree:
            return "its commondir leads elsewhere"
    files = [git_folder / "config.worktree"]
    if common not in trusted:
        files.append(common / "config")
        if hooks := find_hooks(common):
            return f"it has the hook {hooks[0]}"
        # One of this machine would do: its hooks run at a push.
        if any(_has_files(common / name) for name in REMOTES):
            return "it has the address of a remote in a file of its own"
    for file in files:
        settings = read_settings(file)
        if named := sorted(find_risky_settings(settings)):
            return f"its settings: {named[0]}"
        trees = [value for key, value in settings or () if key == "core.worktree"]
        if not all(_is_inside(git_folder / tree, folders) for tree in trees):
            return "its settings: core.worktree leads elsewhere"
    return "steps that are under way in it run commands" if find_steps(git_folder) else ""


def _is_inside(path: Path, folders: Collection[str]) -> bool:
    return any(is_below(os.path.realpath(path), folder) for folder in folders)


def _has_files(folder: Path) -> bool:
    return folder.exists() and any(folder.iterdir())


def find_hooks(git_folder: Path) -> list[str]:
    """The names of the hooks in a folder of git; samples are none."""
    try:
        names = sorted(entry.name for entry in (git_folder / "hooks").iterdir())
    except FileNotFoundError:
        return []
    return [name for name in names if not name.endswith(".sample")]


def find_risky_settings(settings: Iterable[tuple[str, str]] | None) -> set[str]:
    """Those that may name a program, by their keys.

    Something is said too of settings that cannot be read.
    """
    if settings is None:
        return {"they cannot be read"}
    return {key for key, value in settings if _is_risky(key, value)}


def read_settings(file: Path) -> list[tuple[str, str]] | None:
    """The keys and values in a file, none if it is not there; `None` if it cannot be read."""
    try:
        found = file.lstat()
    except FileNotFoundError:
        return []
    if not stat.S_ISREG(found.st_mode) or found.st_size > _SIZE_MAX:
        return None
    return _list_settings(str(file))


def parse_settings(content: bytes) -> list[tuple[str, str]] | None:
    """The keys and values that a file with this content has; `None` if git cannot read it."""
    return _list_settings("-", content)


def _list_settings(file: str, content: bytes = b"") -> list[tuple[str, str]] | None:
    words = ("config", "--file", file, "--no-includes", "-z", "--list")
    output = run_git(words, helper_programs.environment(), _READ_S_MAX, content)
    if output is None:
        return None
    settings = (os.fsdecode(one).partition("\n") for one in filter(None, output.split(b"\0")))
    return [(key, value) for key, _, value in settings]


def run_git(
    words: Iterable[str], environment: Mapping[str, str], timeout_s: float, content: bytes = b""
) -> bytes | None:
    """What git prints, started in `/`; `None` if it is missing, fails or takes too long.

    Args:
        words: what stands behind `git`.
        environment: the whole environment of the process.
        timeout_s: seconds.
        content: its standard input.
    """
    program = helper_programs.find_program("git")
    if program is None:
        return None
    ran = run_command((program, *words), environment, Bounds(timeout_s), folder="/", data=content)
    return ran.out if ran.status == 0 and not ran.problem else None


def may_be_written(key: str, value: str) -> bool:
    """Whether a command that a person allowed may write a setting of a repository that is theirs.

    Less than what a new repository may have: none may lead it to other files, nor to a repository
    of this machine, in which a push would run the hooks.
    """
    if _is_risky(key, value) or _LEADS_AWAY.fullmatch(key):
        return False
    if key.endswith("url"):
        return _ADDRESS.match(value) is not None
    if _OTHER_END.fullmatch(key):
        is_name = value == "." or not (value.startswith((".", "~")) or set(value) & set("/:"))
        return is_name or _ADDRESS.match(value) is not None
    return True


def _is_risky(key: str, value: str) -> bool:
    if not _HARMLESS.fullmatch(key):
        return True
    if key.endswith("url") or _OTHER_END.fullmatch(key):
        return _HELPER.match(value) is not None
    return key.endswith(".update") and value not in _HARMLESS_UPDATES


def find_steps(git_folder: Path) -> set[bytes]:
    """What going on with a rebase, a cherry-pick or a revert would run there, besides git.

    These are lines of a list, and strategies that git does not bring: each is a program.
    """
    found: set[bytes] = set()
    for name in FOLDERS_OF_STEPS:
        if (git_folder / name).is_symlink():
            found.add(b"%s is a link" % os.fsencode(name))
    if found:
        return found
    for line in _read_if_there(git_folder / "rebase-merge/git-rebase-todo").split(b"\n"):
        words = line.split(None, 1)
        if words and not words[0].startswith(b"#") and words[0] not in _STEPS:
            found.add(line)
    strategy = _read_if_there(git_folder / "rebase-merge/strategy").strip()
    if strategy and strategy not in _STRATEGIES:
        found.add(strategy)
    options = git_folder / "sequencer/opts"
    settings = read_settings(options)
    if settings is None:
        return {*found, b"its options cannot be read"}
    named = (os.fsencode(value) for key, value in settings if key == "options.strategy")
    return found.union(one for one in named if one not in _STRATEGIES)


def _read_if_there(path: Path) -> bytes:
    try:
        return _read(path)
    except (FileNotFoundError, NotADirectoryError):
        return b""


def _read(path: Path) -> bytes:
    """What a plain file holds; one that is a link, or too large, is an `OSError`."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _SIZE_MAX:
            raise OSError(f"{path} is no plain file")
        return file.read(_SIZE_MAX)


def places_of_steps(git_folder: Path) -> Iterable[Path]:
    """The folders where a rebase may be under way: the repository's own, its work trees'."""
    trees = git_folder / "worktrees"
    try:
        return (git_folder, *entries_of(trees))
    except OSError:
        return (git_folder,)
