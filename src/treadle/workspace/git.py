"""What git says about a folder. Looking takes one `git status`, and never takes a lock."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle import helper_programs
from treadle.process.command import run_command
from treadle.process.program import run_bounded
from treadle.process.result import NOT_STARTED, Bounds, Ran
from treadle.thread.facts import CHANGED_COUNT_MAX, GitObserved
from treadle.workspace.git_durability import durable_options
from treadle.workspace.git_repository import (
    NOT_BARE,
    GitRepository,
    find_repository,
    git_environment,
)
from treadle.workspace.remote import choose_remote
from treadle.workspace.status import Status, StatusEntry, parse_status

READ_S_MAX: Final = 30.0
"""Seconds a look at the repository may take; huge ones on a cold disk need several."""

UNDO_S_MAX: Final = 10.0
"""Seconds that a step without a break may take; it blocks the event loop, for milliseconds."""

STATUS_SIZE_MAX: Final = 4 * 1024 * 1024
"""Bytes of `git status` that are read: `CHANGED_COUNT_MAX` names of the longest kind."""

OUT_SIZE_MAX: Final = 64 * 1024
"""Bytes of any other output that are kept."""

_LOOK: Final = Bounds(READ_S_MAX, OUT_SIZE_MAX)

_NOT_INHERITED: Final = frozenset(
    "GIT_" + name
    for name in (
        *("DIR", "WORK_TREE", "INDEX_FILE", "COMMON_DIR", "OBJECT_DIRECTORY", "NAMESPACE"),
        *("ALTERNATE_OBJECT_DIRECTORIES", "PREFIX", "CONFIG", "IMPLICIT_WORK_TREE", "GRAFT_FILE"),
        *("SHALLOW_FILE", "REPLACE_REF_BASE", "NO_REPLACE_OBJECTS", "INTERNAL_SUPER_PREFIX"),
        *("LITERAL_PATHSPECS", "GLOB_PATHSPECS", "NOGLOB_PATHSPECS", "ICASE_PATHSPECS"),
    )
)
"""Set when a git hook started us: they would point every git at that hook's repository."""

_NONE: Final = (
    "not a git repository",
    "must be run in a work tree",
    "cannot use bare repository",
)
"""What git says where it finds no files that it would know."""

PATHS_FROM_INPUT: Final = ("--pathspec-from-file=-", "--pathspec-file-nul")
_UNHOOKED: Final = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false")
"""Options of a git in which no hook runs and no file system monitor."""


class Absence(Enum):
    """Why there is no repository to look at; the value is what people are told."""

    NO_FOLDER = "the folder is gone"
    NO_REPOSITORY = "the folder is in no git repository"
    NO_GIT = "git is not installed"
    NOT_TRUSTED = "git refuses the repository because it belongs to another user"
    FAILED = "git could not say how the repository stands"


class Absent(Struct, frozen=True):
    """Nothing to look at: why, and what git said if it said anything."""

    why: Absence
    detail: str = ""

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.why.value}: {self.detail}" if self.detail else self.why.value


class Layout(Struct, frozen=True):
    """Where a repository lies, in absolute paths.

    `prefix` is where the workspace lies in it: empty, or `sub/folder/`. `digest` names objects:
    `sha1` or `sha256`.
    """

    root: Path
    git_dir: Path
    common_dir: Path
    prefix: str
    digest: str = "sha1"


