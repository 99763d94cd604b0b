"""Which blobs and which other threads the files of threads name. Rather too many than too few.

Only what no file names may be removed for good. So files are searched as bytes, intact or not:
damage must not make anything that hangs on them go too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import closing
from typing import Final

import msgspec
from msgspec import Struct

from treadle.store.disk import Disk
from treadle.store.journal import convert_os_errors
from treadle.store.thread_reader import decode_header
from treadle.thread.codec import UnknownEntryError
from treadle.thread.record import scan_journal

HEADER_SIZE_MAX: Final = 1024 * 1024
"""Bytes in which record 1 must end to be read as one."""

_BLOB_SIZE: Final = 64
_IS_HEX: Final = bytes(0x31 if byte in b"0123456789abcdef" else 0x30 for byte in range(256))
"""Of each byte, as a table for `translate`, whether a name of a blob may hold it: 1 or 0."""
_RUN: Final = b"1" * _BLOB_SIZE
_SEARCHED_COUNT_MAX: Final = 400
"""So many names are looked for in a long run of such bytes one by one; of more, each part of the
run is looked up."""
_THREAD: Final = re.compile(rb"T-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OVERLAP: Final = 64
"""More than any name but its last byte: what the end of a piece cuts is seen whole in the next."""


class FileReferences(Struct, frozen=True):
    """What a file names.

    `blobs` holds names of blobs. `bases` holds the threads without which it cannot be read.
    """

    blobs: frozenset[str] = frozenset()
    bases: frozenset[str] = frozenset()


def find_references(disk: Disk, path: str, blobs: Collection[str] = ()) -> FileReferences:
    """What a file of a thread names; nothing if it has just gone.

    Args:
        disk: where it is.
        path: the file.
        blobs: the names that are looked for.

    The base of an intact journal stands in its first record. Where that cannot be read, every
    thread that is named anywhere may be the base.

    Raises:
        DiskError: it cannot be read, so that nothing may be removed.
    """
    with convert_os_errors("read", path):
        try:
            bases = _read_base(disk, path)
            named: set[str] = set()
            threads: set[str] = set()
            rest = b""
            with closing(disk.pieces(path)) as pieces:
                for piece in pieces if blobs or bases is None else ():
                    data = rest + piece
                    named.update(_find_blob_names(data, blobs))
                    if bases is None:
                        threads.update(found.decode() for found in _THREAD.findall(data))
                    rest = data[-_OVERLAP:]
        except FileNotFoundError:
            return FileReferences()
    own = os.path.basename(path).partition(".")[0]
    return FileReferences(
        frozenset(named), frozenset((threads if bases is None else bases) - {own})
    )


def _read_base(disk: Disk, path: str) -> set[str] | None:
    """What record 1 says; `None` if it says nothing that can be believed."""
    line, end, _ = disk.read_range(path, 0, HEADER_SIZE_MAX).partition(b"\n")
    records = scan_journal(line + end).records
    if not records:
        return None
    try:
        base = decode_header(records[0]).base
    except (UnknownEntryError, msgspec.MsgspecError):
        return None
    return set() if base is None else {base.thread}


def _find_blob_names(data: bytes, blobs: Collection[str]) -> Iterator[str]:
    """The blobs that are named; of a longer run of such letters every part may be a name."""
    for run in _find_hex_runs(data):
        count = len(run) - _BLOB_SIZE + 1
        if count > len(blobs) <= _SEARCHED_COUNT_MAX:
            yield from (name for name in blobs if name in run)
        else:
            parts = (run[start : start + _BLOB_SIZE] for start in range(count))
            yield from (name for name in parts if name in blobs)


def _find_hex_runs(data: bytes) -> Iterator[str]:
    """The runs of letters that are long enough for a name.

    A long needle is found by steps of its length: a pattern, which looks at each byte, took
    minutes for a journal of a gigabyte.
    """
    marks, end = data.translate(_IS_HEX), 0
    while (start := marks.find(_RUN, end)) >= 0:
        end = marks.find(b"0", start)
        end = len(marks) if end < 0 else end
        yield data[start:end].decode("ascii")
