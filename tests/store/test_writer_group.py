"""Batches wait for others only while many threads are open."""

from __future__ import annotations

from store.shelf import CREATOR, Shelf
from treadle.store.writer_group import MEMBERS_MIN


def test_who_has_closed_counts_no_more(shelf: Shelf) -> None:
    writers = [shelf.store.create(CREATOR) for _ in range(MEMBERS_MIN)]
    member = writers[0].member
    assert member is not None
    assert member.group.is_worth_waiting
    writers[-1].close()
    assert not member.group.is_worth_waiting
    writers[-1] = shelf.store.open(writers[-1].thread_id)
    assert member.group.is_worth_waiting
    for writer in writers:
        writer.close()
        writer.close()
    assert member.group.count == 0
