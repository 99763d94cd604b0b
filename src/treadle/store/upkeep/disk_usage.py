"""What takes how much room on this machine. Reads sizes, not files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from treadle.store.blobs import blob_of
from treadle.store.disk import FileStat
from treadle.store.drafts import drafts_of
from treadle.store.folders import JOURNAL, LOCK, SENDING, SNAPSHOT
from treadle.store.journal import told_as
from treadle.store.local import LocalStore
from treadle.store.upkeep.references import mentions_of

_INDEX: Final = "index.sqlite"
"""How the files of the search index begin: the database, and what SQLite keeps beside it."""


class Share(Struct, frozen=True):
    """What one kind of file takes: how many there are, and their size in bytes."""

    name: str
    count: int
    size: int


class ThreadRoom(Struct, frozen=True):
    """What one thread takes, in bytes. Blobs count for every thread that names them."""

    id: str
    journal_size: int
    snapshot_size: int
    blob_count: int
    blob_size: int
    is_in_trash: bool = False

    @property
    def size(self) -> int:
        """All of it."""
        return self.journal_size + self.snapshot_size + self.blob_size


class Room(Struct, frozen=True):
    """What everything takes.

    `biggest` holds threads outside the trash, the biggest first: id and bytes, without blobs.
    """

    shares: tuple[Share, ...]
    biggest: tuple[tuple[str, int], ...]

    @property
    def size(self) -> int:
        """All of it, in bytes."""
        return sum(share.size for share in self.shares)


def room_of(store: LocalStore, count_max: int) -> Room:
    """What the store takes.

    Args:
        store: the store.
        count_max: how many threads are named.

    Raises:
        DiskError: a folder cannot be read.
    """
    folders = store.folders
    data = os.path.dirname(folders.threads)
    kept = (folders.threads, folders.trash, folders.blobs)
    threads, trash = _stats(store, folders.threads), _stats(store, folders.trash)
    drafts = [_stats(store, drafts_of(os.path.join(folder, "_"))) for folder in kept]
    index = {name: one for name, one in _stats(store, data).items() if name.startswith(_INDEX)}
    shares = (
        _share("journals", _ending(threads, JOURNAL)),
        _share("snapshots", _ending(threads, SNAPSHOT)),
        _share("large outputs", _stats(store, folders.blobs).values()),
        _share("search index", index.values()),
        _share("trash", trash.values()),
        _share("quarantine", _stats(store, folders.quarantine).values()),
        _share("kept branches", _stats(store, folders.branches).values()),
        _share("drafts", [one for stats in drafts for one in stats.values()]),
    )
    sizes: dict[str, int] = {}
    for name, one in threads.items():
        if not name.endswith((LOCK, SENDING)):
            thread_id = name.partition(".")[0]
            sizes[thread_id] = sizes.get(thread_id, 0) + one.size
    order = sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))
    return Room(shares, tuple(order[:count_max]))


def room_of_thread(store: LocalStore, thread_id: str) -> ThreadRoom:
    """What one thread takes, in the trash or not.

    Raises:
        UnknownThreadError: there is no such thread.
        DiskError: its files cannot be read.
    """
    folders = store.folders
    path, in_trash = folders.find(thread_id)
    sizes = []
    for suffix in (JOURNAL, SNAPSHOT):
        with told_as("read", path):
            found = folders.disk.stat(folders.path(thread_id, suffix, in_trash=in_trash))
        sizes.append(0 if found is None else found.size)
    blobs = {blob_of(name): one for name, one in _stats(store, folders.blobs).items()}
    named = mentions_of(folders.disk, path, blobs.keys()).blobs
    size = sum(blobs[name].size for name in named)
    return ThreadRoom(thread_id, sizes[0], sizes[1], len(named), size, in_trash)


def _stats(store: LocalStore, folder: str) -> dict[str, FileStat]:
    with told_as("list", folder):
        return store.folders.disk.stats(folder)


def _ending(stats: dict[str, FileStat], suffix: str) -> list[FileStat]:
    return [one for name, one in stats.items() if name.endswith(suffix)]


def _share(name: str, files: Iterable[FileStat]) -> Share:
    sizes = [one.size for one in files]
    return Share(name, len(sizes), sum(sizes))
