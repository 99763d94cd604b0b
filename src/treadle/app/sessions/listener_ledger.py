"""What the listener of this machine has taken, in a file: no death loses it or has it done twice.

An entry is durable before anything is begun for it, and is over when that has ended. One that is
not over was cut off by a death; the next listener goes on with its thread. It is kept until its
time is over too, so that what was begun is known even where its thread was removed meanwhile.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final, Self

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.app.stores import Store
from treadle.errors import StorageBusyError
from treadle.store.file_replacement import replace_file
from treadle.store.journal import convert_os_errors
from treadle.store.thread_lock import make_own_holder, read_holder
from treadle.store.thread_requests import PersonRequest

TRIES_MAX: Final = 3
"""Times that work is gone on with by itself: what kills its process would kill it for ever."""


class LedgerEntry(Struct, frozen=True):
    """A request that counted, and whether what it led to has ended here.

    Args:
        request: its id.
        thread: which thread it is about.
        expires_at: until when it could have been taken.
        tries: how often its work was begun since it was last stopped in order.
        is_over: whether that has ended.
    """

    request: str
    thread: str
    expires_at: str
    tries: int = 1
    is_over: bool = False


class ListenerLedger:
    """The entries of this user's one listener. It holds the lock that says so.

    Args:
        store: the threads of this user.
        program: what people know this process by.

    Raises:
        StorageBusyError: another listener of this user is at work on this machine.
        DiskError: the disk refused.
    """

    def __init__(self, store: Store, program: str) -> None:
        self._disk = store.folders.disk
        folder = store.places.state / "listener"
        self._path = folder / "taken.json"
        with convert_os_errors("make", str(folder)):
            self._disk.make_folder(str(folder))
        self._lock = self._take_lock(str(folder / "listener.lock"), store.now(), program)
        self._entries = self._read(self._path)
        self._writing = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._disk.close(self._lock)

    def _take_lock(self, path: str, now: str, program: str) -> int:
        note = msgspec.json.encode(make_own_holder(now, program)) + b"\n"
        with convert_os_errors("lock", path):
            lock = self._disk.lock(path, note)
        if lock is None:
            holder = read_holder(self._disk, path)
            raise StorageBusyError(
                "this machine listens already"
                + (f": {holder.description}" if holder is not None else ""),
                hint="one listener does it for all folders: give it each with -C",
            )
        return lock

    def _read(self, path: Path) -> dict[str, LedgerEntry]:
        try:
            found = msgspec.json.decode(self._disk.read(str(path)), type=list[LedgerEntry])
        except (OSError, msgspec.DecodeError, UnicodeError, RecursionError):
            return {}  # none was written yet; what else is in it nobody can go on with
        return {one.request: one for one in found}

    def find(self, request_id: str) -> LedgerEntry | None:
        """The entry of a request that was taken here."""
        return self._entries.get(request_id)

    def note(self, request: PersonRequest, now: str) -> None:
        """Keep that a request is taken; durable when this returns.

        Raises:
            DiskError: the disk refused; nothing may be begun.
        """
        with self._writing:
            known = self._entries.get(request.id)
            tries = 1 if known is None else known.tries + 1
            entry = LedgerEntry(request.id, request.thread, request.expires_at, tries)
            found = self._entries.items()
            kept = {key: one for key, one in found if not one.is_over or one.expires_at > now}
            self._write({**kept, request.id: entry})

    def end(self, thread_id: str) -> None:
        """What was taken of a thread has ended. Raises `DiskError`: it stands as it was."""
        with self._writing:
            found = self._entries.items()
            self._write(
                {
                    key: replace(one, is_over=True) if one.thread == thread_id else one
                    for key, one in found
                }
            )

    def list_cut_off(self) -> tuple[LedgerEntry, ...]:
        """What a death has cut off, the newest of each thread."""
        found = {one.thread: one for one in self._entries.values() if not one.is_over}
        return tuple(found.values())

    def count_try(self, entry: LedgerEntry) -> bool:
        """Count that work is gone on with; whether it still may be. Raises `DiskError`."""
        if entry.tries >= TRIES_MAX:
            self.end(entry.thread)
            return False
        with self._writing:
            self._write({**self._entries, entry.request: replace(entry, tries=entry.tries + 1)})
        return True

    def reset_tries(self) -> None:
        """What is not over was stopped in order, and died of nothing. Raises `DiskError`."""
        with self._writing:
            self._write({key: replace(one, tries=0) for key, one in self._entries.items()})

    def _write(self, entries: dict[str, LedgerEntry]) -> None:
        replace_file(self._disk, str(self._path), msgspec.json.encode(list(entries.values())))
        self._entries = entries
