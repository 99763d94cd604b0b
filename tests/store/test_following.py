"""A thread is followed while others write to it: each record once, in order, at the cost of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import for_every_row
from core.samples import said
from store.shelf import CREATOR, Shelf, fill
from treadle.errors import DamagedJournalError, UnknownThreadError
from treadle.store.thread_follower import KNOWN_COUNT_MAX, JournalChange, ThreadFollower
from treadle.thread.facts import Recovered
from treadle.thread.record import Head, Record, encode_batch, scan_journal


def news(follower: ThreadFollower) -> list[int | JournalChange]:
    """What is new: the numbers of records, and what happened."""
    return [item.seq if isinstance(item, Record) else item for item in follower.read_new()]


def chained(count: int, changed: int = 0, size: int = 8) -> bytes:
    """A journal of so many records; from `changed` on it is another one of the same length."""
    data, head = b"", Head()
    for seq in range(1, count + 1):
        mark = b"x" if 0 < changed <= seq else b"o"
        event = b'{"type":"any","text":"%b"}' % (mark * size)
        lines, head = encode_batch(head, "2026-11-21T08:15:30.000000Z", [event])
        data += lines
    return data


@pytest.fixture
def thread(shelf: Shelf) -> str:
    """A thread whose journal is to be replaced."""
    return shelf.create()


def follow(shelf: Shelf, thread_id: str) -> ThreadFollower:
    return ThreadFollower(shelf.store.folders, thread_id)


def test_each_record_is_read_once_as_it_comes(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    follower = follow(shelf, writer.thread_id)
    assert news(follower) == [1]
    assert news(follower) == []
    fill(writer, (said("a"), Recovered("b")))
    assert news(follower) == [2, 3]
    fill(writer, (Recovered("c"),), (Recovered("d"),))
    assert news(follower) == [4, 5]
    writer.close()
    assert news(follower) == []
    fill(shelf.store.open(writer.thread_id), (Recovered("e"),))
    assert news(follower) == [6]


def test_what_is_read_is_what_was_written(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    found = list(follow(shelf, thread_id).read_new())
    assert found == shelf.store.scan(thread_id).records


def test_a_thread_that_is_not_there_is_not_followed(shelf: Shelf) -> None:
    with pytest.raises(UnknownThreadError):
        follow(shelf, shelf.next_id())


def test_a_record_that_is_being_written_is_waited_for(shelf: Shelf, thread: str) -> None:
    whole, known = chained(3), len(chained(2))
    for cut in range(known, len(whole)):
        shelf.journal(thread).write_bytes(chained(2))
        follower = follow(shelf, thread)
        assert news(follower) == [1, 2]
        shelf.journal(thread).write_bytes(whole[:cut])
        assert news(follower) == news(follower) == []
        shelf.journal(thread).write_bytes(whole)
        assert news(follower) == [3]


def test_a_torn_end_that_is_cut_off_and_written_over_is_no_change(
    shelf: Shelf, thread: str
) -> None:
    shelf.journal(thread).write_bytes(chained(2) + b'{"seq":3,"at":"')
    follower = follow(shelf, thread)
    assert news(follower) == [1, 2]
    shelf.journal(thread).write_bytes(chained(3, changed=3))
    assert news(follower) == [3]


@for_every_row("changed", range(1, 9))
@for_every_row("count", [7, 8, 9])
def test_a_rewritten_journal_is_read_anew_from_where_it_differs(
    shelf: Shelf, thread: str, changed: int, count: int
) -> None:
    """Of eight records, that many are left as they were; nothing but hashes tells it."""
    shelf.journal(thread).write_bytes(chained(8))
    follower = follow(shelf, thread)
    assert len(news(follower)) == 8
    shelf.journal(thread).write_bytes(chained(count, changed))
    assert news(follower) == [JournalChange.REWRITTEN, *range(changed, count + 1)]
    assert news(follower) == []
    shelf.journal(thread).write_bytes(chained(count + 1, changed))
    assert news(follower) == [count + 1]


def test_a_journal_that_was_cut_back_is_followed_from_there(shelf: Shelf, thread: str) -> None:
    shelf.journal(thread).write_bytes(chained(8))
    follower = follow(shelf, thread)
    news(follower)
    shelf.journal(thread).write_bytes(chained(5))
    assert news(follower) == [JournalChange.REWRITTEN]
    shelf.journal(thread).write_bytes(chained(7))
    assert news(follower) == [6, 7]


@pytest.mark.parametrize("changed", [1, 2, 50, 900, 1900, 1999, 2000])
def test_of_a_long_rewritten_journal_little_is_read_again_that_did_not_change(
    shelf: Shelf, thread: str, changed: int
) -> None:
    shelf.journal(thread).write_bytes(chained(2000))
    follower = follow(shelf, thread)
    news(follower)
    shelf.journal(thread).write_bytes(chained(2000, changed))
    change, first, *rest = news(follower)
    assert change is JournalChange.REWRITTEN
    assert isinstance(first, int)
    assert changed - 2000 * 2 // KNOWN_COUNT_MAX - 1 <= first <= changed
    assert rest == [*range(first + 1, 2001)]


@pytest.mark.parametrize("count", [10, 1000])
def test_a_look_costs_what_is_new_however_long_the_thread_is(
    shelf: Shelf, thread: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, whole = shelf.journal(thread), chained(count + 1)
    path.write_bytes(chained(count))
    follower = follow(shelf, thread)
    news(follower)
    read: list[int] = []
    real_range, real_pieces = shelf.disk.read_range, shelf.disk.pieces

    def read_range(path: str, offset: int, size: int) -> bytes:
        data = real_range(path, offset, size)
        read.append(len(data))
        return data

    def pieces(path: str, offset: int = 0) -> Iterator[bytes]:
        for data in real_pieces(path, offset):
            read.append(len(data))
            yield data

    monkeypatch.setattr(shelf.disk, "read_range", read_range)
    monkeypatch.setattr(shelf.disk, "pieces", pieces)
    assert news(follower) == []
    assert sum(read) < 100
    path.write_bytes(whole)
    read.clear()
    assert news(follower) == [count + 1]
    assert sum(read) < 100 + len(whole) - len(chained(count))


def test_a_thread_in_the_trash_is_followed_no_further(shelf: Shelf, thread: str) -> None:
    follower = follow(shelf, thread)
    assert news(follower) == [1]
    trash = Path(shelf.store.folders.trash)
    trash.mkdir()
    shelf.snapshot(thread).unlink()
    shelf.journal(thread).rename(trash / shelf.journal(thread).name)
    assert not follower.is_over
    assert news(follower) == [JournalChange.TRASHED]
    assert follower.is_over
    assert news(follower) == []


def test_a_journal_that_goes_to_the_trash_before_its_snapshot_is_seen_there(
    shelf: Shelf, thread: str
) -> None:
    follower = follow(shelf, thread)
    news(follower)
    trash = Path(shelf.store.folders.trash)
    trash.mkdir()
    shelf.journal(thread).rename(trash / shelf.journal(thread).name)
    assert shelf.snapshot(thread).exists()
    assert news(follower) == [JournalChange.TRASHED]


def test_a_thread_that_is_removed_is_followed_no_further(shelf: Shelf, thread: str) -> None:
    follower = follow(shelf, thread)
    news(follower)
    shelf.journal(thread).unlink()
    assert news(follower) == []
    assert not follower.is_over  # a snapshot is there: the journal may come back
    shelf.snapshot(thread).unlink()
    assert news(follower) == [JournalChange.REMOVED]
    assert follower.is_over


def test_a_journal_that_was_away_for_a_moment_goes_on(shelf: Shelf, thread: str) -> None:
    path = shelf.journal(thread)
    path.write_bytes(chained(2))
    follower = follow(shelf, thread)
    news(follower)
    path.unlink()
    assert news(follower) == []
    path.write_bytes(chained(3))
    assert news(follower) == [3]


def test_damage_is_told_when_it_is_reached(shelf: Shelf, thread: str) -> None:
    whole = chained(5)
    damaged = bytearray(whole)
    damaged[len(chained(3)) + 40] ^= 1
    shelf.journal(thread).write_bytes(chained(2))
    follower = follow(shelf, thread)
    news(follower)
    shelf.journal(thread).write_bytes(damaged)
    seen: list[int | JournalChange] = []
    with pytest.raises(DamagedJournalError, match="damaged at byte"):
        seen.extend(item.seq for item in follower.read_new() if isinstance(item, Record))
    shelf.journal(thread).write_bytes(whole)
    assert news(follower)[-1] == 5


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whenever_one_looks_each_record_comes_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    random = Random(seed)
    shelf = Shelf(tmp_path_factory.mktemp("shelf"))
    thread_id = shelf.create()
    whole = chained(random.randint(1, 30), size=random.choice([1, 100, 5000]))
    shelf.journal(thread_id).write_bytes(b"")
    follower = follow(shelf, thread_id)
    seen: list[int | JournalChange] = []
    cuts = sorted(random.randint(0, len(whole)) for _ in range(random.randint(0, 20)))
    for cut in (*cuts, len(whole)):
        shelf.journal(thread_id).write_bytes(whole[:cut])
        for _ in range(random.randint(0, 2)):
            seen += news(follower)
    seen += news(follower)
    assert seen == [record.seq for record in scan_journal(whole).records]
