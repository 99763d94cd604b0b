r"""Records, their hash chain, and what a journal's bytes are worth. Pure.

A record is one line of JSON::

    {"seq":12,"at":"2026-11-21T08:15:30.123456Z","event":{"type":"tool_completed",...},"hash":"..."}

`hash` is the first 32 hex digits of SHA-256 over the previous record's hash and the line without
its hash (that is: up to the comma before it, closed with a brace). Lines end at LF and nowhere
else; JSON escapes every LF inside text.

A record that a scrub has chained anew says which hash it had at first: `"id":"..."`.
Whatever names a record for ever names it by that.

A record that was written together with earlier ones names the first of them: `"batch":11`. Nothing
of a write is acknowledged before all of it is durable. That is how a reader tells an unfinished
write, of which a crash may leave any part, from damage (`JournalScanner`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from treadle.errors import UsageError

GENESIS: Final = "0" * 32
"""Stands for the hash before record 1."""

RECORD_SIZE_MAX: Final = 64 * 1024 * 1024
"""No line is longer, so that whoever reads a file of anything knows when to stop."""

EVENT_SIZE_MAX: Final = RECORD_SIZE_MAX - 1024
"""What of it the event may have; the rest of a record is far shorter than that."""

WRITE_SIZE_MAX: Final = 256 * 1024 * 1024
"""No batch is longer: more bad bytes than this are no unfinished write."""

_PIECE_SIZE: Final = 1024 * 1024
"""How much of a journal is read at a time."""

_HASH_SIZE: Final = 32
_SEAL: Final = b',"hash":"'
_SEALED: Final = re.compile(rb',"hash":"[0-9a-f]{32}"\}(?=\n)')
_SEALED_LAST: Final = re.compile(rb',"hash":"[0-9a-f]{32}"\}(?=\n|\Z)')
_BEGINNING: Final = b'{"seq":'
_SUFFIX_SIZE: Final = len(b',"hash":""}') + _HASH_SIZE


class Record(Struct, frozen=True):
    """One line of a journal.

    `seq` counts from 1 without gaps, `at` is UTC with six digits and `Z`, `event` holds the bytes
    as they were written, so that fields this version does not know survive. `first_hash` is empty
    unless a scrub has given the record another hash.
    """

    seq: int
    at: str
    event: Raw
    hash: str = ""
    first_hash: str = msgspec.field(default="", name="id")

    @property
    def id(self) -> str:
        """What tells it from all other records, scrubbed or not."""
        return self.first_hash or self.hash

    def is_at(self, version: int, name: str) -> bool:
        """Whether it is this version of its thread, by its id or by the hash it has now."""
        return self.seq == version and name in (self.id, self.hash)


class _Body(Struct, frozen=True):
    seq: int
    at: str
    event: Raw
    batch: int = 0
    first_hash: str = msgspec.field(default="", name="id")


_decode_body = msgspec.json.Decoder(_Body).decode


class Head(Struct, frozen=True):
    """The end of a journal: last `seq`, its `hash` and `at`, and the journal's size in bytes."""

    seq: int = 0
    hash: str = GENESIS
    at: str = ""
    size: int = 0


def hash_record(previous: str, body: bytes) -> str:
    """The hash of a record, from the previous hash and its line without the hash."""
    return sha256(previous.encode() + body).hexdigest()[:_HASH_SIZE]


def check_event_size(size: int) -> None:
    """Whether an event's JSON of so many bytes can be a record.

    Raises:
        UsageError: no; what is longer could not be read again.
    """
    if size > EVENT_SIZE_MAX:
        raise UsageError(
            f"one record of {size} bytes; a journal takes {EVENT_SIZE_MAX}",
            hint="keep what is so large in a file, and name the file",
        )


