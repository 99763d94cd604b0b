"""Which threads hang on a thread: its sub-agents' threads and its forks."""

from __future__ import annotations

from treadle.store.index.filters import ThreadFilters
from treadle.store.index.lookup import Index
from treadle.store.local_store import LocalStore
from treadle.thread.document import ThreadSummary


def list_summaries(store: LocalStore) -> list[ThreadSummary]:
    """The summaries of all threads, those in the trash last."""
    index = Index(store)
    try:
        return [*index.list_threads(), *index.list_threads(ThreadFilters(is_trashed=True))]
    finally:
        index.close()


def find_descendants(store: LocalStore, thread_id: str) -> dict[str, ThreadSummary]:
    """All that hangs on a thread: its sub-agents' threads and its forks, and theirs."""
    lines = list_summaries(store)
    found: dict[str, ThreadSummary] = {}
    todo = [thread_id]
    while todo:
        above = todo.pop()
        for line in lines:
            if above in (line.parent, line.forked_from) and line.id not in found:
                found[line.id] = line
                todo.append(line.id)
    found.pop(thread_id, None)
    return found
