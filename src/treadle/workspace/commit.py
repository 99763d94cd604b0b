"""Auto-commit: after each round of tools, a commit of what the agent changed, and nothing else."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.tool_families import ToolKind, names_of
from treadle.core.tools import CompletedToolInfo
from treadle.thread.facts import CHANGED_COUNT_MAX, GitObserved
from treadle.workspace.broken_files import find_broken_files
from treadle.workspace.commit_settings import read_commit_settings
from treadle.workspace.git import Absence, Absent, Repository
from treadle.workspace.hooks import RunsConfined, describe_changed_hooks, look_at_hooks
from treadle.workspace.message import COMPOSE_S_MAX, Compose, count_files, make_message
from treadle.workspace.others_changes import OthersChanges
from treadle.workspace.ownership import Choice, choose, claims
from treadle.workspace.safe_commit import Refused, commit_only, find_obstacle
from treadle.workspace.status import Status, StatusEntry, storable

HOOK_S_MAX: Final = 60.0
"""Seconds that git, with the person's hooks and signing program, may take for a commit."""

LOOK_SIZE_MAX: Final = 10 * 1024 * 1024
"""Bytes of a file whose contents are looked at. A larger new one is not committed unasked: history
would keep it for ever."""

HASH_LENGTH: Final = 7

NAME_COUNT_MAX: Final = 3
"""File names told in a note, for each reason."""

UNNAMED_TOOLS: Final = names_of(ToolKind.RUN, ToolKind.DELEGATE)
"""The built-in tools that change files without naming them."""


class HookResult(Struct, frozen=True):
    """What the hook did.

    `note` is for people, one or two lines; empty when there is nothing to say. `commit` is the
    full hash of the commit it made. `observed` is how it left the repository, if it looked.
    """

    action_taken: bool = False
    note: str = ""
    commit: str | None = None
    observed: GitObserved | None = None


class Redacts(Protocol):
    """Who knows the secrets."""

    def redact(self, text: str) -> str:
        """The text with every known secret replaced."""
        ...


class _ContentCheck(Struct, frozen=True):
    """A file's contents: a digest, and why they should not be committed, if they should not."""

    digest: str
    reason: str = ""


class _Left(Struct, frozen=True):
    """A change of the agent's that could not be committed, as it was left."""

    record: bytes
    digest: str


class CommitLimits(Struct, frozen=True):
    """How long a commit may take.

    Args:
        commit_s: seconds for the commit itself, with hooks and signing.
        compose_s: seconds to wait for its message.
    """

    commit_s: float = HOOK_S_MAX
    compose_s: float = COMPOSE_S_MAX


DEFAULT_LIMITS: Final = CommitLimits()


