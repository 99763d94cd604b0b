"""Salvage: every intact record of a damaged thread is in its beginning or in the file beside it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.damage import damages
from store.shelf import CREATOR, TURN, Shelf
from thread.journals import large
from treadle.errors import UsageError
from treadle.store.replay import verify_thread
from treadle.store.upkeep.salvage import find_records, salvage
from treadle.thread.facts import Annotated
from treadle.thread.record import JournalCondition, scan_journal

WHOLE = large()
LINES = WHOLE.splitlines()


def recovered(data: bytes) -> set[bytes]:
    """The lines before the damage, and those found after it."""
    found = scan_journal(data)
    return {*data[: found.head.size].splitlines(), *find_records(data[found.head.size :])}


def test_after_each_of_many_damages_no_intact_record_is_missing() -> None:
    random = Random(7)
    count = 0
    for name, damage in damages(random, len(WHOLE), 2_000):
        data = damage(WHOLE)
        missing = {line for line in LINES if line in data} - recovered(data)
        assert missing == set(), name
        count += 1
    assert count > 2_500


@given(
    st.lists(st.integers(0, len(WHOLE) - 1), max_size=12),
    st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.binary(max_size=40)), max_size=4),
)
def test_after_many_damages_at_once_no_intact_record_is_missing(
    flipped: list[int], replaced: list[tuple[int, bytes]]
) -> None:
    data = bytearray(WHOLE)
    for place in flipped:
        data[place] ^= 1
    for place, new in replaced:
        data[place : place + 20] = new
    missing = {line for line in LINES if line in data} - recovered(bytes(data))
    assert missing == set()


@given(st.binary(max_size=400), st.lists(st.sampled_from(LINES), max_size=6))
def test_garbage_is_no_record_and_hides_none(garbage: bytes, lines: list[bytes]) -> None:
    data = b"".join(garbage + line for line in lines) + garbage
    assert [one for one in find_records(data) if one in LINES] == lines


def test_what_a_record_holds_is_not_taken_for_its_end() -> None:
    digest = b"0" * 32
    inner = b'{"seq":1,"at":"","event":{},"hash":"' + digest + b'"}'
    line = b'{"seq":7,"at":"x","event":{"base":' + inner + b'},"hash":"' + digest + b'"}'
    assert list(find_records(b"junk" + line + line[5:] + b"\n" + line)) == [line, inner, line]


def damaged(shelf: Shelf) -> tuple[str, list[bytes]]:
    """A thread whose second record is damaged, and its lines before that."""
    thread = shelf.create(*TURN, (Annotated("the end"),))
    journal = shelf.journal(thread)
    lines = journal.read_bytes().splitlines(keepends=True)
    broken = lines[1].replace(b'"event":', b'"evXnt":')
    journal.write_bytes(b"".join([lines[0], broken, *lines[2:]]))
    return thread, lines


def test_a_damaged_thread_is_forked_before_the_damage_and_the_rest_is_kept(shelf: Shelf) -> None:
    thread, lines = damaged(shelf)
    before = shelf.files()
    saved = salvage(shelf.store, thread, CREATOR)
    assert (saved.version, saved.count) == (1, len(lines) - 2)
    assert Path(saved.path).read_bytes() == b"".join(lines[2:])
    assert Path(saved.path).parent == shelf.quarantine
    assert saved.fork is not None
    assert verify_thread(shelf.store, saved.fork).is_good
    assert {name: shelf.files()[name] for name in before} == before
    again = salvage(shelf.store, thread, CREATOR)
    assert again.path == saved.path
    assert len([path for path in shelf.quarantine.iterdir() if path.is_file()]) == 1


def test_of_a_thread_without_an_intact_beginning_the_records_are_kept(shelf: Shelf) -> None:
    thread, lines = damaged(shelf)
    journal = shelf.journal(thread)
    journal.write_bytes(b"X" + journal.read_bytes())
    shelf.snapshot(thread).unlink()
    saved = salvage(shelf.store, thread, CREATOR)
    assert (saved.fork, saved.version) == (None, 0)
    assert "no record" in saved.problem
    assert Path(saved.path).read_bytes().splitlines(keepends=True)[0] == lines[0]


def test_a_thread_whose_snapshot_knows_more_is_forked_where_its_journal_ends(shelf: Shelf) -> None:
    thread = shelf.create(*TURN)
    journal = shelf.journal(thread)
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))
    saved = salvage(shelf.store, thread, CREATOR)
    assert (saved.version, saved.count, saved.path) == (len(lines) - 1, 0, "")
    assert saved.fork is not None


@pytest.mark.parametrize("tail", [b"", b'{"seq":99'])
def test_a_thread_that_is_not_damaged_is_not_salvaged(shelf: Shelf, tail: bytes) -> None:
    thread = shelf.busy()
    with shelf.journal(thread).open("ab") as file:
        file.write(tail)
    before = shelf.files()
    with pytest.raises(UsageError, match="not damaged"):
        salvage(shelf.store, thread, CREATOR)
    assert shelf.files() == before


def test_a_fork_of_a_thread_that_is_gone_cannot_be_forked_and_says_so(shelf: Shelf) -> None:
    base = shelf.busy()
    writer = shelf.store.fork(base, creator=CREATOR)
    writer.close()
    fork = writer.thread_id
    assert verify_thread(shelf.store, fork).is_good
    shelf.snapshot(fork).unlink()
    for path in (shelf.journal(base), shelf.snapshot(base)):
        path.unlink()
    report = verify_thread(shelf.store, fork)
    assert (report.condition, report.is_good) == ("unreadable", False)
    saved = salvage(shelf.store, fork, CREATOR)
    assert saved.fork is None
    assert base in saved.problem
    assert scan_journal(shelf.journal(fork).read_bytes()).condition is JournalCondition.CLEAN
