"""The setup for a thread that a person names, with the settings that hold there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from treadle import helper_programs
from treadle.app.sessions.adoption import adopt_thread
from treadle.app.sessions.hooks import Hooks
from treadle.app.sessions.host import Host
from treadle.app.sessions.providers import Models
from treadle.app.sessions.setup import RunChoice, Setup
from treadle.app.tool_servers.session_servers import SessionServers, make_session_servers
from treadle.config.loader import load_settings
from treadle.errors import DiskError, UsageError
from treadle.store.local_store import LocalStore
from treadle.store.summaries import UNREADABLE
from treadle.thread.fold import CHAT, ThreadFold


class ThreadTarget(Struct, frozen=True):
    """Which thread a person means, and where.

    `folder` is the one that was chosen; `None` for the thread's, or this one. `thread` is the
    beginning or end of an id; `latest` is the last conversation of the folder. With neither a new
    thread is meant. One that `is_for_fork` is only forked, and stays as it is; by default a thread
    that was made elsewhere becomes this user's own.
    """

    folder: str | None = None
    thread: str | None = None
    latest: bool = False
    is_for_fork: bool = False


def make_setup(
    store: LocalStore,
    choice: RunChoice,
    target: ThreadTarget,
    host: Host = Host(),  # noqa: B008  it is frozen
    *,
    no_commit: bool = False,
    before_owning: Callable[[Setup], None] | None = None,
    servers: SessionServers | None = None,
) -> Setup:
    """The setup of this user for a thread.

    The settings are those of the folder the agent will work in.

    Args:
        store: where the threads of this user are.
        choice: what was chosen for this run.
        target: which thread is meant, and where.
        host: the program that calls.
        no_commit: whether commits were turned off.
        before_owning: gets the setup before a thread that was made elsewhere becomes this user's
            own; what it raises leaves the thread as it was.
        servers: those that run by now; the caller ends what the setup does not take over.

    Raises:
        DiskError: a thread cannot be read, and no other one has worked in the folder.
        UsageError: the folder is none, there is no such thread, or a setting is not valid.
        DamagedJournalError: nothing of the thread can be read.
    """
    path = Path(target.folder or ".").expanduser()
    if not path.is_dir():
        raise UsageError(f"{path} is no folder", hint="-C takes the folder the agent works in")
    here = str(path.resolve())
    notices: list[str] = []
    thread_id = _find_thread(store, here, target, notices)
    works_in = here
    fold = None if thread_id is None else store.load(thread_id).fold
    if fold is not None and target.folder is None:
        recorded = fold.workspace
        works_in = recorded if recorded and Path(recorded).is_dir() else here
    loaded = load_settings(works_in, os.environ)
    warnings = tuple(helper_programs.warnings())
    helper_programs.restrict_imports()
    setup = Setup(
        store=store,
        thread=fold,
        folder=here,
        has_chosen_folder=target.folder is not None,
        choice=choice,
        loaded=loaded,
        models=Models(loaded, record=choice.record, cache=store.places.cache),
        auto_commit=loaded.settings.auto_commit and not no_commit,
        notices=[*loaded.notices, *warnings, *notices],
        hooks=Hooks(loaded.settings.hooks, works_in),
        host=host,
        servers=make_session_servers(
            loaded, os.environ, store.places, works_in, choice.sandbox, servers
        ),
    )
    setup.notices.extend(setup.servers.notices)
    setup.hooks.tell = setup.notices.append
    if fold is not None and not target.is_for_fork:
        setup.notices.extend(_describe_broken_commits(works_in, fold))
    if thread_id is None or target.is_for_fork or not store.adopted.is_foreign(thread_id):
        return setup
    if before_owning is not None:
        before_owning(setup)
    return adopt_thread(setup)


def _describe_broken_commits(folder: str, fold: ThreadFold) -> list[str]:
    """What a power cut has broken of the commits that the thread knows, and what helps.

    Asked in a thread of its own: a chat, whose loop runs already, opens threads too.
    """
    commits = fold.git.git_commits
    if not commits:
        return []
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    from treadle.workspace.unreadable import find_unreadable

    with ThreadPoolExecutor(1) as alone:
        found = alone.submit(lambda: asyncio.run(find_unreadable(folder, commits))).result()
    return [] if found is None else [f"{found.text}; {found.advice}"]


def _find_thread(
    store: LocalStore, folder: str, target: ThreadTarget, notices: list[str]
) -> str | None:
    """The thread that is meant; `None` for a new one."""
    if target.thread is not None:
        return store.resolve(target.thread)
    if not target.latest:
        return None
    from treadle.store.index.filters import DAMAGED, ThreadFilters
    from treadle.store.index.lookup import Index

    index = Index(store, notices.append)
    found = index.find_latest(folder, machine=CHAT)
    refused = [
        line.id
        for line in index.list_threads(ThreadFilters(state=DAMAGED))
        if line.state == UNREADABLE
    ]
    trashed = [] if found else index.list_threads(ThreadFilters(workspace=folder, is_trashed=True))
    index.close()
    for thread_id in refused:  # what worked here last may be in one that cannot be read just now
        try:
            store.load(thread_id)
        except DiskError as error:
            if found is None:
                raise
            notices.append(f"thread {thread_id} was passed over: {error.message}")
    if found is None:
        if any(line.workspace_root == folder and line.machine == CHAT for line in trashed):
            why = f"the threads that have worked in {folder} are in the trash"
            raise UsageError(why, hint="`treadle trash` lists them, `treadle restore ID` helps")
        why = f"no thread has worked in {folder} yet that takes a prompt"
        raise UsageError(why, hint="leave -c out to start one")
    notices.append(f"going on with {found}")
    return found