class GitWorkspace:
    """The folder an agent works in, seen through git.

    Args:
        folder: the folder; may be a part of a repository, or in none; or the repository around it,
            if others share it.
        auto_commit: whether `after_tools` commits.
        compose: asks somebody for a commit message; without it messages are plain.
        redactor: keeps known secrets out of diffs and out of commits.
        hides: whether a path is hidden from tools: what changed there was not the agent.
        limits: how long it waits for others.
        confined: runs the hooks of a commit; without it, git does, as the person.

    One object serves one thread in one process. It remembers what the agent changed and could not
    commit; a new object does not, and takes such files for the person's.
    """

    def __init__(
        self,
        folder: str | Path | Repository,
        *,
        auto_commit: bool = True,
        compose: Compose | None = None,
        redactor: Redacts | None = None,
        hides: Callable[[Path], bool] | None = None,
        limits: CommitLimits = DEFAULT_LIMITS,
        confined: RunsConfined | None = None,
    ) -> None:
        self._repository = folder if isinstance(folder, Repository) else Repository(folder)
        self._auto_commit = auto_commit
        self._compose = compose
        self._redact: Callable[[str], str] = redactor.redact if redactor is not None else str
        self._hides = hides
        self._limits = limits
        self._confined = confined
        self._left: dict[str, _Left] = {}
        self._others = OthersChanges()
        self._absent: Absent | None = None
        self._hooks: tuple[str, str] | None = None

    @property
    def repository(self) -> Repository:
        """The repository around the folder, to be shared."""
        return self._repository

    @property
    def absent(self) -> Absent | None:
        """Why the last `observe` saw nothing; `None` if it saw a repository."""
        return self._absent

    async def observe(self) -> GitObserved | None:
        """How the repository stands now; `None` where there is none (see `absent`)."""
        status = await self._repository.status()
        if isinstance(status, Absent):
            self._absent = status
            self._left = {}
            self._others.update({})
            return None
        return await self._describe(status)

    async def _describe(self, status: Status) -> GitObserved:
        self._absent = None
        self._repository.keep_status(status)
        self._others.update(status.inside)
        if self._hooks is None and self._auto_commit and self._confined is None:
            self._hooks = await look_at_hooks(self._repository)
        if self._left:
            self._left = await asyncio.to_thread(self._still_left, status)
        return await self._repository.describe(status)

    def list_others_changes(self) -> tuple[StatusEntry, ...]:
        """What was not committed when it was last looked at, and is not known to be the agent's."""
        return self._others.list_changes(self._left)

    async def after_tools(
        self,
        completed: Sequence[CompletedToolInfo],
        before: GitObserved | None,
        *,
        is_whole: bool,
        trailer: str,
    ) -> HookResult:
        """Commit what this round of tools changed, if that can be told and nothing is in the way.

        Args:
            completed: the calls of the round.
            before: what `observe` said before the round.
            is_whole: whether this process saw the round from its beginning.
            trailer: the last line of the message.
        """
        self._repository.take_status()
        result = await self._commit_round(completed, before, is_whole=is_whole, trailer=trailer)
        status = self._repository.take_status()
        return result if status is None else replace(result, observed=await self._describe(status))

    async def _commit_round(
        self,
        completed: Sequence[CompletedToolInfo],
        before: GitObserved | None,
        *,
        is_whole: bool,
        trailer: str,
    ) -> HookResult:
        names, has_unnamed = claims(completed, UNNAMED_TOOLS)
        if not self._auto_commit and before is not None and (names or is_whole):
            named = await asyncio.to_thread(_normalise, self._repository.folder, names)
            self._others.expect(before.changed, None if has_unnamed and is_whole else named)
        if not self._auto_commit or not (names or has_unnamed):
            return HookResult()
        status = await self._repository.status()
        if isinstance(status, Absent):
            is_news = status.why in (Absence.NOT_TRUSTED, Absence.FAILED)
            return HookResult(note=_not_committed(status.text) if is_news else "")
        self._repository.keep_status(status)
        if not status.inside:
            return HookResult()
        if before is None or before.changed_is_cut or _is_too_much(status):
            return HookResult(note=_not_committed(_TOO_MUCH if before else _NOT_SEEN))
        named = await asyncio.to_thread(_normalise, self._repository.folder, names)
        yours = frozenset(before.changed) - self._left.keys()
        choice = choose(
            status.inside,
            yours,
            named,
            takes_all=has_unnamed,
            is_whole=is_whole,
            kept=self._left.keys(),
        )
        return await self._try(status, choice, named, trailer)

    async def _try(
        self, status: Status, choice: Choice, named: Collection[str], trailer: str
    ) -> HookResult:
        """Commit what was chosen; remember what could not be committed."""
        looks = await asyncio.to_thread(self._look_at_all, choice.mine)
        mine = [change for change in choice.mine if not looks[change.name].reason]
        broken = await find_broken_files(self._repository, mine)
        mine = [change for change in mine if change.name not in broken]
        reasons = {name: look.reason for name, look in looks.items()}
        withheld = {**choice.withheld, **reasons, **broken}
        told = {
            name: reason
            for name, reason in withheld.items()
            if reason and (name in named or name not in self._left)
        }
        self._remember(choice.mine, looks)  # a cancellation may come at any time
        result, settled = HookResult(), set[str]()
        if mine:
            result, settled = await self._commit(status, mine, looks, trailer)
        left = [change for change in choice.mine if change.name not in settled]
        self._remember(left, await asyncio.to_thread(self._look_at_all, left))
        note = "\n".join(filter(None, (result.note, _list_withheld(told))))
        return HookResult(result.action_taken, note, result.commit)

    async def _commit(
        self,
        status: Status,
        mine: list[StatusEntry],
        looks: Mapping[str, _ContentCheck],
        trailer: str,
    ) -> tuple[HookResult, set[str]]:
        """One commit, or the reason for none; and the names that are the agent's no longer."""
        repository = self._repository
        settings = await read_commit_settings(repository)
        obstacle = await find_obstacle(repository, status, settings)
        obstacle = obstacle or await describe_changed_hooks(repository, self._hooks)
        if obstacle:
            return HookResult(note=_not_committed(obstacle)), set()
        message = await make_message(
            repository, status, mine, self._compose, self._redact, self._limits.compose_s
        )
        # Composing takes seconds. What somebody changed meanwhile is not the agent's any more.
        now = await asyncio.to_thread(self._look_at_all, mine)
        theirs = {name for name, look in now.items() if look.digest != looks[name].digest}
        mine = [change for change in mine if change.name not in theirs]
        if not mine:
            return HookResult(note=_not_committed("the files were changed meanwhile")), theirs
        whole = f"{message}\n\n{trailer}" if trailer else message
        made = await commit_only(
            repository,
            status,
            mine,
            whole,
            settings=settings,
            timeout_s=self._limits.commit_s,
            confined=self._confined,
        )
        if isinstance(made, Refused):
            return HookResult(note=_not_committed(made.reason)), theirs
        subject = message.partition("\n")[0]
        note = f"committed {made.head[:HASH_LENGTH]} {subject} ({count_files(len(mine))})"
        if status.branch is None:
            note += "; HEAD is detached: make a branch to keep it"
        if made.added_by_hooks:
            note += f"; a hook also committed {_some(made.added_by_hooks)}"
        note += "".join(f"; after its hooks {told}" for told in made.notes)
        if made.doubt:
            note += f"; a power cut may undo it: {made.doubt}"
        return HookResult(True, note, made.head), theirs | {change.name for change in mine}

    def _remember(self, left: Iterable[StatusEntry], looks: Mapping[str, _ContentCheck]) -> None:
        self._left = {c.name: _Left(c.record, looks[c.name].digest) for c in left}

    def _still_left(self, status: Status) -> dict[str, _Left]:
        """What the agent left uncommitted and nobody has touched since."""
        changes = status.inside
        return {
            name: left
            for name, left in self._left.items()
            if name in changes
            and changes[name].record == left.record
            and self._look_at(changes[name]).digest == left.digest
        }

    def _look_at_all(self, changes: Iterable[StatusEntry]) -> dict[str, _ContentCheck]:
        return {change.name: self._look_at(change) for change in changes}

    def _look_at(self, change: StatusEntry) -> _ContentCheck:
        path = self._repository.path_of(change)
        if self._hides is not None and self._hides(path):
            return _ContentCheck("hidden", _HIDDEN)
        try:
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode):
                return _ContentCheck("a folder took its place")
            if change.letters[0] == "D":
                return _ContentCheck("still there", _UNTRACKED)
            if found.st_size > LOOK_SIZE_MAX:
                digest = f"{found.st_mode} {found.st_ino} {found.st_mtime_ns} {found.st_size}"
                return _ContentCheck(digest, _LARGE if change.is_untracked else "")
            is_link = stat.S_ISLNK(found.st_mode)
            data = os.fsencode(path.readlink()) if is_link else path.read_bytes()
        except OSError as error:
            return _ContentCheck(type(error).__name__)  # usually: it was removed
        text = data.decode("utf-8", "replace")
        reason = _TELLING if self._redact(text) != text else ""
        return _ContentCheck(f"{found.st_mode} {hashlib.sha256(data).hexdigest()}", reason)


