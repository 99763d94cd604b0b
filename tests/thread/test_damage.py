"""However a journal is damaged, what is read from it is never wrong, and no loss is called a tear.

Every judgement is compared with that of an independent reader, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from random import Random
from typing import Final

import pytest

from case_tables import for_every_row
from thread.journals import PLAIN, large, write
from thread.oracle import judge
from treadle.thread.record import JournalCondition, JournalScan, Record, scan_journal

SMALL: Final = write(PLAIN)[0]
LARGE: Final = large()
GARBAGE: Final = (b"", b"\0" * 100, b"garbage", b"{}", b'{"seq":', b"\xff\xfe", b'"}\r')


def lines_of(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def check(data: bytes, original: bytes) -> JournalScan:
    """Nothing that is returned was not written; a clean journal is whole, or whole records of it.

    What must hold for any damage at all; the callers add what holds for theirs.
    """
    whole = _records(original)
    found = scan_journal(data)
    assert found.records == whole[: len(found.records)]
    prefix = original[: found.head.size]
    assert data.startswith(prefix)
    assert len(found.records) == len(lines_of(prefix))
    assert (found.condition, len(found.records), found.head.size) == _oracle(data)
    assert (found.condition is JournalCondition.CLEAN) == (found.reason == "")
    if found.condition is JournalCondition.CLEAN:
        assert data == prefix
    return found


@lru_cache
def _records(original: bytes) -> list[Record]:
    return scan_journal(original).records


def _oracle(data: bytes) -> tuple[JournalCondition, int, int]:
    judged = judge(data)
    return JournalCondition(judged.condition), judged.count, judged.size


def writes_of(original: bytes) -> list[range]:
    """The byte ranges of the writes that made a journal."""
    found: list[range] = []
    start = 0
    for line in lines_of(original):
        end = start + len(line)
        if b'"batch":' in line.partition(b'"event"')[0]:
            found[-1] = range(found[-1].start, end)
        else:
            found.append(range(start, end))
        start = end
    return found


def test_the_journals_hold_many_writes_of_one_and_of_several_records() -> None:
    sizes = Counter(LARGE[w.start : w.stop].count(b"\n") for w in writes_of(LARGE))
    assert LARGE.count(b"\n") >= 38
    assert {1, 2, 3} <= set(sizes)
    assert {1, 2, 3} <= {LARGE[w.start : w.stop].count(b"\n") for w in writes_of(LARGE)[-4:]}
    assert sum(sizes.values()) == len(PLAIN) - 1 + 20


def damaged_once(original: bytes, data: bytes, place: int) -> JournalScan:
    """`check`, and: damage within one write is a tear only if that write is the last."""
    found = check(data, original)
    assert found.condition is not JournalCondition.CLEAN
    last = writes_of(original)[-1]
    if place < last.start - 1:
        assert found.condition is JournalCondition.CORRUPT, f"a tear at {place} of {len(original)}"
    return found


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_is_never_silent_and_a_tear_only_in_the_last_write(bit: int) -> None:
    seen: Counter[JournalCondition] = Counter()
    for place in range(len(SMALL)):
        data = bytearray(SMALL)
        data[place] ^= 1 << bit
        seen[damaged_once(SMALL, bytes(data), place).condition] += 1
    assert seen[JournalCondition.CORRUPT] > seen[JournalCondition.TORN] > 0


@pytest.mark.parametrize("value", [0x00, 0x0A, 0x20, 0x22, 0x30, 0x7D, 0xFF])
def test_an_overwritten_byte_is_never_silent(value: int) -> None:
    for place in range(value % 5, len(LARGE), 5):
        if LARGE[place] != value:
            data = LARGE[:place] + bytes([value]) + LARGE[place + 1 :]
            damaged_once(LARGE, data, place)


def test_a_journal_cut_at_any_byte_is_torn_there_or_clean_at_the_end_of_a_record() -> None:
    ends = {0}
    for line in lines_of(LARGE):
        ends.add(max(ends) + len(line))
    for size in range(len(LARGE) + 1):
        found = scan_journal(LARGE[:size])
        expected = JournalCondition.CLEAN if size in ends else JournalCondition.TORN
        assert found.condition is expected, size
        assert found.head.size == max(end for end in ends if end <= size)
        assert found.records == _records(LARGE)[: len(found.records)]
    for size in range(len(SMALL) + 1):
        check(SMALL[:size], SMALL)


def test_a_last_write_of_which_any_page_is_missing_is_torn() -> None:
    """A power cut may keep the end of an unacknowledged write and lose its beginning."""
    last = max(writes_of(LARGE), key=len)
    whole = LARGE[: last.stop]
    for start in range(last.start, last.stop, 7):
        for stop in range(start + 1, last.stop + 1, 7):
            data = whole[:start] + bytes(stop - start) + whole[stop:]
            assert check(data, whole).condition is JournalCondition.TORN, (start, stop)


def _nul_runs(random: Random, data: bytes) -> bytes:
    start, size = random.randrange(len(data)), random.choice((1, 7, 100, 512, 4096))
    return data[:start] + b"\0" * min(size, len(data) - start) + data[start + size :]


def _drop(random: Random, data: bytes) -> bytes:
    lines = lines_of(data)
    start = random.randrange(len(lines))
    del lines[start : start + random.choice((1, 1, 1, 2, 5))]
    return b"".join(lines)


def _double(random: Random, data: bytes) -> bytes:
    lines = lines_of(data)
    place = random.randrange(len(lines))
    lines.insert(random.choice((place, place + 1, len(lines))), lines[place])
    return b"".join(lines)


def _swap(random: Random, data: bytes) -> bytes:
    lines = lines_of(data)
    one, other = random.sample(range(len(lines)), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _glue(random: Random, data: bytes) -> bytes:
    lines = lines_of(data)
    place = random.randrange(len(lines))
    lines[place] = lines[place][:-1] + random.choice((b"", b" ", b"\r", b"\0" * 9))
    return b"".join(lines)


def _insert(random: Random, data: bytes) -> bytes:
    lines = lines_of(data)
    place = random.randrange(len(lines) + 1)
    lines.insert(place, random.choice(GARBAGE) + random.choice((b"", b"\n")))
    return b"".join(lines)


def _cut_out(random: Random, data: bytes) -> bytes:
    start = random.randrange(len(data))
    return data[:start] + data[start + random.choice((1, 2, 3, 50, 500)) :]


def _splice(random: Random, data: bytes) -> bytes:
    one, other = random.randrange(len(data)), random.randrange(len(data))
    return data[:one] + data[other:]


DAMAGES: Final[tuple[Callable[[Random, bytes], bytes], ...]] = (
    _nul_runs,
    _drop,
    _double,
    _swap,
    _glue,
    _insert,
    _cut_out,
    _splice,
)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__.strip("_"))
def test_damage_of_every_kind_is_never_silent(damage: Callable[[Random, bytes], bytes]) -> None:
    for seed in range(400):
        data = damage(Random(seed), LARGE)
        if data != LARGE:
            found = check(data, LARGE)
            assert found.condition is not JournalCondition.CLEAN or LARGE.startswith(data), seed


def test_damage_upon_damage_is_never_silent() -> None:
    for seed in range(400):
        random, data = Random(seed), LARGE
        for damage in random.choices(DAMAGES, k=3):
            data = damage(random, data)
        check(data, LARGE)


ENDINGS: Final = [LARGE[: write.stop] for write in writes_of(LARGE)]
"""The journal as it stood after each of its writes, so that every kind of write comes last."""


def _at_every_line(
    original: bytes, change: Callable[[list[bytes], int], object]
) -> Iterator[tuple[int, bytes]]:
    for place in range(original.count(b"\n")):
        lines = lines_of(original)
        change(lines, place)
        yield place, b"".join(lines)


@for_every_row("original", ENDINGS[-4:])
def test_a_lost_line_end_between_two_writes_is_no_tear(original: bytes) -> None:
    """Two records on one line: both were acknowledged, and both are still there to be saved."""

    def glue(lines: list[bytes], place: int) -> None:
        lines[place] = lines[place][:-1]

    ends = {write.stop for write in writes_of(original)}
    for place, data in _at_every_line(original, glue):
        size = sum(map(len, lines_of(original)[: place + 1]))
        found = check(data, original)
        if size in ends and size < len(original):
            assert found.condition is JournalCondition.CORRUPT, place


@for_every_row("original", ENDINGS[-4:])
def test_a_lost_line_is_no_tear_unless_it_is_the_last(original: bytes) -> None:
    for place, data in _at_every_line(original, lambda lines, place: lines.pop(place)):
        is_last = place == original.count(b"\n") - 1
        expected = JournalCondition.CLEAN if is_last else JournalCondition.CORRUPT
        assert check(data, original).condition is expected, place


@for_every_row("original", ENDINGS[-4:])
def test_a_foreign_line_anywhere_before_a_record_is_no_tear(original: bytes) -> None:
    for place, data in _at_every_line(original, lambda lines, at: lines.insert(at, b"foreign\n")):
        assert check(data, original).condition is JournalCondition.CORRUPT, place


def test_a_run_of_zeros_is_no_tear_while_a_later_write_stands_after_it() -> None:
    """Even if the zeros swallow the line end, so that the record after them shares their line."""
    writes = writes_of(LARGE)
    for one, other in pairwise(writes):
        data = LARGE[: one.start + 5] + bytes(other.start - one.start - 5) + LARGE[other.start :]
        for stop in {other.stop, len(LARGE)}:
            found = check(data[:stop], LARGE)
            assert found.condition is JournalCondition.CORRUPT, (one, stop)


def test_a_finished_write_after_a_damaged_one_is_seen_even_without_its_line_end() -> None:
    writes = writes_of(LARGE)
    for one, other in pairwise(writes):
        if LARGE[other.start : other.stop].count(b"\n") > 1:
            continue
        data = LARGE[: one.start] + b"X" + LARGE[one.start + 1 : other.stop - 1]
        assert check(data, LARGE).condition is JournalCondition.CORRUPT


def test_the_reason_names_the_record_that_is_missing_and_the_one_that_proves_it() -> None:
    lines = lines_of(LARGE)
    del lines[10]
    assert scan_journal(b"".join(lines)).reason == (
        "record 11 is damaged or missing, but record 12 stands after it"
    )


def test_the_reason_of_a_tear_says_how_much_is_unfinished() -> None:
    assert scan_journal(LARGE + b'{"seq":').reason == "7 bytes of an unfinished write"
