"""Snapshots are rewritten so seldom that an event costs the same in a long thread as in a short."""

from __future__ import annotations

import pytest

from core.samples import answer, said
from store.shelf import CREATOR, Shelf, fill
from treadle.errors import DiskError
from treadle.store.thread_writer import SNAPSHOT_TAIL_SIZE_MIN
from treadle.thread.facts import Recovered

KIB = 1024


def test_the_tail_must_exceed_256_kib() -> None:
    assert SNAPSHOT_TAIL_SIZE_MIN == 256 * KIB


def test_a_short_tail_is_left_to_the_journal(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    fill(writer, (said("x" * 250 * KIB),))
    writer.refresh_snapshot()
    assert not shelf.snapshot(writer.thread_id).exists()
    fill(writer, (answer("y" * 10 * KIB),))
    writer.refresh_snapshot()
    assert shelf.snapshot(writer.thread_id).exists()
    assert writer.snapshot_head == writer.head
    assert writer.snapshot_size == shelf.snapshot(writer.thread_id).stat().st_size
    writer.close()


def test_a_snapshot_waits_until_the_journal_has_doubled(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    fill(writer, *((Recovered("x" * 900),) for _ in range(600)))
    writer.refresh_snapshot()
    stood_on = writer.snapshot_head
    assert writer.snapshot_size < 100 * KIB < stood_on.size / 4
    fill(writer, *((Recovered("x" * 900),) for _ in range(400)))
    writer.refresh_snapshot()
    assert writer.snapshot_head == stood_on
    fill(writer, *((Recovered("x" * 900),) for _ in range(300)))
    writer.refresh_snapshot()
    assert writer.snapshot_head == writer.head
    writer.close()


def test_a_large_snapshot_waits_for_as_much_as_itself(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    fill(writer, (said("x" * 4000 * KIB),))
    writer.refresh_snapshot()
    stood_on = writer.snapshot_head
    fill(writer, (answer("y" * 3900 * KIB),))
    writer.refresh_snapshot()
    assert writer.snapshot_head == stood_on
    fill(writer, (said("z" * 200 * KIB),))
    writer.refresh_snapshot()
    assert writer.snapshot_head == writer.head
    writer.close()


def test_the_count_goes_on_over_restarts(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    fill(writer, (said("x" * 2000 * KIB),))
    writer.close()
    writer = shelf.store.open(writer.thread_id)
    assert writer.snapshot_head == writer.head
    assert writer.snapshot_size == shelf.snapshot(writer.thread_id).stat().st_size
    stood_on = writer.head
    fill(writer, (answer("y" * 300 * KIB),))
    writer.refresh_snapshot()
    assert writer.snapshot_head == stood_on
    writer.close()


def test_all_snapshots_together_cost_a_small_multiple_of_the_journal(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    snapshots = 0
    for number in range(600):
        fill(writer, (said("x" * 5000), answer("y" * 5000), Recovered(str(number))))
        before = writer.snapshot_head
        writer.refresh_snapshot()
        snapshots += writer.snapshot_head != before
    journal, other = shelf.disk.written["journal"], shelf.disk.written["other"]
    assert journal > 6000 * KIB
    assert 3 <= snapshots <= 6
    assert other <= 2 * journal
    writer.close()


def test_writing_to_the_journal_costs_what_the_events_hold(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    costs = []
    for _ in range(200):
        before = shelf.disk.written["journal"]
        fill(writer, (Recovered("x" * 100),))
        costs.append(shelf.disk.written["journal"] - before)
    assert max(costs) - min(costs) <= 2  # the digits of the sequence
    writer.close()


def test_a_snapshot_that_cannot_be_written_is_told_and_costs_nothing_else(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    drafts = shelf.threads / "tmp"
    drafts.mkdir(exist_ok=True)
    fill(writer, (said("x" * 300 * KIB),))
    drafts.rmdir()
    drafts.touch()
    with pytest.raises(DiskError, match="cannot write"):
        writer.refresh_snapshot()
    fill(writer, (answer("still here"),))
    drafts.unlink()
    assert writer.close() is None
    assert shelf.store.load(writer.thread_id).fold.conversation[-1].content == "still here"
