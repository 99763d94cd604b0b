"""What a fork goes on from: whether it is what the fork knew, and nobody is changing it.

A fork is made without the lock of its base. So whoever removes or scrubs threads takes the locks
first and looks for forks then; whoever makes a fork writes its journal first and looks for those
locks then. One of the two sees the other.
"""

from __future__ import annotations

import sys
from itertools import islice

from treadle.errors import DamagedJournalError, StorageBusyError, UnknownThreadError
from treadle.store.branch_archive import find_base_journal, find_merged_branch
from treadle.store.folders import JOURNAL_SUFFIX, LOCK_SUFFIX, StoreFolders
from treadle.store.journal import JournalReader, convert_os_errors
from treadle.store.thread_reader import decode_header
from treadle.thread.facts import Base, ThreadCreated
from treadle.thread.record import Record


def is_base_unchanged(folders: StoreFolders, base: Base, last_hash: str = "") -> bool:
    """Whether a base is what a fork knew, now that the fork's journal is written.

    Args:
        folders: where it is.
        base: the base.
        last_hash: the hash its last record had when it was read, if what was read is kept: a scrub
            leaves it another one.

    Raises:
        StorageBusyError: another process may be removing or scrubbing it at this moment.
        UnknownThreadError: it is gone.
        DiskError: the disk refused.
    """
    locks = (folders.trash + LOCK_SUFFIX, folders.path(base.thread, LOCK_SUFFIX))
    with convert_os_errors("read", locks[0]):
        if all(folders.disk.is_locked(path) for path in locks):
            raise StorageBusyError(
                f"another process moves, removes or scrubs thread {base.thread}",
                hint="no fork was made; wait until it ends",
            )
    last = _read_base_ends(folders, base)[1]
    if last is None or not last.is_at(base.version, base.hash):
        return False
    return last_hash in ("", last.hash)


def check_bases(folders: StoreFolders, header: ThreadCreated) -> None:
    """Judge the records that a fork has by reference, in every thread that it has them from.

    Raises:
        DamagedJournalError: they are not all there, or not those it knew.
        UnknownEntryError: this version cannot read what they begin with.
        DiskError: the disk refused.
    """
    fork = header.thread
    seen = {fork}
    while (base := header.base) is not None:
        try:
            first, last = _read_base_ends(folders, base)
        except UnknownThreadError:
            first = last = None
        is_known = last is not None and last.is_at(base.version, base.hash)
        if first is None or not is_known or base.thread in seen:
            raise _make_base_error(folders, fork, base)
        seen.add(base.thread)
        header = decode_header(first)


def _read_base_ends(folders: StoreFolders, base: Base) -> tuple[Record | None, Record | None]:
    """The first record of the base, and the last one up to where the fork begins."""
    path, _ = folders.find(base.thread)
    path = find_base_journal(folders, base, path)
    first: Record | None = None
    last: Record | None = None
    for last in islice(JournalReader(folders.disk, path), min(max(base.version, 0), sys.maxsize)):
        first = first or last
    if last is not None and not last.is_at(base.version, base.hash):
        branch = find_merged_branch(folders, base, path)
        last = last if branch is None else branch[-1]
    return first, last


def _make_base_error(folders: StoreFolders, fork: str, base: Base) -> DamagedJournalError:
    error = DamagedJournalError(
        folders.path(base.thread, JOURNAL_SUFFIX),
        0,
        f"it is gone, damaged or another one before version {base.version}, from which thread "
        f"{fork} goes on",
    )
    error.hint = (
        f"nothing was written; `treadle show {fork}` shows what is kept of it, `treadle verify "
        f"{base.thread}` says what is wrong, and `treadle verify {base.thread} --salvage` saves "
        "what can be had"
    )
    return error
