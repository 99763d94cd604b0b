"""Where readers find the journals of a data folder: of threads, in the trash, and kept branches."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import Final

from treadle.errors import UnknownThreadError
from treadle.store.branch_archive import find_base_journal, find_merged_branch
from treadle.store.folders import JOURNAL_SUFFIX, SNAPSHOT_SUFFIX, StoreFolders
from treadle.store.journal import journal_has_head
from treadle.thread.facts import Base
from treadle.thread.record import Head, Record

SNAPSHOT_SIZE_MAX: Final = 1024 * 1024 * 1024
"""A longer file is not looked at: reading a journal takes less time than that."""


class FolderSource:
    """The journals of a data folder, for a `ThreadReader`.

    Args:
        folders: where they are.
    """

    def __init__(self, folders: StoreFolders) -> None:
        self._folders = folders
        self._disk = folders.disk

    def locate(self, thread_id: str) -> str:
        """See `JournalSource`."""
        return self._folders.find(thread_id)[0]

    def locate_base(self, base: Base) -> str:
        """See `JournalSource`; the base may be a branch that another one has taken the place of."""
        return find_base_journal(self._folders, base, self.locate(base.thread))

    def find_merged_base(self, base: Base) -> list[Record] | None:
        """See `JournalSource`."""
        try:
            path = self.locate(base.thread)
        except UnknownThreadError:
            return None
        if find_base_journal(self._folders, base, path) != path:
            return None
        return find_merged_branch(self._folders, base, path)

    def pieces(self, path: str, offset: int = 0) -> Generator[bytes, None, None]:
        """See `JournalSource`."""
        return self._disk.pieces(path, offset)

    def has_head(self, path: str, head: Head) -> bool:
        """See `JournalSource`."""
        return journal_has_head(self._disk, path, head)

    def read_snapshot(self, path: str) -> bytes:
        """See `JournalSource`; what cannot be read, or is no snapshot, counts as nothing."""
        pieces = self._disk.pieces(path.removesuffix(JOURNAL_SUFFIX) + SNAPSHOT_SUFFIX)
        try:
            data = next(pieces, b"")
            if not data.startswith(b"{"):
                return b""
            return b"".join((data, *islice(pieces, SNAPSHOT_SIZE_MAX // len(data))))
        except OSError:
            return b""
        finally:
            pieces.close()
