"""Threads out of sight, and back."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.app.sizes import human_size
from treadle.store.local_store import LocalStore
from treadle.store.upkeep.trash import ThreadMove, Trash, TrashedThread


def list_trash(store: LocalStore) -> list[TrashedThread]:
    """The threads in the trash, last trashed first."""
    return Trash(store).list_threads()


def trash_threads(store: LocalStore, threads: Sequence[str]) -> list[ThreadMove]:
    """Move threads to the trash by beginnings or ends of ids, each with its sub-agents' threads.

    Raises:
        UsageError: there is no such thread, or it is in the trash already.
        StoreError: it is open in another process, or another one moves threads.
    """
    return Trash(store).put([store.resolve(thread) for thread in threads])


def restore_threads(store: LocalStore, threads: Sequence[str]) -> list[ThreadMove]:
    """Bring threads back from the trash. Raises as `trash_threads`."""
    trash = Trash(store)
    return trash.restore([trash.find(thread) for thread in threads])


def describe_trashed_thread(line: TrashedThread) -> str:
    """A thread in the trash in one line: id, when, size, title."""
    at = line.trashed_at[:16].replace("T", " ") or "unknown"
    title = line.title or ("(damaged)" if line.problem else "(nothing said yet)")
    return f"{line.id}  {at:<16}  {human_size(line.size):>9}  {title}"


def describe_move(moved: ThreadMove, what: str) -> list[str]:
    """What was done to a thread, what went with it, and what else is to be said: lines."""
    children = (f"  with its sub-agent's thread {child}" for child in moved.children)
    return [f"{moved.id}: {what}", *children, *(f"  {note}" for note in moved.notes)]
