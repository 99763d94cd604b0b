"""Forks of a thread that go on from where nothing was open."""

from __future__ import annotations

from treadle.app.stores import CREATOR
from treadle.store.local import LocalStore
from treadle.thread.facts import Base


def fork_at_rest(store: LocalStore, thread_id: str) -> tuple[str, Base]:
    """Fork a thread at the newest version at which nothing was open.

    What a process is in the middle of is its own to finish: it would be done twice otherwise, in
    the same folder.

    Returns:
        The id of the fork, and where it begins.

    Raises:
        StoreError: the thread cannot be read, or the disk refused.
    """
    writer = store.fork(thread_id, last_rest(store, thread_id), creator=CREATOR)
    try:
        base = writer.fold.header.base
        assert base is not None
        return writer.thread_id, base
    finally:
        writer.close()


def last_rest(store: LocalStore, thread_id: str) -> int | None:
    """The newest version at which nothing was open; `None` if there never was one.

    Raises:
        StoreError: the thread cannot be read.
    """
    rests = store.rests(thread_id)
    return rests[-1].version if rests else None