class Repository:
    """The repository around a folder, if there is one.

    Args:
        folder: the workspace; it need not exist.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        helper_programs.exclude(self.folder)
        self._layout: tuple[GitRepository, Layout] | None = None
        self._remote: tuple[object, str | None] | None = None
        self._latest: tuple[Status, object] | None = None

    def keep_status(self, status: Status) -> None:
        """Keep what git has just said, for who is asked next and would ask the same again."""
        self._latest = status, _version_of_index(self._layout)

    def take_status(self) -> Status | None:
        """What was kept, once; `None` if git is to be asked: also where the index is another."""
        kept, self._latest = self._latest, None
        is_same = kept is not None and kept[1] == _version_of_index(self._layout)
        return kept[0] if kept is not None and is_same else None

    async def observe(self) -> GitObserved | Absent:
        """How the repository stands, as it is recorded."""
        status = await self.status()
        return status if isinstance(status, Absent) else await self.describe(status)

    async def describe(self, status: Status) -> GitObserved:
        """The record of a status.

        `dirty` speaks of the whole repository, `changed` of the workspace.
        """
        names = tuple(status.inside)
        return GitObserved(
            branch=status.branch,
            head=status.head,
            dirty=bool(status.changes),
            remote=await self._find_remote(),
            changed=names[:CHANGED_COUNT_MAX],
            changed_is_cut=status.is_cut or len(names) > CHANGED_COUNT_MAX,
        )

    async def status(self) -> Status | Absent:
        """How the repository stands now; changes nothing."""
        layout = await self.layout()
        if isinstance(layout, Absent):
            return layout
        ran = await self.read(
            *("status", "--porcelain=v2", "--branch", "-z", "--no-renames"),
            # What is in submodules is not looked at: their own settings name programs.
            *("--untracked-files=all", "--ignore-submodules=dirty"),
            out_size_max=STATUS_SIZE_MAX,
            ends_when_full=True,
        )
        if ran.status != 0 and not ran.is_cut:
            return _absent(ran)
        return parse_status(ran.out, layout.prefix, is_cut=ran.is_cut)

    async def layout(self) -> Layout | Absent:
        """Where the repository lies; asked of git once, and again when another `.git` is found."""
        if not self._is_folder():
            return Absent(Absence.NO_FOLDER)
        repository = find_repository(self.folder)
        if repository is None:
            return Absent(Absence.NO_REPOSITORY)
        if self._layout is not None and self._layout[0] == repository:
            return self._layout[1]
        layout = await self._ask(repository)
        if isinstance(layout, Layout):
            self._layout = repository, layout
            self._remote = None
        return layout

    async def _ask(self, repository: GitRepository) -> Layout | Absent:
        """What git says of a repository. It finds it by itself here, so it checks the owner."""
        what = ("--show-toplevel", "--absolute-git-dir", "--show-prefix", "--show-object-format")
        ran = await self._rev_parse(repository, what)
        if repository.stray_commondir is not None:
            ran = await self._rev_parse(repository, what)  # it may just have come to be
        if ran.status != 0:
            return _absent(ran)
        lines = os.fsdecode(ran.out).split("\n")[:-1]
        if len(lines) != len(what):
            return Absent(Absence.FAILED, "the name of a folder holds a line break")
        root, git_dir, prefix, digest = lines
        if not repository.leads_to(git_dir):
            return Absent(Absence.FAILED, f"it takes {git_dir} for the one of {repository.place}")
        return Layout(Path(root), repository.git_dir, repository.common_dir, prefix, digest)

    async def _rev_parse(self, repository: GitRepository, what: Iterable[str]) -> Ran:
        # Told where the settings are, git does not heed what they say of the work tree.
        has_stray = repository.stray_commondir is not None
        common = {"GIT_COMMON_DIR": str(repository.common_dir)} if has_stray else {}
        return await self._look((*NOT_BARE, "rev-parse", *what), self.folder, common)

    def path_of(self, change: StatusEntry) -> Path:
        """Where a changed file lies, or lay."""
        assert self._layout is not None, "there is no change without a status"
        return self._layout[1].root / change.path

    def _is_folder(self) -> bool:
        return self.folder.is_dir()

    async def _find_remote(self) -> str | None:
        """The remote people mean; looked up again when the repository's configuration changes."""
        layout = await self.layout()
        if isinstance(layout, Absent):
            return None
        version = _version_of(layout.common_dir / "config")
        if self._remote is None or self._remote[0] != version:
            ran = await self.read("remote", "-v")
            self._remote = version, choose_remote(ran.out.decode("utf-8", "replace"))
        return self._remote[1]

    async def read(
        self,
        *arguments: str,
        folder: Path | None = None,
        data: bytes | None = None,
        out_size_max: int = OUT_SIZE_MAX,
        ends_when_full: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> Ran:
        """Run a git that only looks, speaks English and takes no locks.

        The repository's file system monitor, a program that its configuration names, is not asked,
        and no hook runs. To say whether a file has changed, `git status` may run the filters that
        the configuration of the repository or the person names, as every `git status` does:
        without them all files that are kept converted (large ones, encrypted ones) would count as
        changed. A clone brings no such configuration along.

        Args:
            arguments: the command.
            folder: where it runs, if not in the workspace.
            data: what it reads.
            out_size_max: bytes kept of what it writes.
            ends_when_full: whether to end it when it writes more.
            environment: added to ours.
        """
        layout = await self.layout()
        if isinstance(layout, Absent):
            return _no_repository(layout)
        return await self._look(
            (*NOT_BARE, *arguments),
            folder or self.folder,
            {**_environment(layout), **(environment or {})},
            Bounds(READ_S_MAX, out_size_max, ends_when_full),
            data,
        )

    async def _look(
        self,
        arguments: tuple[str, ...],
        folder: Path,
        environment: Mapping[str, str],
        bounds: Bounds = _LOOK,
        data: bytes | None = None,
    ) -> Ran:
        inherited = _inherited()
        program = helper_programs.find_program("git")
        if program is None:
            return Ran(NOT_STARTED, err=Absence.NO_GIT.value.encode())
        given = {**inherited, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", **environment}
        argv = (program, "-c", "core.fsmonitor=false", *arguments)
        return await _run(argv, folder, given, bounds, data)

    async def change(
        self,
        *arguments: str,
        data: bytes = b"",
        timeout_s: float,
        has_hooks: bool = False,
        index: Path | None = None,
    ) -> Ran:
        """Run a git that changes the repository.

        It gets the language and the locks that the person's own git would have. Where hooks run
        in it, it is not told which repository it is, but finds that by itself, after a look that
        it will: hooks that work on other repositories would be led astray. Any other is told, as
        gits that look are, and need not be asked again.

        Args:
            arguments: the command.
            data: what it reads.
            timeout_s: seconds after which it is ended, with its hooks.
            has_hooks: whether the person's hooks run in it.
            index: another index than that of the repository; not with hooks.
        """
        repository = find_repository(self.folder)
        if repository is None:
            return _no_repository(Absent(Absence.NO_REPOSITORY))
        layout = await (self._ask(repository) if has_hooks else self.layout())
        if isinstance(layout, Absent):
            return _no_repository(layout)
        if (stray := repository.stray_commondir) is not None:
            return Ran(128, err=f"{stray} does not belong there; remove it".encode())
        inherited = _inherited()
        program = helper_programs.find_program("git")
        if program is None:
            return Ran(NOT_STARTED, err=Absence.NO_GIT.value.encode())
        options = (*NOT_BARE, *durable_options(program))
        if not has_hooks:
            options += _UNHOOKED
            inherited |= _environment(layout)
            inherited |= {} if index is None else {"GIT_INDEX_FILE": str(index)}
        bounds = Bounds(timeout_s, OUT_SIZE_MAX)
        return await _run((program, *options, *arguments), self.folder, inherited, bounds, data)

    def restore_index(self, paths: Iterable[str], commit: str = "") -> bool:
        """Make the index hold for these files what HEAD holds, or a commit; whether that worked.

        Not a coroutine on purpose, and out of reach of the keyboard's interrupt: it undoes a step,
        and must not be cut short by the cancellation that made it necessary.
        """
        what = ("reset", "--quiet", *filter(None, [commit]), *PATHS_FROM_INPUT)
        return self._change_now(*what, data=literally(paths))

    def move_head(self, old: str | None, new: str, reason: str) -> bool:
        """Make a commit the newest of the branch, if the one before it still is.

        Not a coroutine on purpose: a cancellation would leave unknown whether it has happened.

        Args:
            old: the newest commit; `None` where there is none.
            new: the commit.
            reason: what the reflog says.
        """
        return self._change_now("update-ref", "-m", reason, "HEAD", new, old or "0" * len(new))

    def _change_now(self, *arguments: str, data: bytes = b"") -> bool:
        if self._layout is None:
            return False
        inherited = {**_inherited(), **_environment(self._layout[1])}
        program = helper_programs.find_program("git")
        if program is None:
            return False
        options = (*NOT_BARE, *durable_options(program), *_UNHOOKED)
        try:
            ran = run_command(
                (program, *options, *arguments),
                inherited,
                Bounds(UNDO_S_MAX),
                folder=self.folder,
                data=data,
            )
        except OSError:
            return False
        return ran.status == 0 and not ran.problem


async def observe(folder: str | Path) -> GitObserved | None:
    """How the repository around a folder stands; `None` where there is none, or no git."""
    seen = await Repository(folder).observe()
    return None if isinstance(seen, Absent) else seen


def literally(paths: Iterable[str]) -> bytes:
    """Path specs that mean these files and no other, whatever their names look like.

    By magic words and not by `--literal-pathspecs`, which hooks would inherit.
    """
    return b"".join(b":(top,literal)" + os.fsencode(path) + b"\0" for path in paths)


def _environment(layout: Layout) -> dict[str, str]:
    return git_environment(layout.git_dir, layout.common_dir, layout.root)


async def _run(
    argv: tuple[str, ...],
    folder: Path,
    environment: Mapping[str, str],
    bounds: Bounds,
    data: bytes | None,
) -> Ran:
    try:
        return await run_bounded(argv, folder, environment, bounds, data=data)
    except OSError as error:
        return Ran(NOT_STARTED, err=str(error).encode())


def _no_repository(absent: Absent) -> Ran:
    if absent.why is Absence.NO_GIT:
        return Ran(NOT_STARTED, err=absent.why.value.encode())
    return Ran(128, err=absent.text.encode())


def _absent(ran: Ran) -> Absent:
    said = ran.err.decode("utf-8", "replace")
    if ran.status == NOT_STARTED and said == Absence.NO_GIT.value:
        return Absent(Absence.NO_GIT)
    if "dubious ownership" in said or "unsafe repository" in said:
        hint = [line.strip() for line in said.splitlines() if "safe.directory" in line]
        return Absent(Absence.NOT_TRUSTED, hint[-1] if hint else "")
    if any(reason in said for reason in _NONE):
        return Absent(Absence.NO_REPOSITORY)
    if ran.was_ended:
        return Absent(Absence.FAILED, f"it took more than {READ_S_MAX:g} s")
    return Absent(Absence.FAILED, said.strip().partition("\n")[0])


def _inherited() -> dict[str, str]:
    given = helper_programs.environment()
    kept = {name: value for name, value in given.items() if name not in _NOT_INHERITED}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": ":"}


def _version_of_index(found: tuple[GitRepository, Layout] | None) -> object:
    return None if found is None else _version_of(found[1].git_dir / "index")


def _version_of(path: Path) -> tuple[tuple[int, int], int, int] | None:
    """What changes when a file is replaced or written; `None` if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino), found.st_mtime_ns, found.st_size
