"""Where pages get their threads from: the disk of this machine, or a server's database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from treadle.core.messages import BlobRef
from treadle.exchange.readable_thread import ReadableThread
from treadle.thread.document import ThreadSummary


class ThreadRow(Struct, frozen=True):
    """A thread in a list, in words for people; its times are UTC, as records have them."""

    thread: ThreadSummary
    short_id: str
    title: str
    state: str
    folder: str
    branch: str
    age: str


class ThreadRows(Struct, frozen=True):
    """Some of the threads that were asked for, and how many there are in all."""

    rows: Sequence[ThreadRow]
    count: int


class FoundRow(Struct, frozen=True):
    """A thread in which something was found: where, and the words around it.

    `pieces` are the snippet in parts; of each whether it is what was looked for. `count` is how
    many texts of the thread have it.
    """

    row: ThreadRow
    kind: str
    pieces: Sequence[tuple[str, bool]]
    count: int


class ShownThread(Struct, frozen=True):
    """A thread as it can be read, and where the whole outputs of its calls are, by their ids."""

    story: ReadableThread
    kept: Mapping[str, BlobRef]


class LiveState(Struct, frozen=True):
    """How far a thread is: its version, and what a model is saying at this moment."""

    version: int
    text: str = ""


class PageSource(Protocol):
    """The threads that a visitor may see. Each raises `TreadleError`, and is called in a thread."""

    def list_rows(self, state: str, start: int, count: int) -> ThreadRows:
        """Threads, those that changed last first.

        Args:
            state: as `ThreadFilters` has it; empty for all.
            start: how many are left out before them.
            count: how many at most.
        """
        ...

    def search(self, words: str, count: int) -> Sequence[FoundRow]:
        """Threads in which some words stand, best first."""
        ...

    def read_thread(self, thread_id: str) -> ShownThread:
        """A thread, with what it goes on from."""
        ...

    def read_output(self, thread_id: str, call_id: str) -> bytes:
        """The whole output of a call."""
        ...

    def read_state(self, thread_id: str) -> LiveState:
        """How far a thread is. Costs little: it is asked several times a second."""
        ...
