"""Where the files of a thread are: among the threads, or in the trash."""

from __future__ import annotations

import os
from typing import Final

from treadle.errors import UnknownThreadError
from treadle.store.disk import Disk
from treadle.store.journal import convert_os_errors
from treadle.store.paths import Places
from treadle.thread.ids import is_thread_id

JOURNAL_SUFFIX: Final = ".jsonl"
SNAPSHOT_SUFFIX: Final = ".json"
LOCK_SUFFIX: Final = ".lock"
ADOPTION_SUFFIX: Final = ".adopted"
SEND_LOCK_SUFFIX: Final = ".sending"


class StoreFolders:
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
            path = self.path(thread_id, JOURNAL_SUFFIX, in_trash=in_trash)
            for suffix in (JOURNAL_SUFFIX, SNAPSHOT_SUFFIX):
                with convert_os_errors("read", path):
                    try:
                        self.disk.read_range(self.path(thread_id, suffix, in_trash=in_trash), 0, 1)
                    except FileNotFoundError:
                        continue
                return path, in_trash
        raise UnknownThreadError(f"there is no thread {thread_id}")

    def ids(self, *, in_trash: bool = False) -> list[str]:
        """All threads there, newest first (ids begin with their time)."""
        folder = self.trash if in_trash else self.threads
        with convert_os_errors("list", folder):
            names = self.disk.list(folder)
        found = {
            name.partition(".")[0]
            for name in names
            if name.endswith((JOURNAL_SUFFIX, SNAPSHOT_SUFFIX))
        }
        return sorted(filter(is_thread_id, found), reverse=True)
