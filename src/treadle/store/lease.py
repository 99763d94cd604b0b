"""The lock of a thread: held by its one writer, freed by the kernel when that process ends."""

from __future__ import annotations

from treadle.errors import ThreadBusyError
from treadle.store.disk import Disk
from treadle.store.journal import told_as


def take_lock(disk: Disk, path: str, thread_id: str) -> int:
    """Hold the lock, or fail at once.

    Raises:
        ThreadBusyError: another process holds it.
        DiskError: there can be no lock here.
    """
    with told_as("lock", path):
        lock = disk.lock(path)
    if lock is None:
        raise ThreadBusyError(
            f"thread {thread_id} is open in another process",
            hint="wait until it ends, or start a new thread",
        )
    return lock
