"""The lock under which a thread is sent to a server, and making a thread private.

A thread is sent only while this lock is held and after it was seen under it that the thread is not
private. Whoever makes a thread private takes the lock first. So nothing of a thread leaves this
machine after its being private is durable, and a session that has the thread open is in no
sender's way. The lock is another one than the writer's; it stays, as locks do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from treadle.errors import StorageBusyError
from treadle.store.folders import SEND_LOCK_SUFFIX, StoreFolders
from treadle.store.journal import convert_os_errors
from treadle.store.local_store import LocalStore
from treadle.store.thread_writer import ThreadWriter
from treadle.thread.facts import PrivacySet

WAIT_S: Final = 0.05
"""Seconds between two looks whether a thread is still being sent."""

WAIT_COUNT_MAX: Final = 700
"""Looks before it is given up: 35 seconds, which is longer than a request may take."""


def _pause() -> None:
    threading.Event().wait(WAIT_S)


@contextmanager
def hold_send_lock(
    folders: StoreFolders, thread_id: str, *, is_shared: bool = False
) -> Iterator[None]:
    """Hold the lock under which a thread is sent.

    Args:
        folders: where it is.
        thread_id: the thread.
        is_shared: whether others may hold it too, as of a thread that several sub-agents work for:
            it is not sent itself, and must not become private meanwhile.

    Raises:
        StorageBusyError: somebody else sends it at this moment, or makes it private.
        DiskError: there can be no lock here.
    """
    lock = _try_lock(folders, thread_id, is_shared=is_shared)
    if lock is None:
        raise _make_busy_error(thread_id)
    try:
        yield
    finally:
        folders.disk.close(lock)


def set_private(
    store: LocalStore,
    thread: str | ThreadWriter,
    is_private: bool = True,
    *,
    pause: Callable[[], object] = _pause,
) -> bool:
    """Record whether a thread may leave this machine; durable when this returns.

    Waits until nobody sends it. What had been sent before is on the server still: the next sync
    has it removed there.

    Args:
        store: where it is.
        thread: its id; or, of a thread that is open in this process, its writer.
        is_private: whether it is private from now on.
        pause: waits a little before the next look.

    Returns:
        Whether that has changed anything.

    Raises:
        StorageBusyError: it is being sent for longer than a request may take; nothing was changed.
        ThreadBusyError: another process has it open; nothing was changed.
        StoreError: it cannot be written to, as `LocalStore.open` says.
        DiskError: as it was, or it is private; look again.
    """
    thread_id = thread if isinstance(thread, str) else thread.thread_id
    with ExitStack() as held:
        held.callback(store.folders.disk.close, _wait_for_lock(store.folders, thread_id, pause))
        if isinstance(thread, str):
            writer = store.open_including_trash(thread_id)
            held.callback(writer.close)
        else:
            writer = thread
        if writer.fold.is_private == is_private:
            return False
        writer.stage(PrivacySet(is_private))
        writer.commit()
    return True


def _wait_for_lock(folders: StoreFolders, thread_id: str, pause: Callable[[], object]) -> int:
    for _ in range(WAIT_COUNT_MAX):
        lock = _try_lock(folders, thread_id)
        if lock is not None:
            return lock
        pause()
    raise _make_busy_error(thread_id)


def _try_lock(folders: StoreFolders, thread_id: str, *, is_shared: bool = False) -> int | None:
    path = folders.path(thread_id, SEND_LOCK_SUFFIX)
    with convert_os_errors("make", folders.threads):
        folders.disk.make_folder(folders.threads)
    with convert_os_errors("lock", path):
        return folders.disk.lock(path, is_shared=is_shared)


def _make_busy_error(thread_id: str) -> StorageBusyError:
    return StorageBusyError(
        f"thread {thread_id} is being sent to a server by another process",
        hint="nothing was changed; wait until that has ended, and try again",
    )
