"""Commits, on a person's word, what the agent has changed in a thread and is not committed."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from treadle.app.files.file_history import list_saved_states, list_steps, open_states, select_states
from treadle.app.sessions.confined_hooks import make_hook_runner
from treadle.app.sessions.setup import Setup
from treadle.store.local_store import LocalStore
from treadle.workspace.commit import HOOK_S_MAX
from treadle.workspace.commit_settings import read_commit_settings
from treadle.workspace.files.entries import touched
from treadle.workspace.git import Absent, Repository
from treadle.workspace.message import plain_message
from treadle.workspace.safe_commit import Refused, commit_only, find_obstacle
from treadle.workspace.status import Status, StatusEntry


class AgentCommitPlan(Struct, frozen=True):
    """What would be committed: these files, whole, with this message."""

    names: tuple[str, ...]
    message: str
    repository: Repository
    status: Status
    changes: tuple[StatusEntry, ...]


class AgentCommit(Struct, frozen=True):
    """What was committed: the first characters of the commit, and what a person should know."""

    commit: str
    notes: tuple[str, ...] = ()
    doubt: str = ""


class NoCommit(Struct, frozen=True):
    """Why nothing is committed, in words; `is_done` if nothing is left to commit."""

    why: str
    is_done: bool = False


async def plan_agent_commit(
    store: LocalStore, thread_id: str, folder: str, message: str
) -> AgentCommitPlan | NoCommit:
    """What a commit of the agent's changes would hold. Nothing is changed.

    Files that the person had changed before the agent touched them hold both: they are committed
    whole, so a person should see the names first.

    Args:
        store: where the thread is.
        thread_id: whose changes are committed.
        folder: the workspace.
        message: of the commit; empty for one that names the files.

    Raises:
        UsageError: it is not known what the agent changed.
    """
    repository = Repository(folder)
    status = await repository.status()
    if isinstance(status, Absent):
        return NoCommit(status.text)
    names = await _list_agent_changes(store, thread_id)
    mine = tuple(change for name, change in sorted(status.inside.items()) if name in names)
    if not mine:
        return NoCommit("all that the agent has changed is committed", is_done=True)
    settings = await read_commit_settings(repository)
    if obstacle := await find_obstacle(repository, status, settings):
        return NoCommit(f"not committed: {obstacle}")
    text = message or plain_message(mine)
    return AgentCommitPlan(tuple(change.name for change in mine), text, repository, status, mine)


async def commit_agent_changes(
    plan: AgentCommitPlan, setup: Setup, folder: str
) -> AgentCommit | NoCommit:
    """Commit what was planned; hooks run in the sandbox of the setup, and may refuse."""
    confined = make_hook_runner(setup.make_sandbox(folder))
    made = await commit_only(
        plan.repository,
        plan.status,
        plan.changes,
        plan.message,
        settings=await read_commit_settings(plan.repository),
        timeout_s=HOOK_S_MAX,
        confined=confined,
    )
    if isinstance(made, Refused):
        return NoCommit(f"not committed: {made.reason}")
    return AgentCommit(made.head[:7], tuple(made.notes), made.doubt)


async def _list_agent_changes(store: LocalStore, thread_id: str) -> set[str]:
    """The files that the agent has changed in the thread, relative to the workspace."""
    fold = (await asyncio.to_thread(store.load, thread_id)).fold
    states = await asyncio.to_thread(list_saved_states, store, thread_id)
    if not states:
        return set()
    steps = await list_steps(open_states(fold), select_states(states, 0, fold.version))
    return {one.change.name for one in touched(steps).values()}