_LARGE: Final = f"(new, and larger than {LOOK_SIZE_MAX >> 20} MiB)"
_HIDDEN: Final = "(hidden from tools)"
_UNTRACKED: Final = "(taken out of the index, but still there)"
_TELLING: Final = "(a secret in it, or what looks like one; commit it yourself if it is none)"
_NOT_SEEN: Final = "it is not known how the repository stood before"
_TOO_MUCH: Final = (
    f"more than {CHANGED_COUNT_MAX} changed files: yours and the agent's cannot be told apart"
)


def _is_too_much(status: Status) -> bool:
    return status.is_cut or len(status.inside) > CHANGED_COUNT_MAX


def _normalise(folder: Path, names: Iterable[str]) -> frozenset[str]:
    """The names as git has them: links in folders followed, relative to the workspace."""
    found = set[str]()
    for name in names:
        with suppress(OSError, ValueError):  # a name that cannot exist, or lies outside
            path = folder / name
            found.add(storable(str((path.parent.resolve() / path.name).relative_to(folder))))
    return frozenset(found)


def _not_committed(reason: str) -> str:
    return f"not committed: {reason}"


def _list_withheld(withheld: Mapping[str, str]) -> str:
    names_of: dict[str, list[str]] = {}
    for name, reason in withheld.items():
        names_of.setdefault(reason, []).append(name)
    parts = [f"{_some(names)} {reason}" for reason, names in names_of.items()]
    return _not_committed("; ".join(parts)) if parts else ""


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAME_COUNT_MAX])
    more = len(names) - NAME_COUNT_MAX
    return f"{shown} and {more} more" if more > 0 else shown