def encode_batch(head: Head, at: str, events: Sequence[bytes]) -> tuple[bytes, Head]:
    """The lines of one write, and the head after them.

    Args:
        head: where the journal ends now.
        at: the clock now; a clock that runs backwards is held at the last value.
        events: each event's JSON object, without line breaks.

    Raises:
        UsageError: more than a journal takes, in one record or in one write.
    """
    whole = sum(map(len, events))
    if whole > WRITE_SIZE_MAX - 1024 * len(events):
        raise UsageError(f"one write of {whole} bytes; a journal takes {WRITE_SIZE_MAX}")
    at = max(at, head.at)
    first, seq, previous = head.seq + 1, head.seq, head.hash
    lines: list[bytes] = []
    for event in events:
        check_event_size(len(event))
        seq += 1
        batch = b"" if seq == first else b'"batch":%d,' % first
        body = b'{"seq":%d,"at":"%b",%b"event":%b}' % (seq, at.encode(), batch, event)
        previous = hash_record(previous, body)
        lines.append(b'%b,"hash":"%b"}\n' % (body[:-1], previous.encode()))
    data = b"".join(lines)
    return data, Head(seq, previous, at, head.size + len(data))


class JournalCondition(Enum):
    """What the bytes of a journal are worth."""

    CLEAN = "clean"
    """Every byte belongs to an intact record."""
    TORN = "torn"
    """Bad bytes at the end that can be nothing but an unfinished last write: safe to cut."""
    CORRUPT = "corrupt"
    """Records that were acknowledged are damaged or missing: read only, cut nothing."""


class JournalScan(Struct, frozen=True):
    """The intact beginning of a journal.

    `head` is where the intact part ends; `reason` says what follows it when not clean. `records` is
    empty where they were handed out while they were read.
    """

    records: list[Record]
    head: Head
    condition: JournalCondition = JournalCondition.CLEAN
    reason: str = ""


class JournalScanner:
    """Reads a journal's bytes as they come, and judges what is bad; holds one line at most.

    Bad bytes at the end are *torn* unless a well-formed record stands among them that an
    unfinished write cannot have put there, which proves that something acknowledged is gone: one
    of a later write than the record that is missing, one seen before, or one out of its place.
    The missing record itself at the very beginning of the bad bytes, and later records of its
    write anywhere after that, prove nothing: a power cut may keep the end of an unacknowledged
    write and lose its beginning. It cannot move the bytes of a write, nor make it longer: a line
    that no record is as long as, or more bytes than one write has, are no unfinished write either.

    Args:
        after: the last record known good; by default the beginning.
    """

    __slots__ = ("_bad_size", "_held", "_held_at", "_held_size", "_is_bad", "_reason", "head")

    def __init__(self, after: Head = Head()) -> None:  # noqa: B008  frozen
        self.head = after
        """Where the intact part ends."""
        self._held: list[bytes] = []
        self._held_size = 0
        self._is_bad = False
        self._held_at = 0
        self._bad_size = 0
        self._reason = ""

    @property
    def is_decided(self) -> bool:
        """Whether further bytes change nothing: acknowledged records are damaged."""
        return bool(self._reason)

    @property
    def is_bad(self) -> bool:
        """Whether bytes have come that are no record; none is handed out after them."""
        return self._is_bad

    def feed(self, data: bytes) -> list[Record]:
        """Take in the next bytes; the records that are complete with them, in order."""
        if self._is_bad:
            self._scan_damage(data)
            return []
        self._hold_data(data)
        if b"\n" not in data and not self._cannot_become_record():
            return []
        lines = self._pop_held_data().split(b"\n")
        records: list[Record] = []
        head = self.head
        seq, previous, size = head.seq, head.hash, head.size
        rest = lines.pop()
        for line in lines:
            record = _verify_record(line, seq + 1, previous)
            if record is None:
                break
            records.append(record)
            seq, previous, size = record.seq, record.hash, size + len(line) + 1
        if records:
            self.head = Head(seq, previous, records[-1].at, size)
        if len(records) < len(lines):
            self._begin_damage(b"\n".join((*lines[len(records) :], rest)))
            return records
        self._hold_data(rest)
        if self._cannot_become_record():
            self._begin_damage(self._pop_held_data())
        return records

    def end(self) -> JournalScan:
        """What the bytes are worth, after the last of them; without the records."""
        if self._held_size and not self._is_bad:
            self._begin_damage(self._pop_held_data())
        if self._is_bad and not self._reason:
            self._check_for_loss(self._pop_held_data(), is_last=True)
        if self._reason:
            return JournalScan([], self.head, JournalCondition.CORRUPT, self._reason)
        if self._is_bad:
            reason = f"{self._bad_size} bytes of an unfinished write"
            return JournalScan([], self.head, JournalCondition.TORN, reason)
        return JournalScan([], self.head)

    def _hold_data(self, data: bytes) -> None:
        if data:
            self._held.append(data)
            self._held_size += len(data)

    def _pop_held_data(self) -> bytes:
        data = self._held[0] if len(self._held) == 1 else b"".join(self._held)
        self._held.clear()
        self._held_size = 0
        return data

    def _cannot_become_record(self) -> bool:
        """Whether the line that is held can become no record: none begins so, or is so long."""
        if not self._held:
            return False
        return self._held_size > RECORD_SIZE_MAX or not self._held[0].startswith(b"{")

    def _begin_damage(self, data: bytes) -> None:
        self._is_bad = True
        self._scan_damage(data)

    def _scan_damage(self, data: bytes) -> None:
        """Look for what proves a loss, a piece at a time; the beginning of a line is held."""
        if self._reason:
            return
        self._bad_size += len(data)
        cut = data.rfind(b"\n") + 1
        if cut:
            self._hold_data(data[:cut])
            lines = self._pop_held_data()
            self._check_for_loss(lines)
            self._held_at += len(lines)
        self._hold_data(data[cut:])
        if self._reason:
            return
        if self._held_size > RECORD_SIZE_MAX:
            self._reason = f"a line of more than {RECORD_SIZE_MAX} bytes, which no record has"
        elif self._bad_size > WRITE_SIZE_MAX:
            self._reason = f"more than {WRITE_SIZE_MAX} bytes that are no records of this thread"

    def _check_for_loss(self, lines: bytes, *, is_last: bool = False) -> None:
        """Whether a record in these lines proves a loss."""
        expected = self.head.seq + 1
        for offset, body in _find_well_formed_records(lines, is_last=is_last):
            place = self._held_at + offset
            if place == 0 and body.seq == expected:
                continue
            if place > 0 and (body.batch or body.seq) <= expected < body.seq:
                continue
            self._reason = (
                f"record {expected} is damaged or missing, but record {body.seq} stands after it"
                if body.seq > expected
                else f"record {body.seq} stands out of its place, after damage at record {expected}"
            )
            return


