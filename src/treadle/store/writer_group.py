"""The writers of one store in this process: what many of them wrote is made durable together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from treadle.store.disk import Disk
from treadle.store.journal import Journal

MEMBERS_MIN: Final = 8
"""With fewer threads open nothing waits for others: a batch is synced at once."""


class WriterGroup:
    """Counts the open writers, and finds what syncs the journals of several at once.

    Args:
        disk: where all of them are.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.count = 0
        """So many are open."""

    @property
    def is_worth_waiting(self) -> bool:
        """Whether so many are open that a batch should wait for others to be synced with."""
        return self.count >= MEMBERS_MIN

    def find_sync(self, members: Sequence[GroupMember]) -> Callable[[], None] | None:
        """What syncs all of these at once; `None` if each is to be synced by itself.

        It may be called in another thread, and raises `OSError`. Who called it tells each member
        how it ended.
        """
        return self._disk.find_shared_sync([member.journal.handle for member in members])


class GroupMember:
    """One writer of the group, from its opening to `leave`."""

    __slots__ = ("_is_in", "group", "journal")

    def __init__(self, group: WriterGroup, journal: Journal) -> None:
        group.count += 1
        self._is_in = True
        self.group = group
        self.journal = journal

    def end_sync(self, error: OSError | None) -> None:
        """See `Journal.end_sync`."""
        self.journal.end_sync(error)

    def leave(self) -> None:
        """The writer is closed."""
        if self._is_in:
            self._is_in = False
            self.group.count -= 1
