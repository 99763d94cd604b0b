"""What a program does with the past of a conversation: it goes on beside it, or goes back in it."""

from __future__ import annotations

from treadle.app.files.rewind import shows_the_same
from treadle.core.events import CancelRequested, Rewound
from treadle.errors import UsageError
from treadle.runtime.task_threads import CREATOR
from treadle.store.threads import AnyThreads
from treadle.thread.facts import Renamed
from treadle.thread.history import find_rest_after_turn


def fork_at_rest(threads: AnyThreads, thread_id: str) -> str:
    """A thread that goes on from the newest version at which nothing was open; its id.

    Raises:
        StoreError: the thread cannot be read, or the disk refused.
    """
    rests = threads.list_rests(thread_id)
    title = threads.load(thread_id).fold.metadata.title
    first = (Renamed(title),) if title else ()
    version = rests[-1].version if rests else None
    writer = threads.fork(thread_id, version, creator=CREATOR, first=first)
    writer.close()
    return writer.thread_id


def rewind_to_turn(threads: AnyThreads, thread_id: str, turn: int) -> None:
    """Go back in a conversation to the end of a turn, 0 before the first.

    Raises:
        UsageError: there is no such turn, or it stands there already.
        StoreError: the thread is busy, damaged or newer, or the disk refused.
    """
    writer = threads.open(thread_id)
    try:
        fold = writer.fold
        rest = find_rest_after_turn(threads.list_rests(thread_id), turn)
        if rest is None:
            raise UsageError(
                f"thread {thread_id} has no place to go back to for turn {turn}",
                hint=f"treadle show {thread_id}",
            )
        if fold.is_idle and shows_the_same(fold.conversation.view, rest.view):
            raise UsageError(f"thread {thread_id} stands there already; nothing was changed")
        if not fold.is_idle:
            writer.stage(CancelRequested(reason="the thread was rewound", at=writer.now()))
        writer.stage(Rewound(rest.version, rest.view, writer.now()))
        writer.commit()
    finally:
        writer.close()
