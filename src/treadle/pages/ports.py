"""Where pages get their threads from: the disk of this machine, or a server's database."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct

from treadle.core.messages import BlobRef
from treadle.exchange.journal_files import JournalPart
from treadle.exchange.readable_thread import ReadableCall, ReadableThread
from treadle.thread.document import ThreadSummary


class Visitor(Struct, frozen=True):
    """Who looks, where people sign in.

    `form_key` stands in each form that is shown to them, and a page of another site cannot know it.
    """

    name: str
    organization: str
    is_admin: bool
    form_key: str


class RowFilters(Struct, frozen=True):
    """Which threads; what is empty does not matter.

    `state` is as `ThreadFilters` has it, `repo` a repository's remote, `owner` the name of a user.
    """

    state: str = ""
    repo: str = ""
    branch: str = ""
    tag: str = ""
    model: str = ""
    owner: str = ""


class ThreadRow(Struct, frozen=True):
    """A thread in a list, in words for people; its times are UTC, as records have them.

    `name` is what stands for it in addresses; `owner` is empty where all have one.
    """

    thread: ThreadSummary
    name: str
    short_id: str
    title: str
    state: str
    folder: str
    branch: str
    age: str
    owner: str = ""


class StartRow(Struct, frozen=True):
    """What a visitor has asked a machine of theirs to begin, and how that stands.

    Args:
        at: when it was asked.
        until: how long it waits for a machine.
        state: `waiting`, `taken`, `refused`, `expired` or `done`.
        why: why it was refused.
        thread: what was begun, as it stands in addresses; empty if it is not here.
        left_with: the name of the token with which it was asked.
    """

    at: str
    until: str
    state: str
    why: str
    thread: str
    left_with: str


class ThreadRows(Struct, frozen=True):
    """Some of the threads that were asked for, and how many there are in all.

    `starts` are threads that a machine was asked to begin.
    """

    rows: Sequence[ThreadRow]
    count: int
    starts: Sequence[StartRow] = ()


class FoundRow(Struct, frozen=True):
    """A thread in which something was found: where, and the words around it.

    `pieces` are the snippet in parts; of each whether it is what was looked for. `count` is how
    many texts of the thread have it.
    """

    row: ThreadRow
    kind: str
    pieces: Sequence[tuple[str, bool]]
    count: int


class ShownThread(Struct, frozen=True, eq=False, weakref=True):
    """A thread as it can be read.

    It is kept as it was read, and known by itself: what is made of it is kept as long as it is.
    """

    story: ReadableThread

    def list_results(self, call_id: str) -> Iterator[str]:
        """The results of calls that have this id, as the model read them."""
        for turn in self.story.turns:
            for item in turn.items:
                if isinstance(item, ReadableCall) and item.call_id == call_id:
                    yield item.result or ""


class WatchedThread(Struct, frozen=True):
    """A thread that has changed, to be read once for all who watch it.

    Args:
        key: the same for all who may read the same.
        read: called in a thread; gives `None` if the thread is another one by now.
    """

    key: str
    read: Callable[[], ShownThread | None]


class LiveState(Struct, frozen=True):
    """How far a thread is: its version, and what a model is saying at this moment.

    `thread` is the thread at that version, where it may be given to who follows.
    """

    version: int
    text: str = ""
    thread: WatchedThread | None = None


class PageSource(Protocol):
    """The threads that a visitor may see.

    Each raises `TreadleError`, and is called in a thread, but for `follow`.
    """

    @property
    def visitor(self) -> Visitor | None:
        """Who looks; `None` where nobody signs in, or nobody has."""
        ...

    @property
    def is_live(self) -> bool:
        """Whether threads can be followed."""
        ...

    @property
    def has_readers(self) -> bool:
        """Whether the thread that was read last is the visitor's, who may see who else reads it."""
        ...

    def list_rows(self, filters: RowFilters, start: int, count: int) -> ThreadRows:
        """Threads, those that changed last first.

        Args:
            filters: which of them.
            start: how many are left out before them.
            count: how many at most.
        """
        ...

    def search(self, words: str, count: int) -> Sequence[FoundRow]:
        """Threads in which some words stand, best first."""
        ...

    def read_thread(self, thread_id: str, version: int | None = None) -> ShownThread:
        """A thread at a version, with what it goes on from; by default as it is now."""
        ...

    def read_blob(self, thread_id: str, ref: BlobRef) -> bytes:
        """What a record of a thread names that is kept beside it."""
        ...

    def read_journals(self, thread_id: str) -> Sequence[JournalPart]:
        """A thread's journal, behind those that it goes on from; nothing if it has none."""
        ...

    def list_family(self, thread_id: str) -> Sequence[ThreadRow]:
        """A thread, what it goes on from or works for, and what hangs on those."""
        ...

    def read_output(self, thread_id: str, call_id: str) -> bytes:
        """The whole output of a call."""
        ...

    def follow_list(self) -> AsyncGenerator[None]:
        """A word at once, whenever `list_rows` may give others, and now and then.

        Ends when the visitor is let in no more, or the site stops.
        """
        ...

    def follow(
        self, thread_id: str, *, with_thread: bool = False
    ) -> AsyncGenerator[LiveState | None]:
        """How far a thread is, now and whenever that changes; `None` now and then if it does not.

        Ends when the thread is gone, the visitor may see it no more, or the site stops.

        Args:
            thread_id: the thread.
            with_thread: whether the visitor is to be given what is said in it, too.
        """
        ...
