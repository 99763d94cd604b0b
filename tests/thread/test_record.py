"""A record is one line of JSON in a chain of hashes, and survives whatever stands in its text."""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from case_tables import for_every_row
from thread.journals import EVERY_ENTRY, PLAIN, at, large, records_of, write
from treadle.core.events import UserInput
from treadle.core.messages import Message
from treadle.errors import UsageError
from treadle.thread.codec import decode_entry, encode_entry
from treadle.thread.facts import Annotated
from treadle.thread.record import (
    EVENT_SIZE_MAX,
    GENESIS,
    RECORD_SIZE_MAX,
    WRITE_SIZE_MAX,
    Head,
    JournalCondition,
    JournalScan,
    JournalScanner,
    Record,
    encode_batch,
    hash_record,
    replace_surrogates,
    scan_journal,
)

texts = st.text(alphabet=st.characters(codec=None, exclude_categories=()), max_size=40)


def test_a_line_is_laid_out_as_the_design_shows_it() -> None:
    data, head = encode_batch(Head(), at(1), [b'{"type":"x"}', b'{"type":"y"}'])
    first, second = data.splitlines()
    one = hash_record(GENESIS, b'{"seq":1,"at":"%b","event":{"type":"x"}}' % at(1).encode())
    assert first == (
        b'{"seq":1,"at":"2026-11-21T08:15:30.000001Z","event":{"type":"x"},"hash":"%b"}'
        % one.encode()
    )
    body = b'{"seq":2,"at":"%b","batch":1,"event":{"type":"y"}}' % at(1).encode()
    assert second == body[:-1] + b',"hash":"%b"}' % head.hash.encode()
    assert head == Head(2, hash_record(one, body), at(1), len(data))


def test_a_hash_is_half_a_sha256_over_the_hash_before_and_the_line_without_its_hash() -> None:
    previous = "0" * 32
    for line in large().splitlines():
        told = json.loads(line)["hash"]
        body = line[: -len(f',"hash":"{told}"}}')] + b"}"
        assert told == sha256(previous.encode() + body).hexdigest()[:32]
        assert len(told) == 32
        previous = told


def test_records_count_from_one_and_each_names_the_first_of_its_write() -> None:
    data, head = write(PLAIN)
    lines = [json.loads(line) for line in data.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, head.seq + 1))
    firsts = [line.get("batch", line["seq"]) for line in lines]
    sizes = [firsts.count(first) for first in dict.fromkeys(firsts)]
    assert sizes == [len(batch) for batch in PLAIN]
    assert all("batch" not in line for line in lines if line["seq"] in set(firsts))


def test_what_was_written_is_what_is_read() -> None:
    data, head = write(PLAIN)
    found = scan_journal(data)
    assert (found.condition, found.head, found.reason) == (JournalCondition.CLEAN, head, "")
    entries = [entry for batch in PLAIN for entry in batch]
    assert [decode_entry(record.event) for record in found.records] == entries


def test_reading_can_begin_after_any_record() -> None:
    data = large()
    whole = scan_journal(data).records
    lines = data.splitlines(keepends=True)
    size = 0
    for record, line in zip(whole, lines, strict=True):
        size += len(line)
        after = Head(record.seq, record.hash, record.at, size)
        rest = scan_journal(data[size:], after)
        assert rest.records == whole[record.seq :]
        assert (rest.head.size, rest.condition) == (len(data), JournalCondition.CLEAN)


def test_reading_after_a_record_of_another_journal_finds_nothing_of_ours() -> None:
    data, _ = write(PLAIN)
    [first, *_] = data.splitlines(keepends=True)
    foreign = Head(1, "f" * 32, at(0), len(first))
    assert scan_journal(data[len(first) :], foreign).records == []


def test_nothing_at_all_is_a_clean_journal_of_no_records() -> None:
    found = scan_journal(b"")
    assert (found.records, found.head, found.condition) == ([], Head(), JournalCondition.CLEAN)


def test_a_clock_that_runs_backwards_is_held() -> None:
    _, head = encode_batch(Head(), at(500), [b"{}"])
    for tick in (400, 0, 499):
        data, head = encode_batch(head, at(tick), [b"{}"])
        assert json.loads(data)["at"] == at(500)
    assert encode_batch(head, at(501), [b"{}"])[1].at == at(501)


@given(texts)
def test_any_text_stays_on_its_one_line_and_comes_back(text: str) -> None:
    entry, data = encode_entry(UserInput(Message.user(text)))
    lines, _ = encode_batch(Head(), at(0), [data])
    assert lines.count(b"\n") == 1
    [record] = records_of(lines)
    assert decode_entry(record.event) == entry
    assert isinstance(entry, UserInput)
    assert entry.message.content == replace_surrogates(text)


@for_every_row("text", ["\u2028", "\u2029", "\x85", "\0", "\r", "\n", "\v\f", "\U0001f9f5"])
def test_characters_that_break_lines_or_strings_elsewhere_come_back(text: str) -> None:
    entry, data = encode_entry(UserInput(Message.user(f"a{text}b")))
    lines, _ = encode_batch(Head(), at(0), [data])
    assert decode_entry(records_of(lines)[0].event) == UserInput(Message.user(f"a{text}b")) == entry


