"""What the sync engine needs of a server, and what it can hand to one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from treadle.api.marks import Mark
from treadle.api.types import Me, ThreadHead, ThreadHeads


class Sendable(Protocol):
    """A thread that may leave this machine, while nobody can make it private.

    `treadle.sync.shareable_thread` makes the only one there is. A server is handed nothing else, so
    that no code can send a thread that was not looked at.
    """

    @property
    def thread_id(self) -> str:
        """The thread."""
        ...

    def lines(self, after: Mark) -> Iterator[bytes]:
        """Its records after a mark, as they stand in the journal, in pieces of whole writes."""
        ...

    def blob(self, sha256: str) -> bytes:
        """A large output that one of its records names."""
        ...


class Remote(Protocol):
    """A Treadle server.

    Every method raises `RemoteUnavailableError` for what can pass by itself (no network, a server
    that stops or is busy), `RemoteConflictError` where a thread is not where the caller thought,
    `RemoteRefusedError` for all else.
    """

    @property
    def url(self) -> str:
        """Where it is, without a path."""
        ...

    def me(self) -> Me:
        """Who the caller is there."""
        ...

    def push(self, thread: Sendable, base: Mark) -> ThreadHead:
        """Send the records after `base`, which is where the server is thought to be.

        Safe to be repeated: a server that has exactly these records already says where it is.
        """
        ...

    def replace(self, thread: Sendable, base: Mark) -> ThreadHead:
        """Put the whole journal in the place of the server's, which stands at `base`: a scrub."""
        ...

    def put_blob(self, thread: Sendable, sha256: str) -> None:
        """Send a large output; nothing is sent twice."""
        ...

    def purge(self, thread_id: str) -> None:
        """Remove all that the server has of a thread, for good; fine if it has nothing."""
        ...

    def heads(self, after: int, stamp: str = "") -> ThreadHeads:
        """Where the caller's own threads are that changed after a change number.

        `stamp` is what the answer with that number had; empty if that is not known.
        """
        ...

    def records(self, thread_id: str, after: Mark) -> Iterator[bytes]:
        """The server's records after a mark, as bytes of a journal, in pieces of any size.

        Raises:
            RemoteConflictError: the mark is not in the server's chain.
        """
        ...

    def get_blob(self, thread_id: str, sha256: str) -> bytes | None:
        """A large output; `None` if the server has not got it. Its bytes are checked."""
        ...
