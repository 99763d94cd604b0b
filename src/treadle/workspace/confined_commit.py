"""A commit whose hooks run in the sandbox that holds the agent's commands.

A hook of the person's calls what lies in the workspace (`make`, `npx`, a script), and a command may
have written that a moment ago. So a hook may do no more than a command. It gets what git would give
it, an index of the commit and a file with its message, in a folder for it. What it leaves there
is data, which a git that runs no hook makes a commit of. No branch is moved here.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle import helper_programs
from treadle.process.result import Ran
from treadle.scratch_folders import scratch_folder
from treadle.workspace.git import Absent, Layout, Repository
from treadle.workspace.git_durability import durable_options
from treadle.workspace.hooks import ConfinedHooks, find_hooks, summarize_output
from treadle.workspace.status import Status, StatusEntry

INDEX_SIZE_MAX: Final = 1024 * 1024 * 1024
MESSAGE_SIZE_MAX: Final = 1024 * 1024
"""Bytes that are taken of what hooks leave."""

_INDEX: Final = "index"
_MESSAGE: Final = "COMMIT_EDITMSG"
_BEFORE: Final[dict[str, tuple[str, ...]]] = {
    "pre-commit": (),
    "prepare-commit-msg": (_MESSAGE, "message"),
    "commit-msg": (_MESSAGE,),
}
"""The hooks before a commit, in their order, and their arguments."""
_AFTER: Final = "post-commit"
# Its path may have a `=`, which `env` would take for a variable.
_START: Final = ("/bin/sh", "-c", 'exec "$0" "$@"')
_IS_HELD: Final = re.compile(
    r"read-only|permission denied|not permitted|not found|no such file|unable to|resolve|network",
    re.IGNORECASE,
)
"""What programs say that miss something; also without any sandbox."""
_HINT: Final = (
    " (hooks run in the sandbox of the commands: sandbox_readable, sandbox_writable and network "
    "say what they reach; or turn the auto-commit off, --no-commit, and commit yourself)"
)


class Built(Struct, frozen=True):
    """A commit that no branch has, the first line of its message, and what a sandbox put right."""

    commit: str
    subject: str
    notes: tuple[str, ...]


class _NotBuiltError(Exception):
    """Why there is no commit."""


async def build_commit(
    repository: Repository,
    status: Status,
    mine: Sequence[StatusEntry],
    message: str,
    hooks: ConfinedHooks,
) -> Built | str:
    """Make a commit of these changes and of what hooks add; or the reason why there is none.

    Neither the repository's index nor its branches are touched.

    Args:
        repository: where they are.
        status: how it stood a moment ago.
        mine: what to commit.
        message: the whole message, which hooks may change.
        hooks: those that there are; each git has as long as each of them.
    """
    layout = await repository.layout()
    if isinstance(layout, Absent):
        return layout.text
    with scratch_folder() as own, scratch_folder() as shared:
        folders = _without_links(own), _without_links(shared)
        building = _Building(repository, layout, status.head, hooks, folders)
        try:
            return await building.build(mine, message)
        except _NotBuiltError as error:
            return str(error)


async def run_after(repository: Repository, hooks: ConfinedHooks) -> tuple[str, ...]:
    """Run the hook after a commit; what was put right then. How it ends counts for nobody."""
    layout = await repository.layout()
    found = find_hooks(hooks.folder, [_AFTER])
    if isinstance(layout, Absent) or not found:
        return ()
    with scratch_folder() as scratch:
        argv = ("/usr/bin/env", *_variables(), *_START, str(found[_AFTER]))
        shared = _without_links(scratch)
        return (await hooks.run(argv, layout.root, shared, hooks.timeout_s))[1]


class _Building(Struct, frozen=True):
    """One commit in the making. Hooks see the second of the folders only."""

    repository: Repository
    layout: Layout
    head: str | None
    hooks: ConfinedHooks
    folders: tuple[Path, Path]

    async def build(self, mine: Sequence[StatusEntry], message: str) -> Built:
        await self._stage(mine)
        message, notes = await self._run_hooks(message)
        tree = await self._git("write-tree")
        if self.head is not None and tree == await self._git("rev-parse", f"{self.head}^{{tree}}"):
            raise _NotBuiltError("its hooks left no change to commit")
        text = await self._git("stripspace", data=message.encode(errors="replace"))
        if not text:
            raise _NotBuiltError("its hooks left no message")
        parents = () if self.head is None else ("-p", self.head)
        is_signed = await self._setting("commit.gpgsign") == "true"
        sign = ("-S",) if is_signed else ()
        commit = await self._git(
            "commit-tree", *sign, *parents, tree, data=f"{text}\n".encode(), step="commit"
        )
        return Built(commit, text.partition("\n")[0], notes)

    async def _stage(self, mine: Sequence[StatusEntry]) -> None:
        """Make the index of the commit: what `HEAD` has, and these changes."""
        index, real = self.folders[0] / _INDEX, self.layout.git_dir / _INDEX
        if real.is_file():
            # For what it knows of the files: otherwise git would read them all.
            shutil.copyfile(real, index)
        await self._git("read-tree", *(("--empty",) if self.head is None else ("--reset", "HEAD")))
        paths = b"".join(os.fsencode(change.path) + b"\0" for change in mine)
        options = ("--add", "--remove", "--replace", "-z", "--stdin")
        await self._git("-C", str(self.layout.root), "update-index", *options, data=paths)

    async def _run_hooks(self, message: str) -> tuple[str, tuple[str, ...]]:
        """Let hooks change index and message; the message, and what was put right."""
        hooks = find_hooks(self.hooks.folder, _BEFORE)
        own, shared = self.folders
        if not hooks:
            return message, ()
        shutil.copyfile(own / _INDEX, shared / _INDEX)
        (shared / _MESSAGE).write_text(f"{message}\n", encoding="utf-8", errors="replace")
        variables = (f"GIT_INDEX_FILE={shared / _INDEX}", *_variables())
        notes = list[str]()
        for name, path in hooks.items():
            given = (str(shared / one) if one == _MESSAGE else one for one in _BEFORE[name])
            argv = ("/usr/bin/env", *variables, *_START, str(path), *given)
            ran, told = await self.hooks.run(argv, self.layout.root, shared, self.hooks.timeout_s)
            notes += told
            if ran.was_ended or ran.status != 0:
                raise _NotBuiltError("; ".join((self._why_failed(f"the {name} hook", ran), *told)))
        (own / _INDEX).write_bytes(_read(shared / _INDEX, INDEX_SIZE_MAX))
        text = _read(shared / _MESSAGE, MESSAGE_SIZE_MAX).decode("utf-8", "replace")
        return text, tuple(dict.fromkeys(notes))

    async def _setting(self, name: str) -> str:
        ran = await self.repository.read("config", "--bool", "--get", name)
        return ran.out.decode().strip()

    async def _git(self, *arguments: str, data: bytes = b"", step: str = "") -> str:
        """What a git says that knows the index of the commit, and runs no hook."""
        ran = await self.repository.change(
            *arguments, data=data, timeout_s=self.hooks.timeout_s, index=self.folders[0] / _INDEX
        )
        if ran.was_ended or ran.status != 0:
            name = step or next(one for one in arguments if one[0] not in "-/")
            raise _NotBuiltError(self._why_failed(f"git {name}", ran))
        return ran.out.decode("utf-8", "replace").rstrip("\n")

    def _why_failed(self, what: str, ran: Ran) -> str:
        if ran.was_ended:
            return f"{what} took more than {self.hooks.timeout_s:g} s"
        text = (ran.err or ran.out).decode("utf-8", "replace")
        hint = _HINT if what.startswith("the ") and _IS_HELD.search(text) else ""
        return f"{what} failed: {summarize_output(ran)}{hint}"


def _without_links(folder: str) -> Path:
    return Path(folder).resolve()


def _variables() -> tuple[str, ...]:
    """What git gives to hooks, and what makes their own gits write durably."""
    options = durable_options(helper_programs.find_program("git") or "git")
    settings = " ".join(f"'{one}'" for one in options[1::2])
    return "GIT_EDITOR=:", f"GIT_CONFIG_PARAMETERS={settings}"


def _read(path: Path, size_max: int) -> bytes:
    """A file that a hook has left, if it is one: no link, and no pipe that one would wait for."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if stat.S_ISREG(found.st_mode) and found.st_size <= size_max:
                return file.read(size_max)
    except OSError as error:
        raise _NotBuiltError(f"what its hooks left of {path.name}: {error.strerror}") from error
    raise _NotBuiltError(f"what its hooks left of {path.name} is no file, or too large")
