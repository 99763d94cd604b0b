"""What undoing the agent's changes takes, and what stands in the way. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from treadle.workspace.files.entries import FileChange, FileEntry, Touched


class Plan(Struct, frozen=True):
    """How files get from where they are to where they were before the agent's changes.

    `changes` go from each file as it is to as it is to be. `conflicts` are those of them (by path)
    that somebody else changed as well, `unkept` files whose content was not saved: they stay as
    they are. `is_half_done` says that some are already as they are to be.
    """

    changes: tuple[FileChange, ...]
    conflicts: tuple[FileChange, ...] = ()
    unkept: tuple[FileChange, ...] = ()
    is_half_done: bool = False


def plan(touched: Mapping[bytes, Touched], present: Mapping[bytes, FileEntry]) -> Plan:
    """What is to be done to undo these changes.

    A file is as it was before the agent's first change: what others had changed until then stays.
    One that others changed between two of the agent's changes, or after the last, is a conflict.

    Args:
        touched: what the agent changed.
        present: the files as they are now.
    """
    changes, conflicts, unkept = [], [], []
    is_half_done = False
    for path, one in touched.items():
        now, then = present.get(path), one.change.old
        if now == then:
            is_half_done = is_half_done or one.change.new != then
            continue
        change = FileChange(path, now, then)
        if not change.is_kept:
            unkept.append(change)
            continue
        changes.append(change)
        if one.by_others or now != one.change.new:
            conflicts.append(change)
    return Plan(tuple(changes), tuple(conflicts), tuple(unkept), is_half_done)
