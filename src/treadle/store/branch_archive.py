"""What was kept of a thread when another machine's branch took its place: whole journals.

The file is named after the thread and the last record of the branch. It is durable before the
thread's journal is replaced, and nothing removes it by itself. A fork that went on from a version
which only that branch has finds its base there.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from treadle.store.file_replacement import replace_file
from treadle.store.folders import JOURNAL_SUFFIX, StoreFolders
from treadle.store.journal import JournalReader, convert_os_errors
from treadle.thread.branches import collect_merged_branch
from treadle.thread.facts import Base
from treadle.thread.record import Head, Record

_NAME: Final = re.compile(r"(?P<thread>[^.@]+)@(?P<seq>\d{1,16})-(?P<hash>[0-9a-f]{32})\.jsonl")


class ArchivedBranch(Struct, frozen=True):
    """A branch that was kept: of which thread, its last record, the file."""

    thread: str
    version: int
    hash: str
    path: str


def archive_branch(folders: StoreFolders, thread_id: str, head: Head, data: bytes) -> str:
    """Keep a journal as a branch, durably. Done again, it is the same file.

    Args:
        folders: where.
        thread_id: whose it is.
        head: its last record.
        data: its bytes.

    Returns:
        The path.

    Raises:
        DiskError: it is not kept; nothing else has changed.
    """
    path = os.path.join(folders.branches, f"{thread_id}@{head.seq}-{head.hash}{JOURNAL_SUFFIX}")
    replace_file(folders.disk, path, data)
    return path


def list_archived_branches(folders: StoreFolders, thread_id: str = "") -> Iterator[ArchivedBranch]:
    """The branches that are kept, of one thread or of all, in the order of their names.

    Raises:
        DiskError: the folder cannot be read.
    """
    with convert_os_errors("list", folders.branches):
        names = folders.disk.list(folders.branches)
    for name in sorted(names):
        found = _NAME.fullmatch(name)
        if found is not None and thread_id in ("", found["thread"]):
            path = os.path.join(folders.branches, name)
            yield ArchivedBranch(found["thread"], int(found["seq"]), found["hash"], path)


def find_base_journal(folders: StoreFolders, base: Base, path: str) -> str:
    """The journal that holds what a fork goes on from: the thread's own, or a kept branch of it.

    Args:
        folders: where they are.
        base: what the fork knows.
        path: the thread's own journal, which is also the answer if none holds it.

    Raises:
        DiskError: the disk refused.
    """
    kept = [
        one.path
        for one in list_archived_branches(folders, base.thread)
        if one.version >= base.version
    ]
    for one in (path, *kept) if kept else ():
        if _has_base(folders, one, base):
            return one
    return path


def find_merged_branch(folders: StoreFolders, base: Base, path: str) -> list[Record] | None:
    """What a fork goes on from, if no journal holds it but a merge in one of them does.

    So it is on a machine that has never had the branch, and took in how it ended. The merge stands
    in the thread, or in a kept branch of it: one that was never sent was merged again otherwise.

    Args:
        folders: where the thread is.
        base: what the fork knows.
        path: the thread's own journal.

    Raises:
        DiskError: the disk refused.
    """
    for one in (path, *(kept.path for kept in list_archived_branches(folders, base.thread))):
        branch = collect_merged_branch(JournalReader(folders.disk, one), base.version, base.hash)
        if branch is not None:
            return branch
    return None


def _has_base(folders: StoreFolders, path: str, base: Base) -> bool:
    count = min(max(base.version, 0), sys.maxsize)
    last = [*islice(JournalReader(folders.disk, path), count)][-1:]
    return any(one.is_at(base.version, base.hash) for one in last)
