"""A thread that has grown elsewhere is brought up, whole or not at all."""

from __future__ import annotations

import pytest

from store.power import DATA, Bench, crashes
from store.shelf import CREATOR, Shelf, fill
from store.test_forks import TALK
from treadle.errors import ThreadBusyError, UsageError
from treadle.store.replica_update import update_replica
from treadle.thread.facts import Annotated


def test_a_thread_goes_on_as_a_longer_journal_of_it_and_as_no_other(shelf: Shelf) -> None:
    thread = shelf.create(*TALK)
    whole = shelf.journal(thread).read_bytes()
    lines = whole.splitlines(keepends=True)
    for count in range(1, len(lines) + 1):
        shelf.snapshot(thread).unlink(missing_ok=True)
        shelf.journal(thread).write_bytes(b"".join(lines[:count]))
        assert update_replica(shelf.store, whole) == count
        assert shelf.journal(thread).read_bytes() == whole
    assert shelf.store.adopted.is_foreign(thread)
    writer = shelf.store.open(thread)
    with pytest.raises(ThreadBusyError):
        update_replica(shelf.store, whole)
    fill(writer, (Annotated("mine"),))
    writer.close()
    mine = shelf.journal(thread).read_bytes()
    shelf.journal(thread).write_bytes(whole)
    shelf.snapshot(thread).unlink()
    writer = shelf.store.open(thread)
    fill(writer, (Annotated("another's"),))
    writer.close()
    before = shelf.files()
    for other in (mine, whole):
        with pytest.raises(UsageError, match="gone on differently"):
            update_replica(shelf.store, other)
    assert shelf.files() == before


def test_after_every_crash_a_thread_is_as_it_was_or_brought_up() -> None:
    bench = Bench()
    writer = bench.store.create(CREATOR)
    fill(writer, *TALK)
    writer.close()
    path = f"{DATA}/threads/{writer.thread_id}.jsonl"
    part = bench.disk.read(path)
    writer = bench.store.open(writer.thread_id)
    fill(writer, (Annotated("one"),), (Annotated("two"),))
    writer.close(wants_snapshot=False)
    whole = bench.disk.read(path)
    behind = Bench()
    behind.store.adopt(part)
    seen = set()
    for where, left in crashes(behind, lambda: update_replica(behind.store, whole)):
        data = left.disk.read(path)
        assert data in (part, whole), where
        seen.add(data)
        left.store.open(writer.thread_id).close()
        update_replica(left.store, whole)
        assert left.disk.read(path) == whole
    assert seen == {part, whole}
