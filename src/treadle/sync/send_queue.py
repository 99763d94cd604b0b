"""What is to be sent and was not acknowledged yet, with what went wrong: `sync/pending.json`.

An entry is durable before the first attempt and removed after the last one. The file is for people
and for the pace of retries; what is to be sent follows from the threads and their cursors, so that
a file that is lost or damaged begins anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.errors import StorageBusyError
from treadle.store.disk import Disk
from treadle.store.file_replacement import drafts_folder, remove_drafts, replace_file
from treadle.store.journal import convert_os_errors
from treadle.store.paths import Places
from treadle.thread.record import GENESIS

SendAction: TypeAlias = Literal["upsert", "delete", "replace"]
"""What a server is asked for: to take records, to remove all of a thread, to take it anew."""

ParkReason: TypeAlias = Literal["", "held", "refused"]
"""Why it is not tried by itself: a secret was found in it, or the server said no."""

ERROR_LENGTH_MAX: Final = 1000
"""Characters of what went wrong that are kept."""

PENDING_SIZE_MAX: Final = 64 * 1024 * 1024
LOCK_TRIES: Final = 200
LOCK_WAIT_S: Final = 0.025


class PendingSyncEntry(Struct, frozen=True, omit_defaults=True):
    """A thread that waits to be sent.

    `failed_at` is empty before the first failure. `parked` says why it is not tried by itself any
    more; it is again when the thread has got further than `version` and `hash`. `found` names the
    kinds of secrets that were seen, never a secret.
    """

    thread_id: str
    operation: SendAction
    failed_at: str = ""
    retry_count: int = 0
    last_error: str = ""
    parked: ParkReason = ""
    version: int = 0
    hash: str = GENESIS
    found: tuple[str, ...] = ()


class _PendingFile(Struct):
    entries: list[PendingSyncEntry] = []


class SyncConflict(Struct, frozen=True):
    """Two machines had gone on with a thread: what was done about it, and when."""

    thread_id: str
    at: str
    how: Literal["merge", "fork"]
    version: int
    kept: str = ""
    fork: str = ""
    note: str = ""


class SyncState(Struct, frozen=True, omit_defaults=True):
    """What is known of the server.

    `change` is the last change that was looked at, `stamp` what the server calls it. `failures`
    counts how often it could not be reached since it was; before `next_try_at` nobody asks it
    unasked. `conflicts` holds the newest conflicts, at most `CONFLICT_COUNT_MAX`. `unscrubbed` are
    the threads in which a text stands again that was scrubbed here, because another machine's scrub
    was first; `shown_again` says for each in which records, by id, with digests of what these say.
    """

    url: str = ""
    user: str = ""
    change: int = 0
    stamp: str = ""
    failures: int = 0
    failed_at: str = ""
    last_error: str = ""
    next_try_at: str = ""
    synced_at: str = ""
    conflicts: tuple[SyncConflict, ...] = ()
    unscrubbed: tuple[str, ...] = ()
    shown_again: dict[str, dict[str, str]] = {}


CONFLICT_COUNT_MAX: Final = 100


def add_conflict(state: SyncState, conflict: SyncConflict, is_again: bool) -> SyncState:
    """With one more conflict, the last.

    Args:
        state: what is known of the server.
        conflict: it.
        is_again: whether what was done about the thread's last one was not sent, and is done again:
            it takes the place of that, and tells of the branch as it was before both.
    """
    before = [one for one in state.conflicts if one.thread_id == conflict.thread_id]
    others = state.conflicts
    if is_again and before:
        last = before[-1]
        others = tuple(one for one in others if one is not last)
        conflict = replace(conflict, version=last.version, kept=last.kept or conflict.kept)
    return replace(state, conflicts=(*others, conflict))


_decode: Final = msgspec.json.Decoder(_PendingFile).decode
_decode_state: Final = msgspec.json.Decoder(SyncState).decode
_encode: Final = msgspec.json.Encoder().encode


def _pause() -> None:
    threading.Event().wait(LOCK_WAIT_S)


class PendingSyncStore:
    """The file, shared by all processes of a home, and what is known of the server beside it.

    Args:
        disk: how files are reached.
        places: where the folders are.
        pause: waits a little for another process that is writing.
    """

    def __init__(self, disk: Disk, places: Places, *, pause: Callable[[], object] = _pause) -> None:
        self._disk = disk
        self._pause = pause
        self.folder = str(places.state / "sync")
        self._path = f"{self.folder}/pending.json"
        self._state_path = f"{self.folder}/state.json"

    def entries(self) -> dict[str, PendingSyncEntry]:
        """All entries, by thread. None if there is no file, or none that can be read.

        Raises:
            DiskError: the disk refused.
        """
        try:
            found = _decode(self._read(self._path))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}
        return {entry.thread_id: entry for entry in found.entries}

    def add_entries(self, actions: Mapping[str, SendAction]) -> dict[str, PendingSyncEntry]:
        """Note, durably and before the first attempt, what is about to be sent.

        What is known of failures stays, if the same is to be done.

        Returns:
            All entries, by thread.

        Raises:
            StorageBusyError: other processes write all the time; nothing was noted.
            DiskError: nothing was noted.
        """
        with self._hold_lock():
            entries = self.entries()
            for thread_id, operation in actions.items():
                known = entries.get(thread_id)
                if known is None or known.operation != operation:
                    entries[thread_id] = PendingSyncEntry(thread_id, operation)
            self._write(entries)
        return entries

    def update_entries(self, changed: Mapping[str, PendingSyncEntry], done: Iterable[str]) -> None:
        """Note what became of entries, of many at once.

        Args:
            changed: entries in the place of the threads' own, of threads that wait still.
            done: threads that wait no more.

        Raises: as `begin`.
        """
        gone = set(done)
        if not (gone | changed.keys()) & self.entries().keys():
            return
        with self._hold_lock():
            left = {one: entry for one, entry in self.entries().items() if one not in gone}
            for one, entry in changed.items():
                if one in left:
                    left[one] = replace(entry, last_error=entry.last_error[:ERROR_LENGTH_MAX])
            self._write(left)

    def state(self) -> SyncState:
        """What is known of the server. Raises `DiskError`."""
        try:
            return _decode_state(self._read(self._state_path))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return SyncState()

    def change_state(self, change: Callable[[SyncState], SyncState]) -> SyncState:
        """Change what is known of the server; nothing is written if that is the same.

        Raises: as `begin`.
        """
        with self._hold_lock():
            old = self.state()
            new = change(old)
            new = replace(new, conflicts=new.conflicts[-CONFLICT_COUNT_MAX:])
            if new != old:
                replace_file(self._disk, self._state_path, _encode(new) + b"\n")
        return new

    def _write(self, entries: dict[str, PendingSyncEntry]) -> None:
        if entries == self.entries() and self._disk.stat(self._path) is not None:
            return
        remove_drafts(self._disk, drafts_folder(self._path), "pending")
        replace_file(self._disk, self._path, _encode(_PendingFile(list(entries.values()))) + b"\n")

    def _read(self, path: str) -> bytes:
        with convert_os_errors("read", path):
            try:
                return self._disk.read_range(path, 0, PENDING_SIZE_MAX)
            except FileNotFoundError:
                return b""

    @contextmanager
    def _hold_lock(self) -> Iterator[None]:
        path = f"{self.folder}/pending.lock"
        with convert_os_errors("make", self.folder):
            self._disk.make_folder(self.folder)
        for _ in range(LOCK_TRIES):
            with convert_os_errors("lock", path):
                lock = self._disk.lock(path)
            if lock is not None:
                break
            self._pause()
        else:
            raise StorageBusyError(
                f"other processes write to {self.folder} all the time", hint="try again"
            )
        try:
            yield
        finally:
            self._disk.close(lock)
