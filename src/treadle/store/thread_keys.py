"""Threads by the names that a program has for them: which thread is `customer-7`.

A name has a small file with the id of its thread; the file's own name is a digest of it. The thread
is made first, then its id is published, by giving the file its name: two processes that begin a
name at the same moment publish one id, and the other one takes its thread back. Where the thread of
a file is gone, because somebody has removed it, the next file of the name counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import count
from typing import Final

from treadle.errors import UnknownThreadError, UsageError
from treadle.store.folders import StoreFolders
from treadle.store.journal import convert_os_errors

KEY_LENGTH_MAX: Final = 500
"""Characters of a name."""


def check_key(key: str) -> None:
    """Raise `UsageError` for what cannot be a name."""
    data = key.encode("utf-8", "surrogatepass")
    if not 0 < len(key) <= KEY_LENGTH_MAX or data.decode("utf-8", "replace") != key:
        raise UsageError(
            f"the key of a thread is a text of 1 to {KEY_LENGTH_MAX} characters, not {key!r}"
        )


class ThreadKeys:
    """The names under one data folder.

    Args:
        folders: where the threads are.
    """

    def __init__(self, folders: StoreFolders) -> None:
        self._folders = folders
        self._folder = f"{folders.threads}/keys"

    def find(self, key: str) -> str | None:
        """The thread of a name, in the trash or not; `None` if there is none.

        Raises:
            UsageError: it cannot be a name.
            DiskError: the disk refused.
        """
        for path in self._list_paths(key):
            if (thread_id := self._read(path)) is None or self._is_there(thread_id):
                return thread_id
        return None

    def publish(self, key: str, thread_id: str) -> str:
        """Give a thread this name, durably, unless another one has it by now.

        Returns:
            The thread that has the name.

        Raises:
            UsageError: it cannot be a name.
            DiskError: the disk refused.
        """
        disk, draft = self._folders.disk, f"{self._folder}/{thread_id}.new"
        with convert_os_errors("write", self._folder):
            disk.make_folder(self._folder)
            handle = disk.create(draft)
            try:
                try:
                    disk.write(handle, thread_id.encode())
                    disk.sync(handle)
                finally:
                    disk.close(handle)
                return next(
                    holder
                    for path in self._list_paths(key)
                    if self._is_there(holder := self._claim(draft, path, thread_id))
                )
            finally:
                disk.unlink(draft)

    def _claim(self, draft: str, path: str, thread_id: str) -> str:
        """Give the draft the name of a file if it is free; the thread that stands there now."""
        try:
            self._folders.disk.link(draft, path)
        except FileExistsError:
            return self._read(path) or ""
        self._folders.disk.sync_folder(self._folder)
        return thread_id

    def _read(self, path: str) -> str | None:
        with convert_os_errors("read", path):
            try:
                return self._folders.disk.read(path).decode("ascii", "replace")
            except FileNotFoundError:
                return None

    def _is_there(self, thread_id: str) -> bool:
        try:
            self._folders.find(thread_id)
        except UnknownThreadError:
            return False
        return True

    def _list_paths(self, key: str) -> Iterator[str]:
        """The files of a name, without end: the first whose thread is there counts."""
        check_key(key)
        digest = hashlib.sha256(key.encode()).hexdigest()[:32]
        return (f"{self._folder}/{digest}.{number}" for number in count())
