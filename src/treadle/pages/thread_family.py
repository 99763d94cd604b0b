"""What a thread goes on from, and what goes on from it: forks and sub-agents as a tree. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from treadle.pages.ports import ThreadRow
from treadle.thread.document import ThreadSummary

FAMILY_COUNT_MAX: Final = 200
"""Threads of a family that are shown."""
DEPTH_MAX: Final = 8
"""What hangs deeper stands as far to the right as this."""


class FamilyRow(Struct, frozen=True):
    """A thread of a family: how deep it hangs, and whether it is the one that is looked at."""

    row: ThreadRow
    depth: int
    is_this: bool


def find_above(line: ThreadSummary) -> str:
    """The thread that it goes on from, or works for; empty if it stands by itself."""
    return line.forked_from or line.parent or ""


def find_family_ids(lines: Mapping[str, ThreadSummary], thread_id: str) -> list[str]:
    """The threads that hang together with one, from the topmost down.

    Args:
        lines: all threads that may be shown, by their ids.
        thread_id: the one.
    """
    below = defaultdict(list)
    for line in lines.values():
        below[find_above(line)].append(line.id)
    top, seen = thread_id, {thread_id}
    while (above := find_above(lines[top])) in lines and above not in seen:
        top = above
        seen.add(above)
    found, todo = {top: None}, [top]
    while todo and len(found) < FAMILY_COUNT_MAX:
        for one in below[todo.pop(0)]:
            if one not in found:
                found[one] = None
                todo.append(one)
    return [*found][:FAMILY_COUNT_MAX]


def order_family(rows: Sequence[ThreadRow], thread_id: str) -> list[FamilyRow]:
    """The threads of a family, each below the one that it hangs on.

    Args:
        rows: in any order; what one hangs on may be missing.
        thread_id: the thread whose family it is.
    """
    known = {row.thread.id for row in rows}
    below = defaultdict(list)
    for row in sorted(rows, key=lambda one: (one.thread.created_at, one.thread.id)):
        above = find_above(row.thread)
        below[above if above in known else ""].append(row)
    found: list[FamilyRow] = []
    told: set[str] = set()
    # Records of others may say that two hang on each other: then one of them begins.
    for first in (*below[""], *rows):
        todo = [(first, 0)]
        while todo:
            row, depth = todo.pop()
            if row.name in told:
                continue
            told.add(row.name)
            is_this = row.thread.id == thread_id
            found.append(FamilyRow(row, min(depth, DEPTH_MAX), is_this))
            todo += [(one, depth + 1) for one in reversed(below[row.thread.id])]
    return found
