"""Treadle's own journals, as files carry them: one, or that of a fork after those it goes on from.

The records stand in such a file byte for byte, each journal from its record 1 on, so that the
chains of hashes hold wherever it is taken in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from treadle.thread.record import Condition, Head, Record, Scan, scan

_BEGINNING: Final = b'{"seq":1,'


class Part(Struct, frozen=True):
    """A journal, or its beginning: the bytes of its intact records, the records, what follows."""

    data: bytes
    records: list[Record]
    condition: Condition
    reason: str

    @property
    def head(self) -> Head:
        """Where it ends."""
        last = self.records[-1]
        return Head(last.seq, last.hash, last.at, len(self.data))


def part_of(data: bytes, version: int | None = None) -> Part:
    """The intact records of a journal's bytes.

    Args:
        data: the bytes.
        version: the last record wanted; by default all that are intact.
    """
    found: Scan = scan(data)
    records = found.records[:version]
    end = found.head.size
    if len(records) < len(found.records):
        end = _end_of(data, len(records))
    return Part(data[:end], records, found.condition, found.reason)


def _end_of(data: bytes, count: int) -> int:
    """Where so many lines end."""
    end = 0
    for _ in range(count):
        end = data.index(b"\n", end) + 1
    return end


def join(parts: Sequence[Part]) -> bytes:
    """What a file of them holds."""
    return b"".join(part.data for part in parts)


def split(data: bytes) -> list[bytes]:
    """The journals in a file. Text inside records has no line breaks, so none can begin there."""
    starts = [0]
    while (at := data.find(b"\n" + _BEGINNING, starts[-1])) >= 0:
        starts.append(at + 1)
    return [data[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
