"""A journal written to do harm is read without a crash, a hang, or a wrong word.

Whoever can write the file can compute hashes; so these lines are in the chain unless they say so.
"""

from __future__ import annotations

import pytest

from case_tables import for_every_row
from processor_time import slow
from thread.journals import PLAIN, at, write
from treadle.thread.codec import UnknownEntryError, decode_entry
from treadle.thread.record import GENESIS, JournalCondition, hash_record, scan_journal

DEEP = b"[" * 100_000 + b"]" * 100_000


def line(body: bytes, previous: str = GENESIS) -> bytes:
    return b'%b,"hash":"%b"}\n' % (body[:-1], hash_record(previous, body).encode())


BODIES = {
    "deep event": b'{"seq":1,"at":"","event":%b}' % DEEP,
    "deep unknown field": b'{"seq":1,"x":%b,"at":"","event":{}}' % DEEP,
    "unclosed": b'{"seq":1,"at":"","event":%b}' % (b"[" * 100_000),
    "seq of 5,000 digits": b'{"seq":%b,"at":"","event":{}}' % (b"1" * 5000),
    "seq beyond 64 bits": b'{"seq":18446744073709551617,"at":"","event":{}}',
    "seq as text": b'{"seq":"1","at":"","event":{}}',
    "seq as truth": b'{"seq":true,"at":"","event":{}}',
    "seq as null": b'{"seq":null,"at":"","event":{}}',
    "seq as list": b'{"seq":[1],"at":"","event":{}}',
    "negative seq": b'{"seq":-1,"at":"","event":{}}',
    "zero seq": b'{"seq":0,"at":"","event":{}}',
    "no seq": b'{"at":"","event":{}}',
    "at as number": b'{"seq":1,"at":5,"event":{}}',
    "no event": b'{"seq":1,"at":""}',
    "batch as text": b'{"seq":1,"at":"","batch":"1","event":{}}',
    "at with bad utf-8": b'{"seq":1,"at":"\xff","event":{}}',
    "at with a lone surrogate": b'{"seq":1,"at":"\\ud800","event":{}}',
    "nan": b'{"seq":NaN,"at":"","event":{}}',
    "a list": b'[{"seq":1,"at":"","event":{}}]',
    "nothing": b"{}",
    "two records": b'{"seq":1,"at":"","event":{}}{"seq":2,"at":"","event":{}}',
}


def test_a_line_that_is_no_record_is_none_whatever_its_hash_says() -> None:
    found = {name: scan_journal(line(body)) for name, body in BODIES.items()}
    taken = [
        name
        for name, one in found.items()
        if one.records or one.condition is JournalCondition.CLEAN
    ]
    assert taken == []


def test_a_field_that_stands_twice_is_read_as_its_last_value() -> None:
    twice = line(b'{"seq":7,"at":"x","event":{},"seq":1,"at":"y"}')
    [record] = scan_journal(twice).records
    assert (record.seq, record.at) == (1, "y")


@for_every_row(
    "event",
    [
        b"{}",
        b"5",
        b"null",
        b'"text"',
        DEEP[99_500:-99_500],
        b"9" * 5000,
        b'{"type":"user_input","message":"no message"}',
        b'{"type":"__reduce__","py/object":"os.system"}',
    ],
)
def test_an_event_that_is_none_is_a_record_that_cannot_be_read(event: bytes) -> None:
    [record] = scan_journal(line(b'{"seq":1,"at":"","event":%b}' % event)).records
    assert bytes(record.event) == event
    with pytest.raises(UnknownEntryError):
        decode_entry(record.event)


ALMOST_RECORDS = (
    b'{"seq":' * 300_000,
    b'{"seq":1,"at":"","event":[' * 100_000,
    (b'{"seq":1,"at":"","event":' * 800 + b"[" + b"1," * 500_000 + b"1]") + b"}" * 800,
    b',"hash":"' * 300_000,
    (b',"hash":"' + b"0" * 31) * 100_000,
    b"\n" * 1_000_000,
    b"\0" * 5_000_000,
    b'{"seq":2,"at":"","event":{},"hash":"' + b"0" * 5_000_000,
    b'{"seq":1,"at":"' + b"x" * 5_000_000 + b'","event":{}}\n',
)


def test_megabytes_of_almost_records_cost_what_their_length_does() -> None:
    ends = (b"", b"\n", b',"hash":"%b"}\n' % (b"0" * 32))
    texts = {
        f"{number} {end!r}": data + end
        for number, data in enumerate((*ALMOST_RECORDS, *BODIES.values()))
        for end in ends
    }
    taken = [name for name, data in texts.items() if scan_journal(data).records]
    assert (taken, slow(scan_journal, texts)) == ([], [])


def test_a_record_out_of_the_chain_ends_what_is_read_even_if_its_form_is_right() -> None:
    data, head = write(PLAIN)
    forged = line(b'{"seq":%d,"at":"%b","event":{}}' % (head.seq + 1, at(99).encode()), GENESIS)
    found = scan_journal(data + forged)
    assert found.head == head
    assert found.condition is JournalCondition.TORN


def test_unknown_fields_of_a_record_survive_in_the_file_and_are_passed_over() -> None:
    [record] = scan_journal(
        line(b'{"later":{"x":[1]},"seq":1,"at":"t","event":{"type":"x"},"y":0}')
    ).records
    assert (record.seq, record.at, bytes(record.event)) == (1, "t", b'{"type":"x"}')
