"""One commit of some files that leaves everything else as it was: index, work tree, HEAD.

It goes through `git commit --only`, so that hooks and signing apply, and what the person has staged
stays staged. New files must be known to the index for that (`git add --intent-to-add`); if the
commit then fails, they are made unknown again. Where a sandbox holds the agent's commands, hooks
run in it, and no git outside runs any (`confined_commit.py`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.process.result import Ran
from treadle.workspace.commit_settings import CommitSettings
from treadle.workspace.confined_commit import Built, build_commit, run_after
from treadle.workspace.files.entries import FileChange, parse_changes
from treadle.workspace.git import PATHS_FROM_INPUT, Absent, Repository, literally
from treadle.workspace.git_durability import files_of_commit, sync_objects, sync_refs
from treadle.workspace.hooks import ConfinedHooks, RunsConfined, find_hooks, summarize_output
from treadle.workspace.ownership import folders_above
from treadle.workspace.status import Status, StatusEntry, storable

COMMITTED_SIZE_MAX: Final = 256 * 1024 * 1024
"""Bytes that are read of what a commit changed."""

FOLDER: Final = "040000"

_DIFFERENCE: Final = ("diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", "--no-abbrev")

NO_IDENTITY: Final = (
    "git does not know whose commit it is; tell it with "
    'git config --global user.name "Your Name" and git config --global user.email you@example.com'
)

_UNFINISHED: Final = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "BISECT_LOG": "a bisection",
}
_HOOKS: Final = ("pre-commit", "prepare-commit-msg", "commit-msg")
_ALL_HOOKS: Final = (
    *_HOOKS,
    *("applypatch-msg", "post-commit", "post-index-change", "post-rewrite", "pre-auto-gc"),
    "reference-transaction",
)


class SafeCommit(Struct, frozen=True):
    """The commit, and what a hook put into it besides the files meant.

    It is durable, but for what `doubt` says. `notes` say what a sandbox put right after hooks.
    """

    head: str
    added_by_hooks: tuple[str, ...] = ()
    doubt: str = ""
    notes: tuple[str, ...] = ()


class Refused(Struct, frozen=True):
    """Why there is no commit; nothing has changed."""

    reason: str


async def find_obstacle(repository: Repository, status: Status, settings: CommitSettings) -> str:
    """Why this is no moment for a commit; empty if it is one."""
    layout = await repository.layout()
    if isinstance(layout, Absent):
        return layout.text
    for name, what in _UNFINISHED.items():
        if (layout.git_dir / name).exists():
            return f"{what} is in progress"
    if any(change.is_unmerged for change in status.changes):
        return "there are unresolved conflicts"
    lock = layout.git_dir / "index.lock"
    if lock.exists():
        return f"another git is at work, or has died and left {lock}"
    return "" if settings.has_identity else NO_IDENTITY


async def commit_only(
    repository: Repository,
    status: Status,
    mine: Sequence[StatusEntry],
    message: str,
    *,
    settings: CommitSettings,
    timeout_s: float,
    confined: RunsConfined | None = None,
) -> SafeCommit | Refused:
    """Commit these changes and no others.

    Args:
        repository: where they are.
        status: how it stood a moment ago; `mine` are of its changes, and nothing is staged for
            them that is not in the work tree.
        mine: what to commit.
        message: the whole commit message.
        settings: what git's settings say of commits now.
        timeout_s: seconds for git, its hooks and the signing program; then they are ended. If
            hooks are confined, each of these has as long.
        confined: runs hooks; without it, git runs them, as the person.
    """
    has_hooks = bool(find_hooks(settings.hooks_folder, _ALL_HOOKS))
    if has_hooks:
        repository.take_status()  # hooks change what they like
    if confined is not None and has_hooks:
        hooks = ConfinedHooks(settings.hooks_folder, confined, timeout_s)
        built = await build_commit(repository, status, mine, message, hooks)
        if isinstance(built, str):
            return Refused(built)
        return await _take_in(repository, status, mine, built, settings, hooks)
    new = [change.path for change in mine if change.is_untracked]
    displaced = _displaced(mine, new)
    undo = [*new, *(change.path for change in displaced if not change.is_staged)]
    paths = [change.path for change in mine if change not in displaced]
    add = ("add", "--intent-to-add", *PATHS_FROM_INPUT)
    commit = ("commit", "--quiet", "--only", "--cleanup=whitespace", *PATHS_FROM_INPUT)
    step, is_done, is_undone = "git add", False, True
    try:
        ran = Ran(0)
        if new:
            names = literally(new)
            ran = await repository.change(*add, data=names, timeout_s=timeout_s)
        if ran.status == 0:
            step = "git commit"
            await _sync_staged(repository, mine)
            ran = await repository.change(
                *(*commit, "-m", message),
                data=literally(paths),
                timeout_s=timeout_s,
                has_hooks=has_hooks,
            )
            is_done = ran.status == 0
    finally:
        if undo and not is_done:
            is_undone = repository.restore_index(undo)
    if is_done and not has_hooks:
        return await _describe_commit(repository, status, mine)
    after = await repository.status()
    if isinstance(after, Absent):
        return Refused(after.text)
    if not is_done and not (ran.was_ended and _is_made(status, after, mine)):
        reason = _explain(settings.hooks_folder, step, ran, timeout_s)
        left = "" if is_undone else "; new files are still marked in the index (git reset)"
        return Refused(reason + left)
    return await _settle(repository, status, after, mine)


async def _describe_commit(
    repository: Repository, before: Status, mine: Sequence[StatusEntry]
) -> SafeCommit:
    """Look at a commit that no hook had a part in: it has what was meant, no more."""
    made = await _find_committed(repository, before.head, "HEAD")
    left = tuple(change for change in before.changes if change not in mine)
    after = replace(before, head=made.head or None, changes=left)
    repository.keep_status(after)
    return SafeCommit(made.head, doubt=await _make_durable(repository, after, made))


async def _take_in(
    repository: Repository,
    status: Status,
    mine: Sequence[StatusEntry],
    built: Built,
    settings: CommitSettings,
    hooks: ConfinedHooks,
) -> SafeCommit | Refused:
    """Make a commit the newest one, and the index agree with it."""
    made = await _find_committed(repository, status.head, built.commit)
    doubt = await _make_durable(repository, status, made)
    # What a hook has left counts as well.
    if why_not := doubt or await find_obstacle(repository, status, settings):
        return Refused(why_not)
    paths = sorted(set(made.paths) - _staged_by_others(status, mine))
    # First the index: a crash behind this leaves the changes staged, and not their reversal.
    repository.restore_index(paths, built.commit)
    if not repository.move_head(status.head, built.commit, f"commit: {built.subject}"):
        repository.restore_index(paths)
        return Refused("another git has committed meanwhile, or is at work")
    notes = (*built.notes, *await run_after(repository, hooks))
    after = await repository.status()
    if isinstance(after, Absent):
        return Refused(after.text)
    return replace(await _settle(repository, status, after, mine), notes=notes)


async def _sync_staged(repository: Repository, mine: Sequence[StatusEntry]) -> None:
    """Let the disk keep what a command of the agent's has staged, before a branch leads there.

    Git does not write contents again that it has, and so does not sync them.
    """
    layout = await repository.layout()
    staged = [one.staged for one in mine if one.staged]
    if staged and not isinstance(layout, Absent):
        with suppress(OSError):  # told, if it lasts, when the commit is looked at
            await asyncio.to_thread(sync_objects, layout.common_dir / "objects", staged)


def _displaced(mine: Sequence[StatusEntry], new: Sequence[str]) -> list[StatusEntry]:
    """Removed files whose place new ones take: `a` by `a/b`, or the reverse.

    Adding the new one removes them. Git does not understand them as path specs.
    """
    above_new = set(folders_above(new))
    return [
        change
        for change in mine
        if "D" in change.letters
        and (change.path in above_new or not set(new).isdisjoint(folders_above([change.path])))
    ]


def _is_made(before: Status, after: Status, mine: Sequence[StatusEntry]) -> bool:
    """Whether the commit stands although git was ended: a hook that runs after it hung."""
    left = {change.path for change in after.changes}
    return before.head != after.head and left.isdisjoint(change.path for change in mine)


async def _settle(
    repository: Repository, before: Status, after: Status, mine: Sequence[StatusEntry]
) -> SafeCommit:
    """Look at the commit. What hooks changed in it must not appear as staged the other way round.

    Hooks see an index of git's own during such a commit: what they add goes into the commit, but
    not into the person's index, where it would stand as a change back.
    """
    head = after.head or ""
    made = await _find_committed(repository, before.head, head)
    mine_paths = {change.path for change in mine}
    stale = {change.path for change in after.changes if change.is_staged}
    stale &= set(made.paths) - _staged_by_others(before, mine)
    if stale:
        repository.restore_index(sorted(stale))
    added = tuple(storable(path) for path in made.paths if path not in mine_paths)
    return SafeCommit(head, added, await _make_durable(repository, after, made))


def _staged_by_others(before: Status, mine: Sequence[StatusEntry]) -> set[str]:
    staged = {change.path for change in before.changes if change.is_staged}
    return staged - {change.path for change in mine}


class _Committed(Struct, frozen=True):
    """What commits have that was not there before: whole object ids, and the files that differ.

    `head` is the newest of them; `problem` is what git said if it could not tell.
    """

    head: str
    oids: tuple[str, ...]
    paths: tuple[str, ...]
    problem: str = ""


async def _find_committed(repository: Repository, old: str | None, head: str) -> _Committed:
    """What is new in a commit since an older one, which may be several commits before it.

    Args:
        repository: where they are.
        old: the older one; `None` if there was none.
        head: the commit, or `HEAD`.
    """
    ran = await repository.read(
        *_DIFFERENCE, "--root", "-m", "--format=%H %T %P", head, out_size_max=COMMITTED_SIZE_MAX
    )
    about, _, rest = ran.out.partition(b"\0")
    words = about.decode("ascii", "replace").split()
    if ran.status != 0 or words[2:] != (
        [old] if old else []
    ):  # hooks may have made commits of their own
        return await _find_all_committed(repository, old, head)
    return _list_committed(words[0], words[:2], parse_changes(rest.lstrip(b"\n")))


async def _find_all_committed(repository: Repository, old: str | None, head: str) -> _Committed:
    trees = ("--root", "--no-commit-id", head) if old is None else (old, head)
    differ = await repository.read(*_DIFFERENCE, *trees, out_size_max=COMMITTED_SIZE_MAX)
    known = () if old is None else (f"^{old}",)
    ran = await repository.read("rev-list", "--format=%T", head, *known, "--")
    # Of each commit "commit", its id, and the tree that no entry names.
    found = [word for word in ran.out.decode().split() if word != "commit"]
    problem = summarize_output(ran) if ran.status != 0 else ""
    return _list_committed(next(iter(found), head), found, parse_changes(differ.out), problem)


def _list_committed(
    head: str, oids: Sequence[str], changes: Sequence[FileChange], problem: str = ""
) -> _Committed:
    new = (one.new.oid for one in changes if one.new is not None)
    paths = tuple(os.fsdecode(one.path) for one in changes if not _is_folder(one))
    return _Committed(head, (*oids, *new), paths, problem)


def _is_folder(change: FileChange) -> bool:
    return FOLDER in (change.old and change.old.mode, change.new and change.new.mode)


async def _make_durable(repository: Repository, after: Status, made: _Committed) -> str:
    """Let the disk keep the commit before anything is said of it; why it may not, if so.

    Objects that git found, because a command of the agent's had made them, were never synced. So
    all that the commit has and the one before it has not is synced, whoever wrote it.
    """
    layout = await repository.layout()
    if isinstance(layout, Absent):
        return layout.text
    if made.problem:
        return made.problem
    files = files_of_commit(layout.git_dir, layout.common_dir, after.branch)
    try:
        await asyncio.to_thread(sync_objects, layout.common_dir / "objects", made.oids)
        await asyncio.to_thread(sync_refs, files)
    except OSError as error:
        return f"{error.filename or layout.git_dir}: {error.strerror}"
    return ""


def _explain(hooks_folder: Path, step: str, ran: Ran, timeout_s: float) -> str:
    if ran.was_ended:
        return f"{step} took more than {timeout_s:g} s (does a hook or the signing program wait?)"
    is_of_hook = step == "git commit" and ran.status == 1
    hooks = list(find_hooks(hooks_folder, _HOOKS)) if is_of_hook else []
    if len(hooks) == 1:
        step = f"the {hooks[0]} hook"
    elif hooks:
        step = f"a hook ({' or '.join(hooks)})"
    return f"{step} failed: {summarize_output(ran)}"
