r"""Records, their hash chain, and what a journal's bytes are worth. Pure.

A record is one line of JSON::

    {"seq":12,"at":"2026-11-21T08:15:30.123456Z","event":{"type":"tool_completed",...},"hash":"..."}

`hash` is the first 32 hex digits of SHA-256 over the previous record's hash and the line without
its hash (that is: up to the comma before it, closed with a brace). Lines end at LF and nowhere
else; JSON escapes every LF inside text.

A record that was written together with earlier ones names the first of them: `"batch":11`. Nothing
of a write is acknowledged before all of it is durable. That is how a reader tells an unfinished
write, of which a crash may leave any part, from damage (`scan`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

GENESIS: Final = "0" * 32
"""Stands for the hash before record 1."""

_HASH_SIZE: Final = 32
_SUFFIX: Final = re.compile(rb',"hash":"([0-9a-f]{32})"\}\Z')
_BEGINNING: Final = b'{"seq":'
_SUFFIX_SIZE: Final = len(b',"hash":""}') + _HASH_SIZE


class Record(Struct, frozen=True):
    """One line of a journal.

    `seq` counts from 1 without gaps, `at` is UTC with six digits and `Z`, `event` holds the bytes
    as they were written, so that fields this version does not know survive.
    """

    seq: int
    at: str
    event: Raw
    hash: str = ""


class _Body(Struct, frozen=True):
    seq: int
    at: str
    event: Raw
    batch: int = 0


_decode_body = msgspec.json.Decoder(_Body).decode


class Head(Struct, frozen=True):
    """The end of a journal: last `seq`, its `hash` and `at`, and the journal's size in bytes."""

    seq: int = 0
    hash: str = GENESIS
    at: str = ""
    size: int = 0


def chain(previous: str, body: bytes) -> str:
    """The hash of a record, from the previous hash and its line without the hash."""
    return sha256(previous.encode() + body).hexdigest()[:_HASH_SIZE]


def encode_batch(head: Head, at: str, events: Sequence[bytes]) -> tuple[bytes, Head]:
    """The lines of one write, and the head after them.

    Args:
        head: where the journal ends now.
        at: the clock now; a clock that runs backwards is held at the last value.
        events: each event's JSON object, without line breaks.
    """
    at = max(at, head.at)
    first, seq, previous = head.seq + 1, head.seq, head.hash
    lines: list[bytes] = []
    for event in events:
        seq += 1
        batch = b"" if seq == first else b'"batch":%d,' % first
        body = b'{"seq":%d,"at":"%b",%b"event":%b}' % (seq, at.encode(), batch, event)
        previous = chain(previous, body)
        lines.append(b'%b,"hash":"%b"}\n' % (body[:-1], previous.encode()))
    data = b"".join(lines)
    return data, Head(seq, previous, at, head.size + len(data))


class Condition(Enum):
    """What the bytes of a journal are worth."""

    CLEAN = "clean"
    """Every byte belongs to an intact record."""
    TORN = "torn"
    """Bad bytes at the end that can be nothing but an unfinished last write: safe to cut."""
    CORRUPT = "corrupt"
    """Records that were acknowledged are damaged or missing: read only, cut nothing."""


class Scan(Struct, frozen=True):
    """The intact beginning of a journal.

    `head` is where the intact part ends; `reason` says what follows it when not clean.
    """

    records: list[Record]
    head: Head
    condition: Condition = Condition.CLEAN
    reason: str = ""


def scan(data: bytes, after: Head = Head()) -> Scan:  # noqa: B008  frozen
    """Read records until the bytes end or are bad, and judge what is bad.

    Bad bytes at the end are *torn* unless a well-formed record stands among them that an
    unfinished write cannot have put there, which proves that something acknowledged is gone: one
    of a later write than the record that is missing, one seen before, or one out of its place.
    The missing record itself at the very beginning of the bad bytes, and later records of its
    write anywhere after that, prove nothing: a power cut may keep the end of an unacknowledged
    write and lose its beginning. It cannot move the bytes of a write.

    Args:
        data: the journal's bytes from `after.size` on.
        after: the last record known good; by default the beginning.
    """
    lines = data.split(b"\n")
    lines.pop()
    records: list[Record] = []
    head = after
    for line in lines:
        record = _verify(line, head)
        if record is None:
            break
        records.append(record)
        head = Head(record.seq, record.hash, record.at, head.size + len(line) + 1)
    bad = data[head.size - after.size :]
    if not bad:
        return Scan(records, head)
    proof = _proof_of_loss(bad, head.seq + 1)
    if proof:
        return Scan(records, head, Condition.CORRUPT, proof)
    return Scan(records, head, Condition.TORN, f"{len(bad)} bytes of an unfinished write")


def _verify(line: bytes, head: Head) -> Record | None:
    match = _SUFFIX.search(line)
    if match is None:
        return None
    digest = match[1].decode()
    if chain(head.hash, line[:-_SUFFIX_SIZE] + b"}") != digest:
        return None
    body = _parse(line)
    if body is None or body.seq != head.seq + 1:
        return None
    return Record(body.seq, body.at, body.event, digest)


def _parse(line: bytes) -> _Body | None:
    """The line as a record by its form alone, whatever its hash says."""
    if _SUFFIX.search(line) is None:
        return None
    try:
        return _decode_body(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _proof_of_loss(bad: bytes, expected: int) -> str:
    """Why the bad bytes cannot be an unfinished last write; empty when they can."""
    for place, body in _well_formed(bad):
        if place == 0 and body.seq == expected:
            continue
        if place > 0 and (body.batch or body.seq) <= expected < body.seq:
            continue
        if body.seq > expected:
            return f"record {expected} is damaged or missing, but record {body.seq} stands after it"
        return f"record {body.seq} stands out of its place, after damage at record {expected}"
    return ""


def _well_formed(bad: bytes) -> Iterator[tuple[int, _Body]]:
    """Each line that is a record or ends with one, and where in the bytes that record begins.

    A line that has lost its end runs into the next one, so that the record there is found by how
    records begin; text inside records cannot begin so, because its quotes are escaped.
    """
    start = 0
    for line in bad.split(b"\n"):
        for offset in (0, line.rfind(_BEGINNING)):
            body = _parse(line[offset:]) if offset >= 0 else None
            if body is not None:
                yield start + offset, body
                break
        start += len(line) + 1


def clean(value: Any) -> Any:
    """The same builtins with lone surrogates in text replaced.

    Models emit half a surrogate pair; no UTF-8 file and no database takes it.
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    return value
