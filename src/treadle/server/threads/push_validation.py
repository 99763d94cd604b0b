"""The records of a push, judged by themselves: a chain that goes on from the base, as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.server.refusals import Refusal
from treadle.server.threads.json_validation import check_json
from treadle.thread.record import Head, JournalCondition, JournalScanner, Record

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)


class Batch(Struct, frozen=True):
    """Records in order, with the line of each as it was sent, without its LF; at least one."""

    records: Sequence[Record]
    lines: Sequence[bytes]

    @property
    def mark(self) -> Mark:
        """The last of them."""
        return Mark(self.records[-1].seq, self.records[-1].hash)

    @property
    def size(self) -> int:
        """The bytes of the lines, LFs included."""
        return sum(map(len, self.lines)) + len(self.lines)


def read_batch(base: Mark, body: bytes) -> Batch:
    """The records of a body.

    Args:
        base: what they go on from.
        body: lines of a journal, byte for byte.

    Raises:
        Refusal: bad request, if it is not lines of JSON that everybody reads the same way;
            broken chain, if a number, a time or a hash is not what must follow the base.
    """
    if not body.endswith(b"\n"):
        raise Refusal(ErrorCode.BAD_REQUEST, "the body holds no whole lines of a journal")
    scanner = JournalScanner(Head(base.seq, base.hash))
    records = scanner.feed(body)
    if scanner.end().condition is not JournalCondition.CLEAN:
        raise _make_chain_refusal(scanner.head.seq + 1, "it does not follow the record before it")
    return make_batch(records, body)


def make_batch(records: Sequence[Record], body: bytes) -> Batch:
    """These records, which are those of the body. Raises as `read_batch`."""
    lines = body[:-1].split(b"\n")
    for record, line in zip(records, lines, strict=True):
        check_json(line)
        if not _TIME.fullmatch(record.at):
            raise _make_chain_refusal(record.seq, "its time is not in the form of records")
    return Batch(records, lines)


def _make_chain_refusal(seq: int, why: str) -> Refusal:
    return Refusal(
        ErrorCode.BROKEN_CHAIN,
        f"record {seq} cannot be taken: {why}",
        hint="nothing was taken; `treadle verify` says whether the journal is intact",
    )
