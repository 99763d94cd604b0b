"""How the repository of a session and the sync of its thread stand."""

from __future__ import annotations

import asyncio
import os

from msgspec import Struct

from treadle.app.sync.sync_status import describe_sync
from treadle.errors import TreadleError
from treadle.store.local_store import LocalStore
from treadle.sync.credentials import is_logged_in
from treadle.workspace.git import observe


class SessionStatus(Struct, frozen=True):
    """The branch (or the first characters of a commit), whether files are changed; sync in a word.

    `sync` is `synced`, `syncing`, `not synced, see /status`, or empty for who is not logged in.
    """

    branch: str = ""
    is_dirty: bool = False
    sync: str = ""


async def read_status(store: LocalStore, thread_id: str | None, folder: str) -> SessionStatus:
    """How they stand now. Nothing is asked of the server, and nothing fails.

    Args:
        store: where the thread is.
        thread_id: the thread whose sync is meant, if any.
        folder: the workspace.
    """
    git = await observe(folder)
    sync = "" if thread_id is None else await asyncio.to_thread(_describe_sync, store, thread_id)
    if git is None:
        return SessionStatus(sync=sync)
    return SessionStatus(git.branch or (git.head or "")[:7], git.dirty, sync)


def _describe_sync(store: LocalStore, thread_id: str) -> str:
    if not is_logged_in(store.places, os.environ):
        return ""
    try:
        fold = store.load(thread_id).fold
    except TreadleError:
        return ""
    line = describe_sync(store, fold)
    if ";" in line or line.startswith("unknown"):
        return "not synced, see /status"
    return "synced" if line.startswith(f"version {fold.version} ") else "syncing" if line else ""
