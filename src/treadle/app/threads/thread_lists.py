"""Lists of this machine's threads: all, those that fit, those with some words, those not done."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from treadle.app.notices import Notify, ignore_notice
from treadle.core.task.table import State
from treadle.errors import TreadleError
from treadle.store import summaries
from treadle.store.index.filters import DAMAGED, UNFINISHED, WAITING, ThreadFilters, parse_state
from treadle.store.index.lookup import Index
from treadle.store.index.search import Hit
from treadle.store.local_store import LocalStore
from treadle.thread.chat_state import KIND_OF_STATE, to_snake_case
from treadle.thread.document import ThreadSummary

COMPLETIONS_MAX: Final = 50
"""Ids that are offered; who has more threads types a little of the id, or searches."""


class UnknownStateError(ValueError):
    """There is no such state of threads."""


class ThreadPage(Struct, frozen=True):
    """The threads that were asked for, pinned ones first, then those that changed last.

    `count` is how many there are in all. `is_unfiltered` says that all were asked for; if there are
    none then, `trashed_count` is how many are in the trash.
    """

    threads: Sequence[ThreadSummary]
    count: int
    is_unfiltered: bool
    trashed_count: int = 0


class ThreadHits(Struct, frozen=True):
    """What a search found, best first, and the threads that could not be searched."""

    hits: Sequence[Hit]
    unreadable: Sequence[ThreadSummary]


class PendingThreads(Struct, frozen=True):
    """The threads of a folder that are not done, last changed first.

    On those that are `running` some process works at this moment; `left` are all others: work
    stopped in the middle, calls wait for a yes, or prompts were not delivered. `foreign` names
    those that were made elsewhere.
    """

    left: Sequence[ThreadSummary] = ()
    running: Sequence[ThreadSummary] = ()
    foreign: frozenset[str] = frozenset()


def list_threads(
    store: LocalStore,
    filters: ThreadFilters = ThreadFilters(),  # noqa: B008  it is frozen
    *,
    limit: int | None = None,
    notify: Notify = ignore_notice,
) -> ThreadPage:
    """The threads that fit.

    Args:
        store: the threads of this machine.
        filters: what must hold.
        limit: how many at most; `None` for all.
        notify: gets a line while something takes long.

    Raises:
        UnknownStateError: a state was asked for that there is not.
        DiskError: the threads cannot be read.
    """
    is_unfiltered = filters == ThreadFilters()
    with _open_index(store, notify) as index:
        _check_state(index, filters)
        threads, count = index.list_with_count(filters, limit)
        is_all_gone = is_unfiltered and not threads
        trashed_count = index.count(ThreadFilters(is_trashed=True)) if is_all_gone else 0
    return ThreadPage(threads, count, is_unfiltered, trashed_count)


def search_threads(
    store: LocalStore,
    query: str,
    filters: ThreadFilters = ThreadFilters(),  # noqa: B008  it is frozen
    *,
    limit: int | None = None,
    notify: Notify = ignore_notice,
) -> ThreadHits:
    """Search titles, tags, notes, messages, calls and outputs; best first.

    All words of `query` must stand in one text; `"in quotes"` is a phrase, `weav*` a beginning,
    `-word` must not stand there. The rest is as for `list_threads`.

    Raises:
        UsageError: there is nothing to look for.
    """
    with _open_index(store, notify) as index:
        _check_state(index, filters)
        hits = index.search(query, filters, limit)
        return ThreadHits(hits, index.list_threads(ThreadFilters(state=DAMAGED)))


def find_pending(
    store: LocalStore, workspace: str, *, notify: Notify = ignore_notice
) -> PendingThreads:
    """What is not done in a folder. Raises `DiskError`.

    Sub-agents are left out: they go on with the thread they work for.
    """
    with _open_index(store, notify) as index:
        lines = index.list_pending(workspace)
    running = [line for line in lines if store.find_holder(line.id) is not None]
    foreign = frozenset(line.id for line in lines if store.adopted.is_foreign(line.id))
    return PendingThreads([line for line in lines if line not in running], running, foreign)


def complete_id(
    store: LocalStore, beginning: str, *, in_trash: bool = False
) -> list[ThreadSummary]:
    """The threads whose id, whole or short, begins so, those of this folder first.

    None where threads cannot be read: nothing fails while somebody types.
    """
    if not (store.places.data / "threads").is_dir():
        return []
    try:
        with _open_index(store, ignore_notice) as index:
            return index.complete_id(
                beginning, str(Path.cwd()), is_trashed=in_trash, limit=COMPLETIONS_MAX
            )
    except (TreadleError, OSError):
        return []


def list_unreadable(threads: Sequence[ThreadSummary]) -> list[ThreadSummary]:
    """Those that the disk refused to read; they may be intact."""
    return [line for line in threads if line.state == summaries.UNREADABLE and line.problem]


@contextmanager
def _open_index(store: LocalStore, notify: Notify) -> Generator[Index, None, None]:
    index = Index(store, notify)
    try:
        yield index
    finally:
        index.close()


def _check_state(index: Index, filters: ThreadFilters) -> None:
    """Whether there is such a state: a custom graph of tasks has its own, known by its threads."""
    if filters.state is None:
        return
    states = {*KIND_OF_STATE.values(), *(to_snake_case(one) for one in State)}
    known = [UNFINISHED, WAITING, DAMAGED, *sorted(states)]
    if parse_state(filters.state) in known:
        return
    if not index.count(ThreadFilters(state=filters.state, is_trashed=filters.is_trashed)):
        raise UnknownStateError(f"there is no state {filters.state!r}: {', '.join(known)}")
