"""The turns that a fork has from the threads that it goes on from: they stand in their records."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.errors import UsageError
from treadle.store.local_store import LocalStore
from treadle.thread.codec import decode_entry
from treadle.thread.facts import Base, ThreadCreated
from treadle.thread.history import Rest, Turn, find_rest_at, list_turn_starts
from treadle.thread.ids import is_name_of

FORK_BEGIN: Final = 1
"""The version of a fork's first record. Going back beyond it is recorded as going back to there,
with the view of the place in the other thread: the view is what counts."""


class PastTurn(Struct, frozen=True):
    """A turn that is in view of a thread, and the thread whose record began it."""

    thread: str
    turn: Turn


def list_bases(store: LocalStore, thread_id: str) -> list[Base]:
    """What a thread goes on from, and what that goes on from, nearest first; none but for a fork.

    Raises:
        StoreError: one of them cannot be read.
    """
    bases: list[Base] = []
    at = thread_id
    while (base := _read_base(store, at)) is not None:
        bases.append(base)
        at = base.thread
    return bases


def find_past_turns(store: LocalStore, thread_id: str) -> list[PastTurn]:
    """All turns in view, in order, those from before the thread was forked too.

    Raises:
        StoreError: the thread, or what it goes on from, cannot be read.
    """
    hidden = {
        at
        for start, end in store.load(thread_id).fold.conversation.view.hidden
        for at in range(start, end)
    }
    found: list[PastTurn] = []
    for thread, last in _list_parts(store, thread_id):
        records = [one for one in store.scan(thread).records if last is None or one.seq <= last]
        entries = [(one.seq, one.at, decode_entry(one.event)) for one in records]
        starts = list_turn_starts(store.load_initial_fold(thread), entries)
        found += [PastTurn(thread, turn) for index, turn in starts if index not in hidden]
    return found


def find_inherited_rest(store: LocalStore, thread_id: str, of: str, version: int) -> Rest:
    """The place in a thread that this one goes on from, as this one goes back to it.

    Args:
        store: the threads.
        thread_id: the fork.
        of: the other thread, by the beginning or the end of its id.
        version: its version, or one behind the place.

    Raises:
        UsageError: this one does not go on from there.
        StoreError: the other thread cannot be read.
    """
    for base in list_bases(store, thread_id):
        if not is_name_of(of, base.thread):
            continue
        rests = [one for one in store.list_rests(base.thread) if one.version <= base.version]
        if version > base.version or (rest := find_rest_at(rests, version)) is None:
            raise UsageError(
                f"thread {thread_id} goes on from version {base.version} of {base.thread}; "
                f"there is no place for version {version}"
            )
        return replace(rest, version=FORK_BEGIN, turn=0, files=None)
    raise UsageError(f"thread {thread_id} does not go on from {of}")


def _read_base(store: LocalStore, thread_id: str) -> Base | None:
    header = decode_entry(store.scan(thread_id).records[0].event)
    return header.base if isinstance(header, ThreadCreated) else None


def _list_parts(store: LocalStore, thread_id: str) -> list[tuple[str, int | None]]:
    """The threads whose records make up this one, oldest first, each with its last version."""
    parts: list[tuple[str, int | None]] = [(thread_id, None)]
    parts += [(base.thread, base.version) for base in list_bases(store, thread_id)]
    return parts[::-1]
