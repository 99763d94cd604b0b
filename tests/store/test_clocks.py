"""Order is the sequence, never the clock; and times never run backwards within a thread."""

from __future__ import annotations

import json

import pytest

from core.samples import said
from store.shelf import CREATOR, TURN, Shelf, fill
from thread.journals import at
from treadle.thread.facts import Recovered
from treadle.thread.record import JournalCondition

YESTERDAY = "2026-11-20T08:15:30.000000Z"
IN_TEN_YEARS = "2036-11-21T08:15:30.000000Z"


def times(shelf: Shelf, thread_id: str) -> list[str]:
    return [record.at for record in shelf.store.scan(thread_id).records]


@pytest.mark.parametrize("jump", [YESTERDAY, IN_TEN_YEARS, "1970-01-01T00:00:00.000000Z"])
@pytest.mark.parametrize("moment", range(6))
def test_a_clock_that_jumps_at_any_write_changes_no_order(
    shelf: Shelf, jump: str, moment: int
) -> None:
    writer = shelf.store.create(CREATOR)
    for number in range(6):
        shelf.clock.fixed = jump if number == moment else ""
        fill(writer, (said(f"input {number}"), Recovered(str(number))))
    live = writer.fold.document()
    writer.close()
    found = shelf.store.scan(writer.thread_id)
    assert [record.seq for record in found.records] == list(range(1, 14))
    assert found.condition is JournalCondition.CLEAN
    seen = [record.at for record in found.records]
    assert seen == sorted(seen)
    shelf.snapshot(writer.thread_id).unlink()
    assert shelf.store.load(writer.thread_id).fold.document() == live


def test_a_clock_that_went_back_is_held_at_the_last_time_over_restarts_too(shelf: Shelf) -> None:
    thread_id = shelf.create(*TURN)
    last = times(shelf, thread_id)[-1]
    shelf.clock.fixed = YESTERDAY
    writer = shelf.store.open(thread_id)
    fill(writer, (Recovered(),))
    assert writer.fold.updated_at == last
    writer.close()
    assert times(shelf, thread_id)[-1] == last
    shelf.clock.fixed = at(900)
    writer = shelf.store.open(thread_id)
    fill(writer, (Recovered(),))
    writer.close()
    assert times(shelf, thread_id)[-1] == at(900)


def test_records_of_one_batch_have_one_time(shelf: Shelf) -> None:
    thread_id = shelf.create(*TURN)
    assert times(shelf, thread_id) == [at(n) for n in (1, 2, 2, 2, 3, 3, 4)]


def test_what_is_folded_live_has_the_time_that_is_stored(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    fill(writer, (said(),))
    shelf.clock.fixed = YESTERDAY
    writer.stage(Recovered())
    assert writer.fold.updated_at == at(2)
    writer.commit()
    stored = json.loads(shelf.journal(writer.thread_id).read_bytes().splitlines()[-1])
    assert stored["at"] == writer.fold.updated_at == writer.fold.document().updated_at
    writer.close()


def test_threads_made_while_the_clock_stands_are_still_told_apart(shelf: Shelf) -> None:
    shelf.clock.fixed = YESTERDAY
    ids = [shelf.create() for _ in range(3)]
    assert [line.id for line in shelf.store.list()] == list(reversed(ids))
