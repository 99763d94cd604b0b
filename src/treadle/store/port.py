"""What a place for threads has to do, so that agents can work on it: `Store`.

A store keeps a *journal* for each thread: bytes to which one process at a time appends. What they
say is not its business; everything else (what a thread holds, lists, forks) Treadle makes of them.
`treadle.store_conformance` tells whether a store keeps what is promised here.

A store says what is wrong by a `StoreError` of its own words, or by an `OSError`; nothing that it
was told to do counts as done then. Any thread of a process may call a store, several at the same
moment; what `begin` and `hold` give is called by one at a time, which need not be the same each
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol


class HeldJournal(Protocol):
    """A journal that nobody else can append to, until it is closed or its process ends.

    Where that is a lease with an end, to renew it is the store's own affair. Each holder has a
    number then (an epoch) that `append` and `close` look at: one that has slept while another one
    was given the journal appends nothing, and frees nothing.
    """

    def append(self, data: bytes, size: int) -> None:
        """Append `data`, durably when this returns: a `kill -9` or a power cut loses nothing of it.

        A crash before that may leave a beginning of it, or nothing.

        Args:
            data: whole lines, 256 MiB at most.
            size: how many bytes the journal has, as this writer knows it.

        Raises:
            StaleWriterError: it has another size, or somebody else may hold it by now (a lease is
                over, the lock is gone): nothing was appended.
        """
        ...

    def cut(self, size: int) -> str:
        """Cut off what a crash has left of an `append`, durably; the journal has `size` bytes then.

        Asked for when what stands behind is no whole record, so never where an `append` is there as
        a whole or not at all.

        Returns:
            Where the bytes are kept that were cut off; empty if nowhere.
        """
        ...

    def close(self) -> None:
        """Give it free. Once more does nothing. What is called afterwards raises `StoreError`."""
        ...


class Store(Protocol):
    """Where threads are kept. `LocalStore` is one; a class with these methods is another.

    A thread's id is a text of 38 ASCII letters, digits and hyphens that is a fine name for a file.
    """

    def now(self) -> str:
        """The time, as records have it: UTC with six digits, `2026-11-21T08:15:30.123456Z`."""
        ...

    def begin(self, thread_id: str, data: bytes, key: str = "") -> HeldJournal | None:
        """A new journal with its first bytes, durable and held when this returns.

        A crash before this returns may leave a thread with a beginning of the bytes, or all of
        them, which nobody has been told of; so may a sync that failed. Only a whole one has its
        key. Whatever else is raised leaves none.

        Args:
            thread_id: of a thread that is not there yet; a `StoreError` if it is.
            data: whole lines.
            key: a program's own name for the thread, 500 characters at most; empty for none. From
                then on it is this thread's.

        Returns:
            `None` if another thread has the key: nothing is left of this one. Of those who begin
            with one key at the same moment, in whatever process, one has it.
        """
        ...

    def hold(self, thread_id: str) -> HeldJournal:
        """Hold a journal, at once or not at all. What was appended before is durable then.

        Raises:
            UnknownThreadError: there is no such thread.
            ThreadBusyError: somebody else holds it. It is free when they close it, or have died;
                where that is found out by the time that passes, within `lease_s` seconds, which the
                store has as an attribute for `treadle.store_conformance`.
        """
        ...

    def read(self, thread_id: str, start: int = 0) -> Iterable[bytes]:
        """The bytes of a journal, from byte `start` on, in pieces of any size; needs no hold.

        What was appended stands in it, in order and without a gap. Of what is being appended, or
        what a crash has cut, a beginning may stand behind it.

        Raises:
            UnknownThreadError: there is no such thread. At once, or when it is read.
        """
        ...

    def ids(self) -> Sequence[str]:
        """All threads, in any order."""
        ...

    def find_key(self, key: str) -> str | None:
        """The thread that has a key, which can be read and held; `None` if none has."""
        ...

    def keep_blob(self, name: str, data: bytes) -> None:
        """Keep bytes, durably when this returns; the same ones once more changes nothing.

        Args:
            name: the SHA-256 of the bytes, in 64 hex digits.
            data: 64 MiB at most.
        """
        ...

    def load_blob(self, name: str) -> bytes | None:
        """The bytes of a name; `None` if there are none."""
        ...
