"""A fork whose base is damaged before the place it goes on from: what can be shown of it."""

from __future__ import annotations

from treadle.errors import DamagedJournalError, UnknownThreadError
from treadle.store.local_store import LocalStore
from treadle.store.thread_reader import LoadedThread, decode_header


def load_intact_base(
    store: LocalStore, thread_id: str, error: DamagedJournalError
) -> tuple[LoadedThread, str]:
    """The intact part of what a fork goes on from, and what to say about that.

    The fork's own records are not told on top of it: they go on from where it does not get to.

    Args:
        store: where it is.
        thread_id: the fork.
        error: why it cannot be read.

    Raises:
        DamagedJournalError: `error` itself, where nothing is left that is known to be the fork's.
    """
    thread, left = thread_id, None
    own = store.scan(thread_id).records
    seen = set[str]()
    while left is None and thread not in seen:
        seen.add(thread)
        records = store.scan(thread).records
        base = decode_header(records[0]).base if records else None
        if base is None:
            raise error
        thread = base.thread
        try:
            count = len(store.scan(thread).records)
            left = store.load(thread, min(base.version, count)) if count else None
        except DamagedJournalError:
            continue  # it is a fork, too, and the damage is in what that goes on from
        except UnknownThreadError:
            raise error from None
        # All that the fork needs of it is there: then it is another thread of that id.
        if left is None or count >= base.version:
            raise error
    if left is None:
        raise error
    text = (
        f"{error.message}; shown is what is intact of {thread}. The {len(own)} intact records of "
        f"{thread_id} itself go on from a later version: `treadle verify {thread_id} --salvage` "
        "writes them to a file"
    )
    return left, text
