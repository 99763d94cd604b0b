"""The sessions that an editor can load: the conversations of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.app.threads.thread_lists import list_threads
from treadle.errors import UsageError
from treadle.store.index.filters import ThreadFilters
from treadle.store.local_store import LocalStore
from treadle.thread.fold import CHAT
from treadle.thread.record import replace_surrogates

PAGE_LENGTH: Final = 50
CURSOR_LENGTH_MAX: Final = 9


class SessionLine(Struct, frozen=True):
    """A conversation: its thread, its folder, its title, and when it last changed (UTC)."""

    id: str
    folder: str
    title: str
    updated_at: str


class SessionPage(Struct, frozen=True):
    """Some conversations, last changed first; `cursor` asks for the next ones, if there are any."""

    sessions: tuple[SessionLine, ...]
    cursor: str | None = None


def list_sessions(
    store: LocalStore, folder: str | None = None, cursor: str | None = None
) -> SessionPage:
    """A page of the conversations in which something was said.

    Args:
        store: the threads of this machine.
        folder: only those that work in it or below it.
        cursor: that of the page before.

    Raises:
        UsageError: the cursor is none of ours, or the folder can be none.
        DiskError: the threads cannot be read.
    """
    if cursor is not None and not (
        cursor.isascii() and cursor.isdigit() and len(cursor) <= CURSOR_LENGTH_MAX
    ):
        raise UsageError("the cursor is none that this list has given")
    try:
        workspace = None if folder is None else str(Path(replace_surrogates(folder)).resolve())
    except (OSError, ValueError) as error:
        raise UsageError(f"cwd is no path: {error}") from error
    start = int(cursor or 0)
    end = start + PAGE_LENGTH
    page = list_threads(store, ThreadFilters(workspace=workspace), limit=end)
    found = tuple(
        SessionLine(one.id, one.workspace_root, one.title or "", one.updated_at)
        for one in page.threads[start:]
        if one.machine == CHAT
        and one.parent is None
        and one.workspace_root is not None
        and not one.problem
        and (one.message_count or one.queued)
    )
    return SessionPage(found, str(end) if page.count > end else None)
