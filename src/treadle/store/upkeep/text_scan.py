"""Where on this machine a text may still stand: every file of the data folder, looked through."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from treadle.errors import DiskError, UsageError
from treadle.store.blobs import REMOVAL_SUFFIX, is_blob_name
from treadle.store.file_replacement import drafts_folder
from treadle.store.folders import JOURNAL_SUFFIX, LOCK_SUFFIX, SNAPSHOT_SUFFIX, StoreFolders
from treadle.store.journal import convert_os_errors
from treadle.store.upkeep.foreign_files import list_foreign_files
from treadle.thread.facts import Base
from treadle.thread.record import scan_journal
from treadle.thread.scrub import RecordChange, scrub_journal

Redact: TypeAlias = Callable[[str], str]

_HEADER_SIZE_MAX: Final = 2**18
"""Bytes of a record 1: names and paths."""

NOTE_SIZE_MAX: Final = 64 * 1024
"""Bytes of a lock file that are read: who held it last stands there, on a line."""

PIECE_SIZE: Final = 4 * 2**20
"""Bytes of a long file that are looked through at a time: it takes ten times as much memory."""

OVERLAP_SIZE: Final = 2**19
"""Bytes that a piece has in common with the next one: a text in its longest form is in one."""

_NO_FILE_ERRORS: Final = {errno.ENOENT, errno.EISDIR, errno.EINVAL, errno.ELOOP, errno.ENXIO}
"""What reading says of what is gone, a folder, a device, a link."""


class _HeaderFields(Struct):
    base: Base | None = None


class _FirstRecord(Struct):
    event: _HeaderFields


_decode_first: Final = msgspec.json.Decoder(_FirstRecord).decode


def redact_bytes(data: bytes, redact: Redact) -> bytes:
    """The bytes with the text taken out, whatever else they are."""
    text = data.decode("utf-8", "surrogateescape")
    changed = redact(text)
    return data if changed == text else changed.encode("utf-8", "surrogateescape")


def redact_lines(data: bytes, redact: Redact) -> bytes:
    """`redact_bytes` for journals and snapshots: none of their texts goes beyond its line."""
    return b"".join(redact_bytes(piece, redact) for piece in _split_pieces(data))


def _split_pieces(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + PIECE_SIZE) + 1 or len(data)
        yield data[start:end]
        start = end


class TextScanner:
    """Looks through the files of a store.

    Args:
        folders: where they are.
        redact: takes the text out of a string; by that it also tells whether it is there.
    """

    def __init__(self, folders: StoreFolders, redact: Redact) -> None:
        self._folders = folders
        self._disk = folders.disk
        self._redact = redact

    def list_journals(self, thread_id: str) -> list[tuple[str, bool]]:
        """The journals of a thread and whether each is in the trash; usually there is one.

        One that is missing is named if there is a snapshot of it.
        """
        found: list[tuple[str, bool]] = []
        for in_trash in (False, True):
            path = self._folders.path(thread_id, JOURNAL_SUFFIX, in_trash=in_trash)
            names = self._list_names(os.path.dirname(path))
            if {thread_id + JOURNAL_SUFFIX, thread_id + SNAPSHOT_SUFFIX} & names:
                found.append((path, in_trash))
        return found

    def read_bases(self) -> dict[str, Base]:
        """What each fork of this machine goes on from."""
        found: dict[str, Base] = {}
        for in_trash in (True, False):
            for thread_id in self._folders.ids(in_trash=in_trash):
                path = self._folders.path(thread_id, JOURNAL_SUFFIX, in_trash=in_trash)
                first = self._read_file(path, _HEADER_SIZE_MAX).partition(b"\n")[0]
                try:
                    base = _decode_first(first).event.base
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    continue  # it can be nobody's fork: it cannot be read
                if base is not None:
                    found[thread_id] = base
        return found

    def redact_blobs(self) -> dict[str, bytes]:
        """The blobs that hold the text, by name, without it; those about to be removed too."""
        found: dict[str, bytes] = {}
        for file in self._list_names(self._folders.blobs):
            name = file.removesuffix(REMOVAL_SUFFIX)
            if is_blob_name(name):
                data = self._read_file(os.path.join(self._folders.blobs, file))
                changed = redact_bytes(data, self._redact)
                if changed != data:
                    found[name] = changed
        return found

    def remove_blob(self, name: str) -> None:
        """Remove a blob under both names it may have; durable once the folder is synced."""
        for file in (name, name + REMOVAL_SUFFIX):
            path = os.path.join(self._folders.blobs, file)
            with convert_os_errors("remove", path), suppress(FileNotFoundError):
                self._disk.unlink(path)

    def find_threads_naming(self, blobs: Iterable[str]) -> dict[str, set[str]]:
        """The threads whose journals name a blob, by blob. Torn and damaged bytes count."""
        found: dict[str, set[str]] = {name: set() for name in blobs}
        if not found:
            return found
        for in_trash in (False, True):
            for thread_id in self._folders.ids(in_trash=in_trash):
                data = self._read_file(
                    self._folders.path(thread_id, JOURNAL_SUFFIX, in_trash=in_trash)
                )
                for name, threads in found.items():
                    if name.encode() in data:
                        threads.add(thread_id)
        return found

    def redact_quarantine(
        self, thread_id: str, change: RecordChange
    ) -> Iterator[tuple[str, bytes]]:
        """What is in quarantine, or a kept branch, of a thread and holds the text; without it.

        A branch stays a journal: forks go on from it.
        """
        for folder in (self._folders.quarantine, self._folders.branches):
            for name in sorted(self._list_names(folder)):
                if name.startswith(thread_id):
                    path = os.path.join(folder, name)
                    data = self._read_file(path)
                    changed = redact_bytes(data, self._redact)
                    if changed != data:
                        is_branch = folder == self._folders.branches
                        yield path, self._redact_branch(data, change) if is_branch else changed

    def _redact_branch(self, data: bytes, change: RecordChange) -> bytes:
        """A kept branch without the text; what is no record of it as it comes."""
        with suppress(UsageError):
            new = scrub_journal(data, change).data
            rest = data[scan_journal(data).head.size :]
            return new + redact_bytes(rest, self._redact)
        return redact_bytes(data, self._redact)

    def find_files(self) -> list[str]:
        """The paths of all of the store's files that hold the text.

        What is not the store's is not read, however large: nobody knows what it is. Of a lock, the
        note of who held it is.
        """
        folders = self._folders
        data = os.path.dirname(folders.threads)
        kept = (
            *(folders.threads, folders.trash, folders.blobs),
            *(folders.quarantine, folders.branches),
        )
        drafts = (drafts_folder(os.path.join(folder, "_")) for folder in kept)
        foreign, found = set(list_foreign_files(folders)), list[str]()
        for folder in (*kept, *drafts, data):
            for name in sorted(self._list_names(folder)):
                path = os.path.join(folder, name)
                if path in foreign:
                    continue
                if self._has_text(path, NOTE_SIZE_MAX if name.endswith(LOCK_SUFFIX) else None):
                    found.append(path)
        return found

    def _has_text(self, path: str, size_max: int | None) -> bool:
        """Whether the text is in a file, or in the first bytes of it."""
        start = 0
        while piece := self._read_file(path, size_max or PIECE_SIZE, start):
            if redact_bytes(piece, self._redact) != piece:
                return True
            if size_max or len(piece) < PIECE_SIZE:
                break
            start += PIECE_SIZE - OVERLAP_SIZE
        return False

    def _list_names(self, folder: str) -> set[str]:
        with convert_os_errors("list", folder):
            return set(self._disk.list(folder))

    def remove_drafts(self, thread_id: str) -> None:
        """Remove what was being written for a thread, or holds the text, when a process died."""
        folders = self._folders
        for folder in (
            *(folders.threads, folders.trash, folders.blobs),
            *(folders.quarantine, folders.branches),
        ):
            drafts = drafts_folder(os.path.join(folder, thread_id))
            for name in self._list_names(drafts):
                path = os.path.join(drafts, name)
                data = self._read_file(path)
                if name.startswith(thread_id) or redact_bytes(data, self._redact) != data:
                    with convert_os_errors("remove", path), suppress(FileNotFoundError):
                        self._disk.unlink(path)
                        self._disk.sync_folder(drafts)

    def _read_file(self, path: str, size: int = -1, start: int = 0) -> bytes:
        """The file's bytes; none if it is gone, or no plain file. What cannot be read is told."""
        try:
            return self._disk.read_range(path, start, size)
        except OSError as error:
            if error.errno not in _NO_FILE_ERRORS:
                raise DiskError("read", path, error) from error
            return b""
