"""The thread of a task: made, or found by the name that a program has for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from treadle.runtime.ports import ThreadStore, Writer
from treadle.runtime.subagents import ParentCall
from treadle.thread.codec import Entry
from treadle.thread.fold import TASK

CREATOR: Final = "treadle library"


def begin_task_thread(
    store: ThreadStore,
    first: Sequence[Entry],
    redact: Callable[[str], str] | None,
    origin: ParentCall | None,
    key: str,
) -> Writer:
    """A new thread for a task, or the one that has a program's name already.

    Args:
        store: where it goes.
        first: what is recorded in the write that makes it.
        redact: replaces known secrets in that.
        origin: the call that it is made for, if it is a sub-agent's.
        key: the program's name for it; empty for none.
    """
    if key:
        return store.open_by_key(key, CREATOR, machine=TASK, first=first, redact=redact)
    return store.create(
        CREATOR,
        machine=TASK,
        is_private=origin is not None and origin.is_private,
        parent=None if origin is None else (origin.thread, origin.call, origin.depth),
        first=first,
        redact=redact,
    )
