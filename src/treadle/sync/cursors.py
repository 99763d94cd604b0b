"""How far each thread is synced: one small file per thread. A cache, but for what it says is gone.

A file that is lost costs a question to the server. It is written before a thread is sent for the
first time, so that what may have left this machine is known from then on. Every server, and every
user of one, has a folder of its own: what one of them has is not forgotten for another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from threading import Lock
from typing import Final

import msgspec
from msgspec import Struct

from treadle.api.marks import SEQ_MAX, Mark
from treadle.store.disk import Disk
from treadle.store.file_replacement import replace_file
from treadle.store.journal import convert_os_errors
from treadle.store.paths import Places
from treadle.thread.ids import is_thread_id
from treadle.thread.record import GENESIS

_FILE_SUFFIX: Final = ".json"
CURSOR_SIZE_MAX: Final = 4096
"""Bytes of a cursor's file that are read; what is longer was not written here."""

OUTPUT_COUNT_MAX: Final = 1000
"""Large outputs that are looked for again; more are told once and not kept."""

_OUTPUTS_FILE: Final = "outputs.json"
_OUTPUTS_SIZE_MAX: Final = 1024 * 1024
_HASH: Final = re.compile(r"[0-9a-f]{32}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class Cursor(Struct, frozen=True, omit_defaults=True):
    """How far a thread is synced with a server.

    `seq`, `hash` and `size` are the last record both have, and how many bytes of this machine's
    journal end with it. `seen_seq` and `seen_hash` are where the server was seen to be, if that is
    elsewhere. `is_deleted` says that it is in the trash there, `is_purged` that the server has
    nothing of it any more, on its owner's word, `is_anew` that this machine removes it there to
    send it again from the beginning (with `is_purged`: that it was private and may be sent again),
    `is_refused` that it was not given out when it was asked for.
    `change` is the server's number of what was sent last; 0 if that is not known.
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
    is_refused: bool = False
    change: int = 0

    @property
    def acknowledged_mark(self) -> Mark:
        """The last record that both have."""
        return Mark(self.seq, self.hash)

    @property
    def server_mark(self) -> Mark:
        """Where the server was seen to be."""
        return Mark(self.seen_seq, self.seen_hash) if self.seen_seq else self.acknowledged_mark


class MissingOutput(Struct, frozen=True, order=True):
    """A large output of a thread that could not be sent or fetched: it was missing there."""

    thread_id: str
    sha256: str


_decode: Final = msgspec.json.Decoder(Cursor).decode
_decode_missing: Final = msgspec.json.Decoder(tuple[MissingOutput, ...]).decode


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
        self._root = str(places.state / "sync" / "cursors")
        digest = sha256(f"{url}\n{user}".encode()).hexdigest()
        self.folder = f"{self._root}/{digest[:16]}"
        self.url = url
        self.user = user
        self._missing_lock = Lock()

    def new(self) -> Cursor:
        """The cursor of a thread of which the server has nothing yet."""
        return Cursor(self.url, self.user)

    def get(self, thread_id: str) -> Cursor | None:
        """The cursor of a thread; `None` if it was never sent to this server by this user.

        Raises:
            DiskError: the disk refused.
        """
        found = self._read(self._path(thread_id))
        is_own = found is not None and (found.url, found.user) == (self.url, self.user)
        return found if is_own else None

    def list_other_cursors(self, thread_id: str) -> list[Cursor]:
        """Its cursors at other servers, and of other users, that may have a copy of it still.

        Raises:
            DiskError: the disk refused.
        """
        with convert_os_errors("list", self._root):
            folders = [f"{self._root}/{name}" for name in self._disk.list(self._root)]
        others = [one for one in folders if one != self.folder]
        found = (self._read(f"{one}/{thread_id}{_FILE_SUFFIX}") for one in others)
        return [one for one in found if one is not None and not one.is_purged]

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
        with convert_os_errors("remove", path), suppress(FileNotFoundError):
            self._disk.unlink(path)
            self._disk.sync_folder(self.folder)

    def ids(self) -> list[str]:
        """The threads of which there is a file, newest first."""
        with convert_os_errors("list", self.folder):
            names = self._disk.list(self.folder)
        found = [name.removesuffix(_FILE_SUFFIX) for name in names if name.endswith(_FILE_SUFFIX)]
        return sorted(filter(is_thread_id, found), reverse=True)

    def missing_outputs(self) -> frozenset[MissingOutput]:
        """The large outputs that are to be looked for again. Raises `DiskError`."""
        path = f"{self.folder}/{_OUTPUTS_FILE}"
        with convert_os_errors("read", path):
            try:
                data = self._disk.read_range(path, 0, _OUTPUTS_SIZE_MAX)
            except FileNotFoundError:
                return frozenset()
        try:
            found = _decode_missing(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return frozenset()
        return frozenset(
            one for one in found if is_thread_id(one.thread_id) and _SHA256.fullmatch(one.sha256)
        )

    def add_missing_outputs(self, missing: Iterable[MissingOutput]) -> None:
        """Add to them; several threads may do it at a time. Raises as `set_missing_outputs`."""
        with self._missing_lock:
            self.set_missing_outputs(self.missing_outputs() | frozenset(missing))

    def set_missing_outputs(self, missing: Iterable[MissingOutput]) -> None:
        """Keep which outputs are to be looked for again: `OUTPUT_COUNT_MAX` at most, durably.

        Raises:
            DiskError: the old ones stand.
        """
        new = frozenset(sorted(missing)[-OUTPUT_COUNT_MAX:])
        if new != self.missing_outputs():
            data = msgspec.json.encode(sorted(new)) + b"\n"
            replace_file(self._disk, f"{self.folder}/{_OUTPUTS_FILE}", data)

    def _read(self, path: str) -> Cursor | None:
        """A cursor that can be one; `None` if there is none: one that cannot be is lost."""
        with convert_os_errors("read", path):
            try:
                data = self._disk.read_range(path, 0, CURSOR_SIZE_MAX)
            except (FileNotFoundError, NotADirectoryError):
                return None
        try:
            found = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        numbers = (found.seq, found.size, found.seen_seq)
        is_one = all(0 <= one <= SEQ_MAX for one in numbers) and all(
            _HASH.fullmatch(one) for one in (found.hash, found.seen_hash)
        )
        return found if is_one else None

    def _path(self, thread_id: str) -> str:
        assert is_thread_id(thread_id), thread_id
        return f"{self.folder}/{thread_id}{_FILE_SUFFIX}"
