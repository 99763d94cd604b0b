"""Operations of a store that were stopped in the middle: which there are, and how they end.

- A move to the trash or back: the thread has a name in both folders. The move is finished, or
  undone if it was not recorded yet.
- The creation of a thread: the journal holds the beginning of a first write at most, so nothing
  of it was acknowledged. It goes; bytes of it are kept in quarantine. Any other journal without a
  record is damaged, or somebody else's file: it is left alone.
- A scrub: its mark says that the text may still stand somewhere. The person runs it again, as
  nobody else knows the text. One that is taken over from another machine needs no mark: the thread
  is replaced last, and until then the next sync takes it over again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from treadle.errors import DiskError, StorageBusyError, ThreadBusyError
from treadle.store.file_replacement import drafts_folder, replace_file
from treadle.store.folders import JOURNAL_SUFFIX, LOCK_SUFFIX, SNAPSHOT_SUFFIX, StoreFolders
from treadle.store.journal import convert_os_errors, cut_torn_tail, is_unfinished_creation
from treadle.store.local_store import LocalStore
from treadle.store.upkeep.trash import Trash
from treadle.thread.ids import is_thread_id
from treadle.thread.record import WRITE_SIZE_MAX, JournalCondition, scan_journal

Sign: TypeAlias = Callable[[bytes], bytes]
"""(salt) -> what only who knows the text can say of it."""

SALT_SIZE: Final = 16
_MARK_PREFIX: Final = "scrub-"
_MARK_SUFFIX: Final = ".json"


class ScrubMark(Struct, frozen=True):
    """A scrub that is under way, or was stopped; the text itself is nowhere."""

    salt: str
    signature: str
    threads: tuple[str, ...]
    at: str

    def is_of(self, sign: Sign) -> bool:
        """Whether it is a scrub of the same text."""
        return sign(bytes.fromhex(self.salt)).hex() == self.signature


def finish_operations(store: LocalStore) -> None:
    """End moves and creations that were stopped, if that can be done now.

    Where another process moves threads, or nothing can be written, they stay: they harm nothing.
    """
    trash = Trash(store)
    if not trash.list_unfinished_moves() and not any(list_unfinished_creations(store)):
        return
    try:
        with trash.hold_lock():
            trash.finish_moves()
            for thread_id in list(list_unfinished_creations(store)):
                _undo_creation(store, thread_id)
    except (DiskError, StorageBusyError):
        return


def list_unfinished_creations(store: LocalStore) -> Iterator[str]:
    """Threads of which no record is whole, and whose beginning can be an unfinished write.

    Raises:
        DiskError: the folder cannot be read.
    """
    folders = store.folders
    with convert_os_errors("list", folders.threads):
        stats = folders.disk.stats(folders.threads)
    for name, found in stats.items():
        thread_id = name.removesuffix(JOURNAL_SUFFIX)
        is_one = name.endswith(JOURNAL_SUFFIX) and is_thread_id(thread_id)
        if not is_one or found.size > WRITE_SIZE_MAX or thread_id + SNAPSHOT_SUFFIX in stats:
            continue
        if is_unfinished_creation(folders.disk, folders.path(thread_id, JOURNAL_SUFFIX)):
            yield thread_id


def _undo_creation(store: LocalStore, thread_id: str) -> None:
    folders = store.folders
    try:
        lock = store.lock(thread_id)
    except ThreadBusyError:
        return  # it is being made
    path = folders.path(thread_id, JOURNAL_SUFFIX)
    try:
        if not is_unfinished_creation(folders.disk, path):
            return
        with convert_os_errors("remove", path):
            found = scan_journal(folders.disk.read(path))
            if found.condition is JournalCondition.TORN:
                cut_torn_tail(folders.disk, path, found, folders.quarantine)
            folders.disk.unlink(path)
            folders.disk.sync_folder(folders.threads)
    finally:
        folders.disk.close(lock)


# ---- scrubs --------------------------------------------------------------------------------------


def mark_scrub(store: LocalStore, threads: Collection[str], sign: Sign) -> None:
    """Say that a scrub begins, durably, before it changes anything."""
    at, names = store.now(), tuple(sorted(threads))
    salt = sha256(" ".join((at, *names)).encode()).digest()[:SALT_SIZE]  # no other scrub has it
    mark = ScrubMark(salt.hex(), sign(salt).hex(), names, at)
    name = f"{_MARK_PREFIX}{salt.hex()}{_MARK_SUFFIX}"
    path = os.path.join(os.path.dirname(store.folders.threads), name)
    replace_file(store.folders.disk, path, msgspec.json.encode(mark))


def end_scrub(store: LocalStore, threads: Collection[str], sign: Sign) -> None:
    """The scrub of a text has ended, and with it all that was stopped of the same one."""
    folders, disk, ended = store.folders, store.folders.disk, set(threads)
    kept = (folders.threads, folders.trash, folders.blobs, folders.quarantine, folders.branches)
    for drafts in (drafts_folder(os.path.join(folder, "_")) for folder in kept):
        # A draft that was renamed may come back with the text after a power cut.
        with convert_os_errors("sync", drafts), suppress(FileNotFoundError):
            disk.sync_folder(drafts)
    for path, mark in _read_marks(store.folders):
        if mark is not None and mark.is_of(sign) and ended.issuperset(mark.threads):
            with convert_os_errors("remove", path):
                disk.unlink(path)
                disk.sync_folder(os.path.dirname(path))


def list_stopped_scrubs(store: LocalStore) -> list[tuple[str, tuple[str, ...]]]:
    """What is to be said of each scrub that was stopped, and the threads that it was about.

    None while one is under way.

    Raises:
        DiskError: the folder cannot be read.
    """
    lock = store.folders.trash + LOCK_SUFFIX
    with convert_os_errors("read", lock):
        is_under_way = store.folders.disk.is_locked(lock)
    if is_under_way:
        return []
    found = []
    for path, mark in _read_marks(store.folders):
        since = "" if mark is None else f", begun at {mark.at}"
        threads = () if mark is None else mark.threads
        text = (
            f"a scrub{since} was stopped: the text may still stand in {len(threads)} threads; run "
            f"it again, with the same text and the same --kind (who does not know the text any "
            f"more removes {path})"
        )
        found.append((text, threads))
    return found


def _read_marks(folders: StoreFolders) -> Iterator[tuple[str, ScrubMark | None]]:
    folder = os.path.dirname(folders.threads)
    with convert_os_errors("list", folder):
        names = folders.disk.list(folder)
    for name in names:
        if name.startswith(_MARK_PREFIX) and name.endswith(_MARK_SUFFIX):
            path = os.path.join(folder, name)
            with convert_os_errors("read", path):
                data = folders.disk.read(path)
            try:
                yield path, msgspec.json.decode(data, type=ScrubMark)
            except msgspec.MsgspecError:
                yield path, None