@for_every_row(
    "text, stored",
    [
        ("a\ud83d", "a\ufffd"),
        ("\udc00b", "\ufffdb"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        ("plain", "plain"),
    ],
)
def test_half_a_surrogate_pair_is_replaced_and_a_split_pair_is_joined(
    text: str, stored: str
) -> None:
    assert replace_surrogates(text) == stored
    assert replace_surrogates({text: [text, (text, 1, None)]}) == {
        stored: [stored, [stored, 1, None]]
    }


def test_the_bytes_of_an_event_are_kept_as_they_were_written() -> None:
    odd = b'{"type":"tool_started",  "call_id":"a", "later":[1.50, 1e2], "call_id":"b"}'
    data, _ = encode_batch(Head(), at(0), [odd])
    [record] = records_of(data)
    assert bytes(record.event) == odd


def test_every_kind_of_entry_has_a_line_and_comes_back() -> None:
    data, _ = write([EVERY_ENTRY])
    assert [decode_entry(record.event) for record in records_of(data)] == list(EVERY_ENTRY)


# ---- reading as it comes --------------------------------------------------------------------


def fed(data: bytes, *sizes: int) -> JournalScan:
    """What a scanner says of the bytes in pieces of these sizes, over and over."""
    scanner, records, start = JournalScanner(), list[Record](), 0
    for size in cycle(sizes):
        if start >= len(data):
            break
        records += scanner.feed(data[start : start + size])
        start += size
    found = scanner.end()
    assert found.records == []
    return replace(found, records=records)


@for_every_row("size", [1, 2, 7, 43, 44, 45, 500, 10_000])
def test_however_a_journal_is_cut_into_pieces_it_is_read_the_same(size: int) -> None:
    data = large()
    for bad in (
        b"",
        data[:300],
        b"\0" * 100,
        b'{"seq":',
        data[-200:],
        b"\n\n" + data,
        b"{" * 50,
        bytes(9) + data.splitlines(keepends=True)[-1],
    ):
        assert fed(data + bad, size) == scan_journal(data + bad)
        assert fed(bad + data, size) == scan_journal(bad + data)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.integers(0, 10_000), st.binary())
def test_damage_is_judged_the_same_however_the_pieces_fall(
    sizes: list[int], place: int, bad: bytes
) -> None:
    data = large(2)
    place %= len(data)
    damaged = data[:place] + bad + data[place + 3 :]
    assert fed(damaged, *sizes) == scan_journal(damaged)


def test_a_scanner_hands_out_each_record_as_soon_as_its_line_is_whole() -> None:
    data, _ = write(PLAIN)
    scanner, count = JournalScanner(), 0
    for place in range(len(data)):
        count += len(scanner.feed(data[place : place + 1]))
        assert count == data.count(b"\n", 0, place + 1)
        assert scanner.head.seq == count


@pytest.mark.parametrize("size", [EVENT_SIZE_MAX + 1, RECORD_SIZE_MAX])
def test_a_record_that_could_not_be_read_again_is_not_written(size: int) -> None:
    event = b'"' + b"x" * (size - 2) + b'"'
    with pytest.raises(UsageError, match=f"one record of {size} bytes"):
        encode_batch(Head(), at(0), [b"{}", event])
    with pytest.raises(UsageError, match="one record of"):
        encode_entry(Annotated("x" * size))


def test_the_longest_record_there_can_be_is_read_again() -> None:
    event = b'"' + b"x" * (EVENT_SIZE_MAX - 2) + b'"'
    data, head = encode_batch(Head(), at(0), [event])
    found = scan_journal(data)
    assert (found.head, found.condition, len(found.records)) == (head, JournalCondition.CLEAN, 1)


def test_a_write_that_is_longer_than_any_is_refused_before_it_is_written() -> None:
    event = b'"' + b"x" * (EVENT_SIZE_MAX - 2) + b'"'
    with pytest.raises(UsageError, match=f"a journal takes {WRITE_SIZE_MAX}"):
        encode_batch(Head(), at(0), [event] * 4 + [b'"' + b"y" * 10_000 + b'"'])


@for_every_row("before", [b"", write(PLAIN)[0]])
@for_every_row("filling", [b"\0", b"{", b'{"seq":', b"x"])
def test_a_line_without_end_is_given_up_and_is_no_unfinished_write(
    before: bytes, filling: bytes
) -> None:
    """So that a file of anything is not read to its end, nor taken for a tear and cut."""
    scanner, piece, size = JournalScanner(), filling * 500_000, 0
    assert len(scanner.feed(before)) == before.count(b"\n")
    while not scanner.is_decided:
        assert scanner.feed(piece) == []
        size += len(piece)
        assert size < RECORD_SIZE_MAX + 2 * len(piece)
    found = scanner.end()
    assert (found.condition, found.head.size) == (JournalCondition.CORRUPT, len(before))
    assert f"a line of more than {RECORD_SIZE_MAX} bytes" in found.reason


def test_lines_without_end_are_given_up_after_as_much_as_one_write_has() -> None:
    scanner, piece, size = JournalScanner(), b"words\n" * 1_000_000, 0
    while not scanner.is_decided:
        scanner.feed(piece)
        size += len(piece)
        assert size <= WRITE_SIZE_MAX + len(piece)
    assert scanner.end().condition is JournalCondition.CORRUPT
