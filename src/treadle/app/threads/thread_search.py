"""Conversations to go on with, and prompts to go back to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from treadle.store.index.filters import ThreadFilters
from treadle.store.index.lookup import Index
from treadle.store.local_store import LocalStore
from treadle.thread.codec import decode_entry
from treadle.thread.document import ThreadSummary
from treadle.thread.fold import CHAT
from treadle.thread.history import Turn, list_turn_starts
from treadle.thread.ids import is_name_of

ROW_COUNT_MAX: Final = 200
"""Threads that are found; who looks for an older one types a word of it."""


def find_conversations(store: LocalStore, folder: str, text: str) -> Sequence[ThreadSummary]:
    """The conversations of a folder, those first in which something is left to be done.

    With a text those of all folders with these words, the best hit first.

    May run in any thread of the process: each call opens the index for itself.

    Raises:
        StoreError: the index cannot be read.
    """
    index = Index(store)
    try:
        if text.strip():
            found = [hit.thread for hit in index.search(text, limit=ROW_COUNT_MAX)]
            known = {line.id for line in found}
            named = index.list_threads(limit=ROW_COUNT_MAX) if " " not in text.strip() else []
            found += [
                line for line in named if line.id not in known and is_name_of(text.strip(), line.id)
            ]
        else:
            found = index.list_threads(ThreadFilters(workspace=folder), limit=ROW_COUNT_MAX)
            found.sort(key=lambda line: not (line.is_unfinished or line.questions))
    finally:
        index.close()
    return [line for line in found if line.machine == CHAT and not line.problem]


def find_turns(store: LocalStore, thread_id: str) -> list[Turn]:
    """The turns of a thread that are in view, in order: one can go back to before each.

    Raises:
        StoreError: the thread cannot be read.
    """
    fold = store.load_initial_fold(thread_id)
    records = store.scan(thread_id).records
    entries = [(one.seq, one.at, decode_entry(one.event)) for one in records]
    found = list(list_turn_starts(fold, entries))
    hidden = {at for start, end in fold.conversation.view.hidden for at in range(start, end)}
    return [turn for index, turn in found if index not in hidden]
