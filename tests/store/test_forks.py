"""A fork goes on from a version of another thread, whose history it has by reference."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from core.samples import answer, said
from runtime.disks import WatchedDisk
from store.shelf import CREATOR, TURN, Shelf, fill
from treadle.core.chat.states import ExecutingTools
from treadle.errors import DamagedJournalError, UnknownThreadError, UsageError
from treadle.store.local_store import LocalStore
from treadle.store.replay import verify_thread
from treadle.thread.codec import encode_entry
from treadle.thread.facts import FORMAT_VERSION, Base, Renamed, Tagged, ThreadCreated
from treadle.thread.record import Head, encode_batch

TALK = ((said("one"),), (answer("first"),), (said("two"),), (answer("second"),))


def forked(shelf: Shelf, thread_id: str, version: int | None = None, *more: object) -> str:
    writer = shelf.store.fork(thread_id, version, creator=CREATOR)
    fill(writer, *more)  # type: ignore[arg-type]
    writer.close()
    return writer.thread_id


def contents(shelf: Shelf, thread_id: str) -> list[str]:
    return [message.content for message in shelf.store.load(thread_id).fold.conversation]


@pytest.mark.parametrize("with_snapshot", [True, False])
def test_a_fork_goes_on_from_the_version_it_names(shelf: Shelf, with_snapshot: bool) -> None:
    parent = shelf.create(*TALK)
    before = shelf.files()
    child = forked(shelf, parent, 3, (said("other"),), (answer("way"),))
    assert {name: d for name, d in shelf.files().items() if child not in name} == before
    if not with_snapshot:
        shelf.snapshot(child).unlink()
    assert contents(shelf, child) == ["one", "first", "other", "way"]
    assert contents(shelf, parent) == ["one", "first", "two", "second"]
    document = shelf.store.load(child).fold.document()
    assert document.forked_from == Base(parent, 3, shelf.store.scan(parent).records[2].hash)
    assert (document.version, document.workspace_root) == (3, "/w")
    assert verify_thread(shelf.store, child).is_good


def test_every_version_can_be_forked_and_stands_where_the_parent_stood(shelf: Shelf) -> None:
    parent = shelf.create(*TURN)
    last = shelf.store.load(parent).head.seq
    for version in range(1, last + 1):
        child = forked(shelf, parent, version)
        then, now = shelf.store.load(parent, version).fold, shelf.store.load(child).fold
        assert now.conversation == then.conversation
        assert now.machine.config == then.machine.config
        assert type(now.state) is type(then.state)
        assert now.machine.obligations() == then.machine.obligations()


def test_a_fork_in_the_middle_of_a_turn_is_in_the_middle_of_it(shelf: Shelf) -> None:
    parent = shelf.create(*TURN[:2])
    assert isinstance(shelf.store.load(forked(shelf, parent)).fold.state, ExecutingTools)


def test_a_fork_of_a_fork_has_the_history_of_both(shelf: Shelf) -> None:
    parent = shelf.create(*TALK)
    child = forked(shelf, parent, 3, (said("other"),), (answer("way"),))
    grandchild = forked(shelf, child, 2, (answer("third"),))
    shelf.snapshot(grandchild).unlink()
    shelf.snapshot(child).unlink()
    assert contents(shelf, grandchild) == ["one", "first", "other", "third"]


def test_titles_tags_and_use_begin_anew(shelf: Shelf) -> None:
    parent = shelf.create(*TALK, (Renamed("The loom"), Tagged(("red",))))
    summary = shelf.store.summary(forked(shelf, parent))
    assert summary is not None
    assert (summary.title, summary.tags, summary.forked_from) == ("one", (), parent)


def test_a_private_thread_has_private_forks(shelf: Shelf) -> None:
    child = forked(shelf, shelf.create(*TALK, is_private=True))
    assert shelf.store.load(child).fold.header.is_private


def test_a_thread_that_is_open_elsewhere_can_be_forked(shelf: Shelf) -> None:
    parent = shelf.create(*TALK)
    writer = shelf.store.open(parent)
    assert contents(shelf, forked(shelf, parent, 3)) == ["one", "first"]
    writer.close()


def test_a_damaged_thread_can_be_forked_before_the_damage(shelf: Shelf) -> None:
    parent = shelf.create(*TALK)
    path = shelf.journal(parent)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b"?" * len(lines[3]), *lines[4:]]))
    shelf.snapshot(parent).unlink()
    assert contents(shelf, forked(shelf, parent)) == ["one", "first"]
    with pytest.raises(UnknownThreadError, match="versions 1 to 3"):
        shelf.store.fork(parent, 4, creator=CREATOR)


def test_a_version_that_is_not_there_cannot_be_forked(shelf: Shelf) -> None:
    parent = shelf.create(*TALK)
    for version in (0, 6, -1):
        with pytest.raises(UnknownThreadError):
            shelf.store.fork(parent, version, creator=CREATOR)
    assert shelf.store.ids() == [parent]


def test_a_fork_whose_base_says_something_else_now_is_not_believed(shelf: Shelf) -> None:
    parent = shelf.create(*TALK)
    child = forked(shelf, parent, 3)
    shelf.snapshot(child).unlink()
    data, _ = encode_batch(Head(), "2026-01-01T00:00:00.000000Z", [
        encode_entry(ThreadCreated(FORMAT_VERSION, parent, "chat", CREATOR))[1],
        encode_entry(said("something"))[1],
        encode_entry(answer("else"))[1],
    ])  # fmt: skip
    shelf.journal(parent).write_bytes(data)
    with pytest.raises(DamagedJournalError, match="other contents"):
        shelf.store.load(child)


def test_a_fork_whose_base_is_gone_says_which_one(shelf: Shelf) -> None:
    parent = shelf.create(*TALK)
    child = forked(shelf, parent, 3)
    for path in (shelf.journal(parent), shelf.snapshot(parent), shelf.snapshot(child)):
        path.unlink()
    with pytest.raises(DamagedJournalError, match=parent):
        shelf.store.load(child)
    [line] = shelf.store.list()
    assert parent in line.problem


def test_a_journal_is_taken_in_whole_and_only_once(shelf: Shelf) -> None:
    parent = shelf.create(*TALK)
    data = shelf.journal(parent).read_bytes()
    with pytest.raises(UsageError, match="already"):
        shelf.store.adopt(data)
    other = data.replace(parent.encode(), b"T-01900000-0000-7000-8000-0000000000ff")
    with pytest.raises(UsageError, match="no intact journal"):
        shelf.store.adopt(other)
    shelf.journal(parent).unlink()
    shelf.snapshot(parent).unlink()
    for cut in range(0, len(data), 50):
        if cut not in [i + 1 for i, byte in enumerate(data) if byte == 10]:
            with pytest.raises(UsageError, match="no intact journal"):
                shelf.store.adopt(data[:cut])
    assert shelf.store.ids() == []
    assert shelf.store.adopt(data).header.thread == parent
    assert contents(shelf, parent) == ["one", "first", "two", "second"]


def test_a_fork_is_taken_in_only_where_its_base_is(shelf: Shelf) -> None:
    parent = shelf.create(*TALK)
    child = forked(shelf, parent, 3)
    data = shelf.journal(child).read_bytes()
    for path in (shelf.journal(child), shelf.snapshot(child)):
        path.unlink()
    whole = shelf.journal(parent).read_bytes()
    shelf.journal(parent).unlink()
    shelf.snapshot(parent).unlink()
    with pytest.raises(DamagedJournalError, match="gone"):
        shelf.store.adopt(data)
    assert shelf.store.adopt(whole).header.thread == parent
    assert shelf.store.adopt(data).header.thread == child


class _WrittenWhileRead(WatchedDisk):
    """Somebody writes to a journal, and does not sync it yet, while it is being read."""

    on_read: Callable[[], None] | None = None

    def pieces(self, path: str, offset: int = 0) -> Generator[bytes, None, None]:
        write, self.on_read = self.on_read, None
        if write is not None:
            write()
        return super().pieces(path, offset)


def test_a_fork_stands_on_no_record_that_a_power_cut_could_take_away(shelf: Shelf) -> None:
    disk = _WrittenWhileRead()
    store = LocalStore(shelf.places, disk=disk, now=shelf.clock, new_id=shelf.next_id)
    parent = shelf.create(*TALK)
    writer = store.open(parent)
    writer.stage(Renamed("Not synced"))
    disk.on_read = writer.write
    fork = store.fork(parent, creator=CREATOR)
    base = fork.fold.header.base
    assert base is not None
    assert base.version == writer.head.seq == 6
    assert len(disk.durable(shelf.journal(parent)).splitlines()) == base.version
    fork.close()
    writer.close()
