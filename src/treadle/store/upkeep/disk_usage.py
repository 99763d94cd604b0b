"""What takes how much room on this machine. Reads sizes, not files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from treadle.store.blobs import parse_blob_name
from treadle.store.disk import FileStat
from treadle.store.file_replacement import drafts_folder
from treadle.store.folders import JOURNAL_SUFFIX, LOCK_SUFFIX, SEND_LOCK_SUFFIX, SNAPSHOT_SUFFIX
from treadle.store.journal import convert_os_errors
from treadle.store.local_store import LocalStore
from treadle.store.upkeep.references import find_references

_INDEX: Final = "index.sqlite"
"""How the files of the search index begin: the database, and what SQLite keeps beside it."""


class DiskUsageShare(Struct, frozen=True):
    """What one kind of file takes: how many there are, and their size in bytes."""

    name: str
    count: int
    size: int


class ThreadDiskUsage(Struct, frozen=True):
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


class DiskUsage(Struct, frozen=True):
    """What everything takes.

    `biggest` holds threads outside the trash, the biggest first: id and bytes, without blobs.
    """

    shares: tuple[DiskUsageShare, ...]
    biggest: tuple[tuple[str, int], ...]

    @property
    def size(self) -> int:
        """All of it, in bytes."""
        return sum(share.size for share in self.shares)


def measure_disk_usage(store: LocalStore, count_max: int) -> DiskUsage:
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
    threads, trash = _read_stats(store, folders.threads), _read_stats(store, folders.trash)
    drafts = [_read_stats(store, drafts_folder(os.path.join(folder, "_"))) for folder in kept]
    index = {name: one for name, one in _read_stats(store, data).items() if name.startswith(_INDEX)}
    shares = (
        _sum_sizes("journals", _select_by_suffix(threads, JOURNAL_SUFFIX)),
        _sum_sizes("snapshots", _select_by_suffix(threads, SNAPSHOT_SUFFIX)),
        _sum_sizes("large outputs", _read_stats(store, folders.blobs).values()),
        _sum_sizes("search index", index.values()),
        _sum_sizes("trash", trash.values()),
        _sum_sizes("quarantine", _read_stats(store, folders.quarantine).values()),
        _sum_sizes("kept branches", _read_stats(store, folders.branches).values()),
        _sum_sizes("drafts", [one for stats in drafts for one in stats.values()]),
    )
    sizes: dict[str, int] = {}
    for name, one in threads.items():
        if not name.endswith((LOCK_SUFFIX, SEND_LOCK_SUFFIX)):
            thread_id = name.partition(".")[0]
            sizes[thread_id] = sizes.get(thread_id, 0) + one.size
    order = sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0]))
    return DiskUsage(shares, tuple(order[:count_max]))


def measure_thread_usage(store: LocalStore, thread_id: str) -> ThreadDiskUsage:
    """What one thread takes, in the trash or not.

    Raises:
        UnknownThreadError: there is no such thread.
        DiskError: its files cannot be read.
    """
    folders = store.folders
    path, in_trash = folders.find(thread_id)
    sizes = []
    for suffix in (JOURNAL_SUFFIX, SNAPSHOT_SUFFIX):
        with convert_os_errors("read", path):
            found = folders.disk.stat(folders.path(thread_id, suffix, in_trash=in_trash))
        sizes.append(0 if found is None else found.size)
    blobs = {parse_blob_name(name): one for name, one in _read_stats(store, folders.blobs).items()}
    named = find_references(folders.disk, path, blobs.keys()).blobs
    size = sum(blobs[name].size for name in named)
    return ThreadDiskUsage(thread_id, sizes[0], sizes[1], len(named), size, in_trash)


def _read_stats(store: LocalStore, folder: str) -> dict[str, FileStat]:
    with convert_os_errors("list", folder):
        return store.folders.disk.stats(folder)


def _select_by_suffix(stats: dict[str, FileStat], suffix: str) -> list[FileStat]:
    return [one for name, one in stats.items() if name.endswith(suffix)]


def _sum_sizes(name: str, files: Iterable[FileStat]) -> DiskUsageShare:
    sizes = [one.size for one in files]
    return DiskUsageShare(name, len(sizes), sum(sizes))
