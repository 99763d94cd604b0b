"""Treadle's own journals, as files carry them: one, or that of a fork after those it goes on from.

The records stand in such a file byte for byte, each journal from its record 1 on, so that the
chains of hashes hold wherever it is taken in. After the last one stand the large outputs that they
name, each on a line: `{"blob":{"sha256":"...","size":N},"base64":"..."}`. A file without them is
whole, too.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct

from treadle.core.messages import BlobRef
from treadle.thread.record import Head, JournalCondition, JournalScan, Record, scan_journal

_JOURNAL_START: Final = b'{"seq":1,'
_OUTPUT_START: Final = b'{"blob":{'


class _OutputLine(Struct):
    """A large output, as a file has it."""

    blob: BlobRef
    base64: str


_decode: Final = msgspec.json.Decoder(_OutputLine).decode


class JournalPart(Struct, frozen=True):
    """A journal, or its beginning: the bytes of its intact records, the records, what follows."""

    data: bytes
    records: list[Record]
    condition: JournalCondition
    reason: str

    @property
    def head(self) -> Head:
        """Where it ends."""
        last = self.records[-1]
        return Head(last.seq, last.hash, last.at, len(self.data))


def make_journal_part(data: bytes, version: int | None = None) -> JournalPart:
    """The intact records of a journal's bytes.

    Args:
        data: the bytes.
        version: the last record wanted; by default all that are intact.
    """
    found: JournalScan = scan_journal(data)
    records = found.records[:version]
    end = found.head.size
    if len(records) < len(found.records):
        end = _find_line_end(data, len(records))
    return JournalPart(data[:end], records, found.condition, found.reason)


def _find_line_end(data: bytes, count: int) -> int:
    """Where so many lines end."""
    end = 0
    for _ in range(count):
        end = data.index(b"\n", end) + 1
    return end


def join_journals(parts: Sequence[JournalPart]) -> bytes:
    """What a file of them holds."""
    return b"".join(part.data for part in parts)


def split_journals(data: bytes) -> list[bytes]:
    """The journals in a file. Text inside records has no line breaks, so none can begin there."""
    data = data[: _find_journals_end(data)]
    starts = [0]
    while (at := data.find(b"\n" + _JOURNAL_START, starts[-1])) >= 0:
        starts.append(at + 1)
    return [data[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]


def _find_journals_end(data: bytes) -> int:
    return data.find(b"\n" + _OUTPUT_START) + 1 or len(data)


def make_output_line(ref: BlobRef, data: bytes) -> bytes:
    """The line of a large output."""
    return msgspec.json.encode(_OutputLine(ref, b64encode(data).decode())) + b"\n"


def read_outputs(data: bytes) -> Mapping[str, bytes]:
    """The large outputs in a file, by their names; those that are not what they were are not."""
    found: dict[str, bytes] = {}
    for line in data[_find_journals_end(data) :].splitlines():
        try:
            output = b64decode(_decode(line).base64, validate=True)
        except (msgspec.MsgspecError, UnicodeDecodeError, Base64Error):
            continue
        found[sha256(output).hexdigest()] = output
    return found
