"""What can be saved of a damaged thread: its intact beginning, and every record after the damage.

The damaged file itself is evidence and stays as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Raw, Struct

from treadle.errors import DamagedJournalError, ReadOnlyThreadError, UsageError
from treadle.store.file_replacement import replace_file
from treadle.store.folders import JOURNAL_SUFFIX
from treadle.store.journal import convert_os_errors
from treadle.store.local_store import LocalStore
from treadle.store.thread_reader import decode_header
from treadle.thread.codec import UnknownEntryError
from treadle.thread.record import JournalCondition

END_COUNT_MAX: Final = 64
"""So many ends are tried for what looks like the beginning of a record: what a record holds may
end as records do."""

_BEGINNING: Final = re.compile(rb'\{"seq":')
_END: Final = re.compile(rb',"hash":"[0-9a-f]{32}"\}')


class _RecordFields(Struct):
    """What every record has."""

    seq: int
    at: str
    event: Raw
    hash: str


_decode: Final = msgspec.json.Decoder(_RecordFields).decode


class SalvageResult(Struct, frozen=True):
    """What was saved.

    `fork` is a thread that goes on from the last intact version, `None` if there can be none, and
    `problem` says why. `path` is the file with the `count` records that stood after the damage;
    empty if there were none. Of a fork these are all its own if the damage is in what it goes on
    from.
    """

    version: int
    fork: str | None
    count: int
    path: str
    problem: str = ""


def find_records(data: bytes) -> Iterator[bytes]:
    """Every well-formed record among bytes of any kind, in order, without line ends.

    One whose line end is gone is found too. Whether it is what was once written there only its
    neighbours could tell.
    """
    start = 0
    while (found := _BEGINNING.search(data, start)) is not None:
        stop = data.find(b"\n", found.start())
        stop = len(data) if stop < 0 else stop
        start = found.end()
        for tried, end in enumerate(_END.finditer(data, start, stop)):
            line = data[found.start() : end.end()]
            if _is_record(line):
                yield line
                start = end.end()
                break
            if tried >= END_COUNT_MAX:
                break


def _is_record(line: bytes) -> bool:
    try:
        _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


def salvage(store: LocalStore, thread_id: str, creator: str) -> SalvageResult:
    """Save what is left of a damaged thread. Changes none of its files.

    Args:
        store: where it is.
        thread_id: the thread.
        creator: the program and its version, for the thread that goes on from it.

    Raises:
        UnknownThreadError: there is no such thread, or no journal of it.
        UsageError: the thread is not damaged.
        DiskError: the disk refused; what was saved so far stands.
    """
    found = store.scan(thread_id)
    if found.condition is not JournalCondition.CORRUPT and not _has_problem(store, thread_id):
        raise UsageError(
            f"thread {thread_id} is not damaged",
            hint="an unfinished last write is mended by opening it"
            if found.condition is JournalCondition.TORN
            else "`treadle fork` makes a copy to go on from",
        )
    path, _ = store.folders.find(thread_id)
    with convert_os_errors("read", path):
        lines = list(find_records(store.folders.disk.read(path, found.head.size)))
    kept = _write_to_quarantine(store, thread_id, lines) if lines else ""
    if not found.records:
        return SalvageResult(0, None, len(lines), kept, "no record before the damage is intact")
    try:
        writer = store.fork(thread_id, len(found.records), creator=creator)
    except (DamagedJournalError, ReadOnlyThreadError, UnknownEntryError) as error:
        if decode_header(found.records[0]).base is not None:
            # What stands before the damage hangs on what it goes on from, and on that alone.
            with convert_os_errors("read", path):
                lines = list(find_records(store.folders.disk.read(path)))
            kept = _write_to_quarantine(store, thread_id, lines)
        return SalvageResult(len(found.records), None, len(lines), kept, error.message)
    writer.close()
    return SalvageResult(len(found.records), writer.thread_id, len(lines), kept)


def _has_problem(store: LocalStore, thread_id: str) -> bool:
    """Whether its base is not what it was, or its snapshot knows of records that are lost."""
    try:
        store.load_initial_fold(thread_id)  # a snapshot does without
        return store.load(thread_id).condition is JournalCondition.CORRUPT
    except DamagedJournalError:
        return True
    except UnknownEntryError:
        return False


def _write_to_quarantine(store: LocalStore, thread_id: str, lines: list[bytes]) -> str:
    """Write the records to the quarantine; the same ones always to the same file."""
    data = b"".join(line + b"\n" for line in lines)
    folder = store.folders.quarantine
    name = f"{thread_id}{JOURNAL_SUFFIX}.salvaged.{sha256(data).hexdigest()[:12]}"
    with convert_os_errors("make", folder):
        store.folders.disk.make_folder(folder)
    path = os.path.join(folder, name)
    replace_file(store.folders.disk, path, data)
    return path
