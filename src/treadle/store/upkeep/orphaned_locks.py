"""Locks of threads that are not there any more. Each takes a name in a folder that lists read."""

from __future__ import annotations

import os
from collections.abc import Iterator

from treadle.store.disk import FileStat
from treadle.store.folders import LOCK_SUFFIX, StoreFolders
from treadle.thread.ids import is_thread_id


def list_orphaned_locks(folders: StoreFolders) -> Iterator[tuple[str, FileStat]]:
    """The locks of threads that have no other file, in the trash or not.

    Raises:
        OSError: a folder cannot be read.
    """
    stats = folders.disk.stats(folders.threads)
    others = {name.partition(".")[0] for name in stats if not name.endswith(LOCK_SUFFIX)}
    others |= {name.partition(".")[0] for name in folders.disk.list(folders.trash)}
    for name, found in stats.items():
        thread_id = name.removesuffix(LOCK_SUFFIX)
        if thread_id != name and is_thread_id(thread_id) and thread_id not in others:
            yield os.path.join(folders.threads, name), found


def remove_orphaned_lock(folders: StoreFolders, path: str) -> None:
    """Remove it, unless somebody holds it, or its thread has come meanwhile.

    It is held while it goes: whoever waits for it then finds that it is not the lock any more, and
    makes another one.

    Raises:
        OSError: the disk refused.
    """
    if folders.disk.stat(path) is None:
        return
    lock = folders.disk.lock(path)
    if lock is None:
        return
    try:
        if path in dict(list_orphaned_locks(folders)):
            folders.disk.unlink(path)
    finally:
        folders.disk.close(lock)
