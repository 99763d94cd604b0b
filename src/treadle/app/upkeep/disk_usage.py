"""What takes how much room: the store part by part, and each thread."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from treadle.app.notices import Notify, ignore_notice
from treadle.app.sizes import human_size
from treadle.app.upkeep.state_disk_usage import FileStateUsage, measure_file_states
from treadle.errors import StoreError, UnknownThreadError
from treadle.store.local_store import LocalStore
from treadle.store.upkeep.disk_usage import (
    DiskUsage,
    DiskUsageShare,
    ThreadDiskUsage,
    measure_disk_usage,
    measure_thread_usage,
)
from treadle.store.upkeep.garbage import GarbageCollector
from treadle.thread.safe_text import sanitize_text

NAMED_COUNT_MAX: Final = 10
"""Threads that are named."""
TITLE_SIZE_MAX: Final = 64 * 2**20
"""A thread that takes more is not read for its title."""
READ_SIZE_MAX: Final = 256 * 2**20
READ_BY_GC: Final = ("journals", "trash", "quarantine", "kept branches")
"""Bytes of these that are read to say what gc can free: a second or two."""


class LargeThread(Struct, frozen=True):
    """A thread that takes much: its size in bytes, and its title if it has one that was read."""

    id: str
    size: int
    title: str | None

    @property
    def is_read(self) -> bool:
        """Whether it was read for its title."""
        return self.size <= TITLE_SIZE_MAX


class StoreUsage(Struct, frozen=True):
    """What the store takes, in bytes.

    `gc_frees` is what gc could free, `None` where that is not known. `shares` are the kinds of
    files. `file_states` are in the repositories of threads; `None` where that cannot be known.
    """

    size: int
    gc_frees: int | None
    shares: tuple[DiskUsageShare, ...]
    biggest: tuple[LargeThread, ...]
    file_states: FileStateUsage | None


class ThreadUsage(Struct, frozen=True):
    """What a thread takes in the store, and in its repository: `None` where nobody knows."""

    room: ThreadDiskUsage
    file_states: FileStateUsage | None


def measure_store(store: LocalStore, *, notify: Notify = ignore_notice) -> StoreUsage:
    """What everything takes, and what of that can be freed; `notify` gets what is not known.

    Raises:
        DiskError: a folder cannot be read.
    """
    states = _measure_states(store, None, notify)
    room = measure_disk_usage(store, NAMED_COUNT_MAX)
    return StoreUsage(
        room.size,
        measure_garbage(store, room, notify),
        room.shares,
        tuple(LargeThread(one, size, _read_title(store, one, size)) for one, size in room.biggest),
        states,
    )


def measure_thread(
    store: LocalStore, thread: str, *, notify: Notify = ignore_notice
) -> ThreadUsage:
    """What one thread takes, in the trash or not, by the beginning or end of its id.

    Raises:
        UsageError: there is none, or several.
        DiskError: a folder cannot be read.
    """
    try:
        thread_id = store.resolve(thread)
    except UnknownThreadError:
        thread_id = store.resolve(thread, in_trash=True)
    room = measure_thread_usage(store, thread_id)
    return ThreadUsage(room, _measure_states(store, thread_id, notify))


def measure_garbage(store: LocalStore, room: DiskUsage, notify: Notify) -> int | None:
    """What gc could free, in bytes; `None` where that is not known.

    Such as where a file cannot be read, or so much would have to be read that sizes, which are
    known at once, would have to wait.
    """
    size = sum(one.size for one in room.shares if one.name in READ_BY_GC)
    if size > READ_SIZE_MAX:
        text = f"what gc can free is not known: it would read {human_size(size)}"
        notify(f"{text}; `treadle gc --dry-run` does")
        return None
    try:
        return GarbageCollector(store).plan().size
    except StoreError as error:
        notify(f"what gc can free is not known: {error.message}")
        return None


def _read_title(store: LocalStore, thread_id: str, size: int) -> str | None:
    summary = store.summary(thread_id) if size <= TITLE_SIZE_MAX else None
    return None if summary is None else summary.title


def _measure_states(
    store: LocalStore, thread_id: str | None, notify: Notify
) -> FileStateUsage | None:
    try:
        states = measure_file_states(store, thread_id)
    except StoreError as error:
        notify(f"what file states take is not known: {error.message}")
        return None
    for one in states.skipped:
        notify(sanitize_text(f"file states that are not counted: {one}"))
    return states
