"""A clone for each task of a fleet: from a mirror that stays, with a branch that travels.

After each round of tools what was changed is committed, and the branch pushed to where the
repository is from. So whoever goes on with the task on another machine has the same files, and in
the end the work is there for people. The credentials are those of the worker's own git; the
sandbox of commands has none.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from treadle import helper_programs
from treadle.core.tools import CompletedToolInfo
from treadle.errors import UsageError
from treadle.process.program import run_bounded
from treadle.process.result import Bounds, Ran
from treadle.runtime.ports import PostToolsHookResult
from treadle.sandbox.box import Sandbox
from treadle.sandbox.policy import Network, Policy
from treadle.thread.facts import GitObserved
from treadle.workspace.commit import GitWorkspace, HookResult
from treadle.workspace.git import Repository
from treadle.workspace.hooks import summarize_output

BRANCH_FOLDER: Final = "treadle/"
"""A task's branch is this and the id of its thread."""
FETCH_S_MAX: Final = 900.0
"""Seconds that a clone, a fetch or a push may take."""
_OUTPUT_MAX: Final = 64 * 1024
_OTHER_REPOSITORY: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR")


class Checkout(Struct, frozen=True):
    """The clone of a task, for whoever works on it.

    `folder` is where it works, `url` where its repository is from, `branch` what it works on,
    `commit` where that began here, as a full hash.
    """

    folder: Path
    url: str
    branch: str
    commit: str

    def make_sandbox(self, *, has_network: bool) -> Sandbox:
        """What holds its commands; nobody is there to be asked for more."""
        network = Network.ON if has_network else Network.OFF
        return Sandbox(Policy(network=network, may_ask=False), self.folder)

    async def has_commit(self, commit: str) -> bool:
        """Whether the branch had this commit, or came from it, when it was cloned."""
        asked = ("merge-base", "--is-ancestor", commit, self.commit)
        return (await _try_git(self.folder, *asked)).status == 0

    async def find_version(self, thread_id: str) -> int:
        """Up to which version of a thread the branch's commits say that they have its changes."""
        said = f"Treadle-Thread: {thread_id}@"
        asked = ("log", "-n", "1", "--fixed-strings", f"--grep={said}", "--format=%B", self.commit)
        message = (await _try_git(self.folder, *asked)).out.decode(errors="replace")
        _, found, rest = message.rpartition(said)
        version = rest.split(maxsplit=1)[0] if found and rest.strip() else ""
        return int(version) if version.isdecimal() else 0


class PushedWorkspace:
    """A folder whose commits are pushed to the branch of its task.

    Args:
        checkout: the clone.
        workspace: commits what an agent changes.
    """

    def __init__(self, checkout: Checkout, workspace: GitWorkspace) -> None:
        self._checkout, self._workspace = checkout, workspace

    async def observe(self) -> GitObserved | None:
        """See `Workspace.observe`."""
        return await self._workspace.observe()

    async def after_tools(
        self,
        completed: Sequence[CompletedToolInfo],
        before: GitObserved | None,
        *,
        is_whole: bool,
        trailer: str,
    ) -> PostToolsHookResult:
        """See `Workspace.after_tools`. The branch is pushed before the commit is recorded."""
        result = await self._workspace.after_tools(
            completed, before, is_whole=is_whole, trailer=trailer
        )
        pushed = await self._workspace.repository.change(
            *("push", "--no-verify", self._checkout.url),
            f"HEAD:refs/heads/{self._checkout.branch}",
            timeout_s=FETCH_S_MAX,
        )
        if pushed.status == 0:
            return result
        note = f"the branch was not pushed: {summarize_output(pushed)}"
        told = f"{result.note}\n{note}" if result.note else note
        return HookResult(result.action_taken, told, result.commit, result.observed)


class Repositories:
    """Mirrors and clones on this machine.

    Args:
        folder: where they are; what is in it may be removed while no worker runs.
        has_network: whether commands reach the network.
    """

    def __init__(self, folder: str | os.PathLike[str], *, has_network: bool = False) -> None:
        self._folder = Path(folder).resolve()
        self.has_network = has_network

    @asynccontextmanager
    async def open(self, thread_id: str, url: str, ref: str) -> AsyncIterator[Checkout]:
        """A clone for a task, on its branch: as it was pushed last, else from `ref`.

        It is removed at the end: what is to last was pushed. A killed process leaves it.

        Raises:
            UsageError: there is no such repository or ref, or git refuses.
        """
        place = self._folder / "work" / f"{thread_id}.{secrets.token_hex(4)}"
        try:
            yield await self._clone(place, BRANCH_FOLDER + thread_id, url, ref)
        finally:
            await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)

    async def _clone(self, folder: Path, branch: str, url: str, ref: str) -> Checkout:
        for text in (url, ref):
            if text.startswith("-") or not text.strip() or "\0" in text:
                raise UsageError(f"{text!r} names no repository, and no place in one")
        folder.parent.mkdir(parents=True, exist_ok=True)
        mirror = self._folder / "mirrors" / f"{sha256(url.encode()).hexdigest()[:32]}.git"
        async with _locked(mirror.with_suffix(".lock")):
            if mirror.exists():
                every = "+refs/*:refs/*"
                await self._git(mirror, "fetch", "--quiet", "--prune", url, every)
            else:
                draft = mirror.with_suffix(".new")
                await asyncio.to_thread(shutil.rmtree, draft, ignore_errors=True)
                await self._git(
                    mirror.parent, "clone", "--quiet", "--mirror", "--", url, str(draft)
                )
                draft.rename(mirror)
            await self._git(
                mirror.parent, "clone", "--quiet", "--no-checkout", "--", str(mirror), str(folder)
            )
        await self._git(folder, "remote", "set-url", "origin", url)
        for start in (f"refs/remotes/origin/{branch}", f"refs/remotes/origin/{ref}", ref):
            found = await _try_git(folder, "rev-parse", "--verify", f"{start}^{{commit}}")
            if found.status == 0:
                commit = found.out.decode().strip()
                await self._git(folder, "checkout", "--quiet", "-B", branch, commit)
                return Checkout(folder, url, branch, commit)
        raise UsageError(f"the repository {url} has no {ref!r}", hint="a branch, a tag, a commit")

    async def _git(self, folder: Path, *arguments: str) -> None:
        ran = await _try_git(folder, *arguments)
        if ran.status != 0:
            raise UsageError(
                f"git {arguments[0]} has failed: {summarize_output(ran)}",
                hint="try it by yourself on this machine; where it asks for a password, it cannot",
            )


async def _try_git(folder: Path, *arguments: str) -> Ran:
    program = helper_programs.find_program("git")
    if program is None:
        raise UsageError("a task in a repository needs git, which is not installed")
    kept = {name: value for name, value in os.environ.items() if name not in _OTHER_REPOSITORY}
    more = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"}
    return await run_bounded(
        [program, *arguments],
        folder,
        helper_programs.environment({**kept, **more}),
        Bounds(FETCH_S_MAX, _OUTPUT_MAX),
    )


@asynccontextmanager
async def _locked(path: Path) -> AsyncIterator[None]:
    """One process at a time writes a mirror."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        await asyncio.to_thread(fcntl.flock, handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def make_workspace(checkout: Checkout, redactor: Any) -> PushedWorkspace:
    """The folder of a clone, for a driver."""
    return PushedWorkspace(checkout, GitWorkspace(Repository(checkout.folder), redactor=redactor))
