"""What `git status` says, as values. Pure."""

from __future__ import annotations

import os
from typing import Final

from msgspec import Struct

_FIELD_COUNT: Final = {b"1 ": 8, b"u ": 10, b"? ": 1}
"""Blanks before the path of each kind of record; the path may hold blanks itself."""


class StatusEntry(Struct, frozen=True):
    """One file that differs from HEAD.

    `path` is as `os.fsdecode` gives it, relative to the root of the repository. `name` is the same
    relative to the workspace and fit to be stored; empty outside the workspace. `letters` are
    git's two (index, then work tree): `.M`, `A.`, `??`, `UU`. `record` is git's whole line.
    """

    path: str
    name: str
    letters: str
    is_submodule: bool = False
    record: bytes = b""

    @property
    def is_untracked(self) -> bool:
        """Whether git does not know the file."""
        return self.letters == "??"

    @property
    def is_staged(self) -> bool:
        """Whether the index differs from HEAD here."""
        return self.letters[0] not in ".?"

    @property
    def staged(self) -> str:
        """The object id of what is staged here; empty if that is what HEAD has, or nothing."""
        fields = self.record.split(b" ", 8)
        is_there = self.is_staged and fields[0] == b"1" and self.letters[0] != "D"
        return fields[7].decode() if is_there else ""

    @property
    def is_unmerged(self) -> bool:
        """Whether a merge left a conflict here."""
        return self.record.startswith(b"u ")


class Status(Struct, frozen=True):
    """How the repository stands.

    `branch` is `None` when HEAD is detached, `head` before the first commit. `changes` stand in
    git's order, from the whole repository; `is_cut` says that there are more.
    """

    branch: str | None
    head: str | None
    changes: tuple[StatusEntry, ...]
    is_cut: bool = False

    @property
    def inside(self) -> dict[str, StatusEntry]:
        """What is changed in the workspace, by name.

        Of a file that was taken out of the index and is still there, git tells both: the removal
        comes first and counts.
        """
        found: dict[str, StatusEntry] = {}
        for change in self.changes:
            if change.name:
                found.setdefault(change.name, change)
        return found


def parse_status(output: bytes, prefix: str, *, is_cut: bool = False) -> Status:
    """What `git status --porcelain=v2 --branch -z --no-renames` says.

    Args:
        output: what it wrote; if `is_cut`, the last record is not whole.
        prefix: where the workspace lies in the repository: empty, or `sub/folder/`.
        is_cut: whether it wrote more.
    """
    branch = head = None
    changes: list[StatusEntry] = []
    for record in output.split(b"\0")[:-1]:
        if record.startswith(b"# "):
            key, _, value = os.fsdecode(record[2:]).partition(" ")
            if key == "branch.oid" and value != "(initial)":
                head = value
            elif key == "branch.head" and value != "(detached)":
                branch = storable(value)
        elif record[:2] in _FIELD_COUNT:
            changes.append(_parse_change(record, prefix))
    return Status(branch, head, tuple(changes), is_cut)


def _parse_change(record: bytes, prefix: str) -> StatusEntry:
    fields = record.split(b" ", _FIELD_COUNT[record[:2]])
    path = os.fsdecode(fields[-1])
    name = storable(path.removeprefix(prefix)) if path.startswith(prefix) else ""
    if fields[0] == b"?":
        return StatusEntry(path, name, "??", record=record)
    return StatusEntry(path, name, fields[1].decode(), fields[2].startswith(b"S"), record)


def storable(text: str) -> str:
    """The text with bytes that are no UTF-8 written out: JSON cannot hold them."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
