"""In which order the threads of a round are gone through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from treadle.sync.operations import SyncOperation
from treadle.sync.thread_comparison import ThreadComparer

_PULL_OPERATIONS = (SyncOperation.PULL, SyncOperation.MERGE)


def order_threads(
    plan: Mapping[str, SyncOperation], local_ids: set[str], comparer: ThreadComparer
) -> Iterator[str]:
    """First what must go from the server, then what comes, then what is told and sent.

    What has grown comes before what is new: a new fork may go on from what has been merged into it.
    What comes, comes for sub-agents before those they work for, so that all of them are moved
    to the trash together; what goes on from a thread comes and is sent after it.

    Args:
        plan: what is to be done about each thread.
        local_ids: the threads that are here.
        comparer: what they hang on.
    """
    depth = {one: len(comparer.list_with_dependencies(one)) for one in plan if one in local_ids}
    first = [one for one, what in plan.items() if what is SyncOperation.PURGE]
    fetched = [one for one, what in plan.items() if what is SyncOperation.FETCH]
    pulled = [one for one, what in plan.items() if what in _PULL_OPERATIONS]
    earlier = {*first, *fetched, *pulled}
    rest = [one for one in plan if one not in earlier]
    yield from sorted(first)
    yield from _sort_by_dependency(pulled, comparer)
    yield from sorted(fetched)
    yield from sorted(rest, key=lambda one: (depth.get(one, 0), one))


def _sort_by_dependency(thread_ids: list[str], comparer: ThreadComparer) -> Iterator[str]:
    """Each after what it goes on from, and before whom it works for."""
    wanted, done = sorted(thread_ids), dict[str, None]()
    above = {one: comparer.dependencies(one) for one in wanted}
    below: dict[str, list[str]] = {}
    for one in wanted:
        below.setdefault(above[one].parent, []).append(one)

    def visit(one: str, path: frozenset[str]) -> None:
        if one in done or one in path or one not in above:
            return
        if above[one].base:
            visit(above[one].base, path | {one})
        for child in below.get(one, ()):
            visit(child, path | {one})
        done[one] = None

    for one in wanted:
        visit(one, frozenset())
    return iter(done)
