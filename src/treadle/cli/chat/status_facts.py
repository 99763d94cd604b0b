"""What the status line has to be looked up for: the repository, and how sync stands."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from msgspec import Struct

from treadle.errors import TreadleError

if TYPE_CHECKING:
    from treadle.cli.chat.sessions import Sessions
    from treadle.store.local import LocalStore


class Standing(Struct, frozen=True):
    """How the repository and sync stood when they were last looked at."""

    branch: str = ""
    is_dirty: bool = False
    sync: str = ""


async def look(sessions: Sessions) -> Standing:
    """How they stand now. Nothing is asked of the server, and nothing fails."""
    from treadle.workspace.git import observe

    setup = sessions.setup
    if setup is None:
        return Standing()
    git = await observe(sessions.folder)
    thread_id = sessions.thread_id
    sync = ""
    if thread_id is not None and not sessions.is_private:
        sync = await asyncio.to_thread(_sync, setup.store, thread_id)
    if git is None:
        return Standing(sync=sync)
    return Standing(git.branch or (git.head or "")[:7], git.dirty, sync)


def _sync(store: LocalStore, thread_id: str) -> str:
    """In a word; empty for who is not logged in."""
    from treadle.app.sync.sync_status import synced_line
    from treadle.sync.credentials import is_logged_in

    if not is_logged_in(store.places, os.environ):
        return ""
    try:
        fold = store.load(thread_id).fold
    except TreadleError:
        return ""
    line = synced_line(store, fold)
    if ";" in line or line.startswith("unknown"):
        return "not synced, see /status"
    return "synced" if line.startswith(f"version {fold.version} ") else "syncing" if line else ""
