"""Batches of records for a journal that a store holds for us."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.errors import StaleWriterError
from treadle.store.journal import convert_os_errors
from treadle.store.port import HeldJournal
from treadle.thread.record import Head, encode_batch


class HeldJournalWriter:
    """The writer's end of a held journal, as `Journal` is that of a file.

    Args:
        held: the journal.
        name: what it is called, for messages.
        head: its last record.
    """

    def __init__(self, held: HeldJournal, name: str, head: Head) -> None:
        self._held = held
        self._name = name
        self._waiting: tuple[bytes, Head] | None = None
        self.head = head
        self.is_usable = True
        """Whether nothing has failed, and it is not closed."""

    @property
    def is_synced(self) -> bool:
        """Whether everything that was written is durable."""
        return self._waiting is None

    def write(self, at: str, events: Sequence[bytes]) -> None:
        """Make a batch of events; `sync` appends it. Raises as `Journal.write`."""
        if not self.is_usable or self._waiting is not None:
            raise StaleWriterError(
                f"this writer of {self._name} failed before", hint="open the thread again"
            )
        data, head = encode_batch(self.head, at, events)
        self._waiting, self.head = (data, head), head

    def sync(self) -> None:
        """Append what was written, durably; whatever is raised, this writer is finished."""
        if self._waiting is None:
            return
        data, head = self._waiting
        try:
            with convert_os_errors("write", self._name, len(data)):
                self._held.append(data, head.size - len(data))
        except BaseException:
            self.is_usable = False
            raise
        self._waiting = None

    def close(self) -> None:
        """Give the journal free."""
        self.is_usable = False
        self._held.close()
