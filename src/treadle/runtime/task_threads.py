"""The thread of a task: made, or found by the name that a program has for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from treadle.errors import BuildError
from treadle.runtime.ports import ThreadStore, Writer
from treadle.runtime.subagents import ParentCall
from treadle.store.local_store import LocalStore
from treadle.store.threads import Threads
from treadle.thread.codec import Entry
from treadle.thread.fold import TASK, ThreadFold

CREATOR: Final = "treadle library"


class NewTaskThread(Struct, frozen=True):
    """A thread for a task, before it is made: where it goes, and the write that makes it.

    `redact` replaces known secrets in that.
    """

    store: ThreadStore
    first: Sequence[Entry]
    redact: Callable[[str], str] | None

    def begin(self, origin: ParentCall | None) -> Writer:
        """Make it, held; `origin` is the call that it is made for, if it is a sub-agent's."""
        return self.store.create(
            CREATOR,
            machine=TASK,
            is_private=origin is not None and origin.is_private,
            parent=None if origin is None else (origin.thread, origin.call, origin.depth),
            first=self.first,
            redact=self.redact,
        )

    def add(self, key: str, marks: Sequence[Entry]) -> ThreadFold:
        """Make it, with these marks, and leave it; what it holds, or the one that has the key.

        The key is the program's name for it; empty for none.
        """
        store, first, redact = self.store, [*self.first, *marks], self.redact
        if isinstance(store, Threads):
            return store.add(key, CREATOR, machine=TASK, first=first, redact=redact)
        if not isinstance(store, LocalStore):
            raise BuildError(f"{store!r} is no store")
        if key and (found := store.find_key(key)) is not None:
            return store.load(found).fold
        if key:
            writer = store.open_by_key(key, CREATOR, machine=TASK, first=first, redact=redact)
        else:
            writer = store.create(CREATOR, machine=TASK, first=first, redact=redact)
        writer.close()
        return writer.fold
