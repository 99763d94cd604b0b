"""Where the files of a thread are: among the threads, or in the trash."""

from __future__ import annotations

import os
from typing import Final

from treadle.errors import UnknownThreadError
from treadle.store.disk import Disk
from treadle.store.journal import told_as
from treadle.store.paths import Places
from treadle.thread.ids import is_thread_id

JOURNAL: Final = ".jsonl"
SNAPSHOT: Final = ".json"
LOCK: Final = ".lock"
ADOPTED: Final = ".adopted"
SENDING: Final = ".sending"


class Folders:
    """The folders of a store, and the names in them.

    Args:
        disk: how files are reached.
        places: where the folders are.
    """

    def __init__(self, disk: Disk, places: Places) -> None:
        self.disk = disk
        self.threads = os.path.join(places.data, "threads")
        self.trash = os.path.join(places.data, "trash")
        self.blobs = os.path.join(places.data, "blobs")
        self.quarantine = os.path.join(places.data, "quarantine")
        self.branches = os.path.join(places.data, "branches")

    def path(self, thread_id: str, suffix: str, *, in_trash: bool = False) -> str:
        """A file of a thread. Locks and marks stay among the threads, also of one in the trash."""
        assert is_thread_id(thread_id), thread_id
        return os.path.join(self.trash if in_trash else self.threads, thread_id + suffix)

    def find(self, thread_id: str) -> tuple[str, bool]:
        """The path of a thread's journal, which may be missing, and whether it is in the trash.

        Raises:
            UnknownThreadError: there is neither journal nor snapshot.
            DiskError: the disk refused.
        """
        if not is_thread_id(thread_id):
            raise UnknownThreadError(f"{thread_id!r} is no thread id")
        for in_trash in (False, True):
            path = self.path(thread_id, JOURNAL, in_trash=in_trash)
            for suffix in (JOURNAL, SNAPSHOT):
                with told_as("read", path):
                    try:
                        self.disk.read_range(self.path(thread_id, suffix, in_trash=in_trash), 0, 1)
                    except FileNotFoundError:
                        continue
                return path, in_trash
        raise UnknownThreadError(f"there is no thread {thread_id}")

    def ids(self, *, in_trash: bool = False) -> list[str]:
        """All threads there, newest first (ids begin with their time)."""
        folder = self.trash if in_trash else self.threads
        with told_as("list", folder):
            names = self.disk.list(folder)
        found = {name.partition(".")[0] for name in names if name.endswith((JOURNAL, SNAPSHOT))}
        return sorted(filter(is_thread_id, found), reverse=True)