def scan_journal(data: bytes, after: Head = Head()) -> JournalScan:  # noqa: B008  frozen
    """All records until the bytes end or are bad, and what a `JournalScanner` says of what is bad.

    Args:
        data: the journal's bytes from `after.size` on.
        after: the last record known good; by default the beginning.
    """
    scanner = JournalScanner(after)
    records: list[Record] = []
    for start in range(0, len(data), _PIECE_SIZE):
        records += scanner.feed(data[start : start + _PIECE_SIZE])
    found = scanner.end()
    return JournalScan(records, found.head, found.condition, found.reason)


def _verify_record(line: bytes, seq: int, previous: str) -> Record | None:
    """The record of this number behind one of this hash, if the line is one."""
    digest = hash_record(previous, line[:-_SUFFIX_SIZE] + b"}")
    if not line.endswith(b',"hash":"%b"}' % digest.encode()):
        return None
    body = _parse_body(line)
    if body is None or body.seq != seq:
        return None
    return Record(seq, body.at, body.event, digest, body.first_hash)


def _parse_body(line: bytes) -> _Body | None:
    """The line as a record by its form alone, whatever its hash says."""
    try:
        return _decode_body(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _find_well_formed_records(lines: bytes, *, is_last: bool) -> Iterator[tuple[int, _Body]]:
    """Each line that is a record or ends with one, and where in the bytes that record begins.

    A line that has lost its end runs into the next one, so that the record there is found by how
    records begin; text inside records cannot begin so, because its quotes are escaped.

    Args:
        lines: bytes from the beginning of a line on.
        is_last: whether the last line may lack its end.
    """
    if _SEAL not in lines:
        return
    for seal in (_SEALED_LAST if is_last else _SEALED).finditer(lines):
        start = lines.rfind(b"\n", 0, seal.start()) + 1
        line = lines[start : seal.end()]
        for offset in (0, line.rfind(_BEGINNING)):
            body = _parse_body(line[offset:]) if offset >= 0 else None
            if body is not None:
                yield start + offset, body
                break


def replace_surrogates(value: Any) -> Any:
    """The same builtins with lone surrogates in text replaced.

    Models emit half a surrogate pair; no UTF-8 file and no database takes it.
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {replace_surrogates(key): replace_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [replace_surrogates(item) for item in value]
    return value
