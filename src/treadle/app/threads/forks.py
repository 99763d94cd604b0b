"""Threads that go on from a version of another one."""

from __future__ import annotations

from msgspec import Struct

from treadle.app.notices import Notify, ignore_notice
from treadle.app.stores import CREATOR
from treadle.app.threads.version_selectors import find_turn_end
from treadle.errors import StoreError
from treadle.store.local_store import LocalStore
from treadle.thread.facts import Base, Renamed
from treadle.thread.fold import CHAT


class ThreadFork(Struct, frozen=True):
    """A new thread, the version of another one that it goes on from, whether nothing is open."""

    thread: str
    base: Base
    is_idle: bool


def fork_thread(
    store: LocalStore,
    thread: str,
    *,
    version: int | None = None,
    turn: int | None = None,
    notify: Notify = ignore_notice,
) -> ThreadFork:
    """Begin a thread that goes on from a version or the end of a turn; by default, from the newest.

    If another process has the thread open, the newest is where nothing was under way: what that
    process is in the middle of is its own to finish.

    Args:
        store: where the thread is.
        thread: the beginning or the end of its id.
        version: the version.
        turn: the turn.
        notify: gets a line if another process has it open.

    Raises:
        UsageError: there is no such turn or version.
        StoreError: the thread cannot be read, or the disk refused.
    """
    thread_id = store.resolve(thread)
    if turn is not None:
        version = find_turn_end(store, thread_id, turn).version
    elif version is None and store.find_holder(thread_id) is not None:
        notify("another process has it open: what is under way there stays there")
        version = find_last_rest(store, thread_id)
    return _make_fork(store, thread_id, version)


def fork_at_rest(store: LocalStore, thread_id: str) -> ThreadFork:
    """Fork a thread at the newest version at which nothing was open.

    What a process is in the middle of is its own to finish: it would be done twice otherwise, in
    the same folder.

    Raises:
        StoreError: the thread cannot be read, or the disk refused.
    """
    return _make_fork(store, thread_id, find_last_rest(store, thread_id))


def can_fork(store: LocalStore, thread_id: str) -> bool:
    """Whether a fork could go on: a task takes no further prompts, nor does its fork."""
    line = store.summary(thread_id)
    return line is not None and line.machine == CHAT


def find_last_rest(store: LocalStore, thread_id: str) -> int | None:
    """The newest version at which nothing was open; `None` if there never was one.

    Raises:
        StoreError: the thread cannot be read.
    """
    rests = store.list_rests(thread_id)
    return rests[-1].version if rests else None


def _make_fork(store: LocalStore, thread_id: str, version: int | None) -> ThreadFork:
    # A title that somebody gave; else it is the first prompt's in both.
    title = _find_title(store, thread_id)
    first = (Renamed(title),) if title else ()
    writer = store.fork(thread_id, version, creator=CREATOR, first=first)
    try:
        base = writer.fold.header.base
        assert base is not None
        return ThreadFork(writer.thread_id, base, writer.fold.is_idle)
    finally:
        writer.close()


def _find_title(store: LocalStore, thread_id: str) -> str | None:
    try:
        return store.load(thread_id).fold.metadata.title
    except StoreError:  # a fork of what is intact can be made all the same
        return None
