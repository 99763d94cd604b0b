"""How far each thread is synced: one small file per thread. A cache, but for what it says is gone.

A file that is lost costs a question to the server. It is written before a thread is sent for the
first time, so that what may have left this machine is known from then on.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from treadle.api.marks import Mark
from treadle.store.disk import Disk
from treadle.store.drafts import replace_file
from treadle.store.journal import told_as
from treadle.store.places import Places
from treadle.thread.ids import is_thread_id
from treadle.thread.record import GENESIS

_ENDING: Final = ".json"
CURSOR_SIZE_MAX: Final = 4096
"""Bytes of a cursor's file that are read; what is longer was not written here."""


class Cursor(Struct, frozen=True, omit_defaults=True):
    """How far a thread is synced with a server.

    `seq`, `hash` and `size` are the last record both have, and how many bytes of this machine's
    journal end with it. `seen_seq` and `seen_hash` are where the server was seen to be, if that is
    elsewhere. `is_deleted` says that it is in the trash there, `is_purged` that the server has
    nothing of it any more, on its owner's word, `is_anew` that this machine removes it there to
    send it again from the beginning.
    """

    url: str
    user: str
    seq: int = 0
    hash: str = GENESIS
    size: int = 0
    seen_seq: int = 0
    seen_hash: str = GENESIS
    is_deleted: bool = False
    is_purged: bool = False
    is_anew: bool = False

    @property
    def acked(self) -> Mark:
        """The last record that both have."""
        return Mark(self.seq, self.hash)

    @property
    def seen(self) -> Mark:
        """Where the server was seen to be."""
        return Mark(self.seen_seq, self.seen_hash) if self.seen_seq else self.acked


_decode: Final = msgspec.json.Decoder(Cursor).decode


class Cursors:
    """The cursors of a home, as far as they are about one server and one user of it.

    Args:
        disk: how files are reached.
        places: where the folders are.
        url: the server.
        user: who one is there.
    """

    def __init__(self, disk: Disk, places: Places, url: str, user: str) -> None:
        self._disk = disk
        self.folder = str(places.state / "sync" / "cursors")
        self.url = url
        self.user = user

    def new(self) -> Cursor:
        """The cursor of a thread of which the server has nothing yet."""
        return Cursor(self.url, self.user)

    def get(self, thread_id: str) -> Cursor | None:
        """The cursor of a thread; `None` if it was never sent to this server by this user.

        Raises:
            DiskError: the disk refused.
        """
        path = self._path(thread_id)
        with told_as("read", path):
            try:
                data = self._disk.read_range(path, 0, CURSOR_SIZE_MAX)
            except FileNotFoundError:
                return None
        try:
            found = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        return found if (found.url, found.user) == (self.url, self.user) else None

    def put(self, thread_id: str, cursor: Cursor) -> None:
        """Keep a cursor, durably; nothing is written if it is kept already.

        Raises:
            DiskError: the old one stands.
        """
        if self.get(thread_id) != cursor:
            replace_file(self._disk, self._path(thread_id), msgspec.json.encode(cursor) + b"\n")

    def remove(self, thread_id: str) -> None:
        """Forget a thread. Raises `DiskError`."""
        path = self._path(thread_id)
        with told_as("remove", path), suppress(FileNotFoundError):
            self._disk.unlink(path)
            self._disk.sync_folder(self.folder)

    def ids(self) -> list[str]:
        """The threads of which there is a file, of whatever server, newest first."""
        with told_as("list", self.folder):
            names = self._disk.list(self.folder)
        found = [name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING)]
        return sorted(filter(is_thread_id, found), reverse=True)

    def _path(self, thread_id: str) -> str:
        assert is_thread_id(thread_id), thread_id
        return f"{self.folder}/{thread_id}{_ENDING}"
