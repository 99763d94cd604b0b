"""Threads go to the trash and come back, and no crash on the way loses or doubles one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from core.samples import said
from lab.model_disk import ModelDisk
from store.power import DATA, Bench, crashes
from store.shelf import CREATOR, TURN, Shelf, fill
from treadle.errors import (
    DiskError,
    ReadOnlyThreadError,
    StorageBusyError,
    StoreError,
    ThreadBusyError,
    UnknownThreadError,
    UsageError,
)
from treadle.store.disk import PosixDisk
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.store.thread_lock import Holder
from treadle.store.upkeep.garbage import GarbageCollector, GarbageOptions
from treadle.store.upkeep.trash import Trash
from treadle.thread.facts import ChildStarted, Recovered, Restored, Trashed
from treadle.thread.record import JournalCondition

VERSION = 8
"""Of a thread as it is made here."""


class AskingDisk(PosixDisk):
    """The real disk, on which somebody asks who holds a thread whenever a file loses a name."""

    def __init__(self, places: Places) -> None:
        super().__init__()
        self.asking = LocalStore(places)
        self.found: set[tuple[int, str]] = set()

    def unlink(self, path: str) -> None:
        super().unlink(path)
        holder = self.asking.find_holder(Path(path).name.partition(".")[0])
        assert isinstance(holder, Holder)
        self.found.add((holder.pid, holder.program))


@pytest.mark.parametrize("is_damaged", [False, True])
def test_whoever_finds_a_thread_held_that_is_moved_or_removed_is_told_by_whom(
    shelf: Shelf, is_damaged: bool
) -> None:
    thread = shelf.busy()
    if is_damaged:
        journal = shelf.journal(thread)
        journal.write_bytes(journal.read_bytes().replace(b"mend it", b"mxnd it"))
    shelf.lock(thread).write_text(
        '{"pid":999999999,"host":"x","since":"2026-01-01T00:00:00Z","program":"treadle run"}\n'
    )
    disk = AskingDisk(shelf.places)
    store = LocalStore(shelf.places, disk=disk, now=shelf.clock, program="treadle gc")
    Trash(store).put([thread])
    assert disk.found == {(os.getpid(), "treadle gc")}
    disk.found.clear()
    shelf.lock(thread).write_text("")
    garbage = GarbageCollector(store)
    garbage.remove(garbage.plan(), GarbageOptions(), lambda _: "")
    assert disk.found == {(os.getpid(), "treadle gc")}
    assert store.folders.ids(in_trash=True) == []


class OneNameDisk(ModelDisk):
    """A disk on which a file has one name."""

    def link(self, source: str, target: str) -> None:
        raise OSError(errno.EPERM, "Operation not permitted", target)

    def _grown(self, root: object) -> ModelDisk:
        other = super()._grown(root)  # type: ignore[arg-type]
        other.__class__ = OneNameDisk
        return other


def thread_on(store: LocalStore, text: str = "mend it") -> str:
    """A thread with a snapshot, and records after it."""
    writer = store.create(CREATOR, workspace="/w")
    fill(writer, *TURN)
    writer.write_snapshot()
    fill(writer, (Recovered(text),))
    assert writer.head.seq == VERSION
    writer.close(wants_snapshot=False)
    return writer.thread_id


def family_on(store: LocalStore) -> tuple[str, str, str]:
    """A thread, its sub-agent's, and the sub-agent's of that."""
    ids: list[str] = []
    parent = None
    for depth in range(3):
        writer = store.create(CREATOR, parent=parent)
        fill(writer, (said(f"level {depth}"),))
        if ids:
            above = store.open(ids[-1])
            fill(above, (ChildStarted(f"call-{depth}", writer.thread_id),))
            above.close()
        writer.close()
        ids.append(writer.thread_id)
        parent = (writer.thread_id, "call", depth + 1)
    return ids[0], ids[1], ids[2]


def stands(store: LocalStore, thread_id: str) -> bool:
    """Whether the thread is in the trash; it must be in exactly one place, whole."""
    loaded = store.load(thread_id)
    assert loaded.condition is not JournalCondition.CORRUPT, loaded.problem
    assert not loaded.problem
    assert loaded.fold.version >= VERSION
    outside = thread_id in store.ids() and not loaded.fold.is_trashed
    inside = Trash(store).ids().count(thread_id)
    return bool(inside) if outside + inside == 1 else pytest.fail(f"{outside=} {inside=}")


# ---- moving --------------------------------------------------------------------------------------


def test_a_thread_in_the_trash_is_listed_there_only_and_not_continued(shelf: Shelf) -> None:
    thread_id, other = thread_on(shelf.store, "one"), thread_on(shelf.store, "other")
    trash = Trash(shelf.store)
    assert [one.id for one in trash.put([thread_id])] == [thread_id]
    assert shelf.store.ids() == [other]
    (line,) = trash.list_threads()
    assert (line.id, line.title, line.workspace_root) == (thread_id, "mend it", "/w")
    assert line.trashed_at == shelf.store.load(thread_id).fold.updated_at
    paths = [shelf.places.data / "trash" / f"{thread_id}{suffix}" for suffix in (".jsonl", ".json")]
    assert line.size == sum(path.stat().st_size for path in paths)
    for use in (shelf.store.open, lambda one: shelf.store.fork(one, creator=CREATOR)):
        with pytest.raises(ReadOnlyThreadError, match="in the trash") as caught:
            use(thread_id)
        assert caught.value.hint == f"treadle restore {thread_id}"
    assert not [path for path in shelf.threads.glob(f"{thread_id}*") if path.suffix != ".lock"]


def test_what_comes_back_is_what_went_and_two_records_tell_of_it(shelf: Shelf) -> None:
    thread_id = thread_on(shelf.store)
    before = shelf.store.load(thread_id).fold
    trash = Trash(shelf.store)
    trash.put([thread_id])
    trash.restore([thread_id])
    after = shelf.store.load(thread_id).fold
    assert list(after.conversation) == list(before.conversation)
    assert after.version == before.version + 2
    assert not after.is_trashed
    assert trash.list_threads() == []
    assert not list((shelf.places.data / "trash").glob("T-*"))
    writer = shelf.store.open(thread_id)
    fill(writer, (said("more"),))
    assert writer.close() is None


def test_sub_agents_threads_go_with_the_thread_they_work_for_and_come_back_with_it(
    shelf: Shelf,
) -> None:
    parent, child, grandchild = family_on(shelf.store)
    other = thread_on(shelf.store)
    trash = Trash(shelf.store)
    (moved,) = trash.put([parent, child])
    assert moved.id == parent
    assert set(moved.children) == {child, grandchild}
    assert shelf.store.ids() == [other]
    (back,) = trash.restore([parent])
    assert set(back.children) == {child, grandchild}
    assert set(shelf.store.ids()) == {parent, child, grandchild, other}


def test_a_thread_that_only_says_it_is_a_child_does_not_go_along(shelf: Shelf) -> None:
    stranger = thread_on(shelf.store)
    writer = shelf.store.create(CREATOR)
    fill(writer, (ChildStarted("a", stranger),))
    writer.close()
    Trash(shelf.store).put([writer.thread_id])
    assert shelf.store.ids() == [stranger]


def test_a_fork_is_read_and_continued_while_what_it_goes_on_from_is_in_the_trash(
    shelf: Shelf,
) -> None:
    base = thread_on(shelf.store)
    fork = shelf.store.fork(base, creator=CREATOR)
    fork.close()
    Trash(shelf.store).put([base])
    writer = shelf.store.open(fork.thread_id)
    assert next(m.content for m in writer.fold.conversation if m.role == "user") == "mend it"
    writer.close()
    assert shelf.store.ids() == [fork.thread_id]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_nothing_moves_while_the_thread_or_a_sub_agents_is_open_elsewhere(
    shelf: Shelf, which: int
) -> None:
    family = family_on(shelf.store)
    writer = shelf.store.open(family[which])
    before = shelf.files()
    with pytest.raises(ThreadBusyError, match=family[which]):
        Trash(shelf.store).put([family[0]])
    assert shelf.files() == before
    writer.close()
    Trash(shelf.store).put([family[0]])
    assert shelf.store.ids() == []


def test_two_do_not_move_threads_at_the_same_time(shelf: Shelf) -> None:
    thread_id = thread_on(shelf.store)
    trash, other = Trash(shelf.store), Trash(shelf.store)
    with trash.hold_lock(), pytest.raises(StorageBusyError):
        other.put([thread_id])
    other.put([thread_id])


def spoilt(data: bytes) -> bytes:
    return data.replace(b"mend it", b"mend at")


@pytest.mark.parametrize(
    "damage",
    [spoilt, lambda data: b"", lambda data: b"\x00garbage\n{}\n", lambda data: data[40:]],
    ids=["a flipped letter", "nothing left", "garbage", "no beginning"],
)
def test_a_damaged_thread_is_moved_as_it_is_and_back(
    shelf: Shelf, damage: Callable[[bytes], bytes]
) -> None:
    thread_id = thread_on(shelf.store)
    shelf.snapshot(thread_id).unlink()
    data = damage(shelf.journal(thread_id).read_bytes())
    shelf.journal(thread_id).write_bytes(data)
    trash = Trash(shelf.store)
    (moved,) = trash.put([thread_id])
    assert len(moved.notes) == 1
    assert "nothing is recorded" in moved.notes[0]
    assert (shelf.places.data / "trash" / f"{thread_id}.jsonl").read_bytes() == data
    assert not shelf.journal(thread_id).exists()
    (line,) = trash.list_threads()
    assert line.id == thread_id
    assert line.trashed_at == ""
    assert line.problem
    trash.restore([thread_id])
    assert shelf.journal(thread_id).read_bytes() == data
    assert trash.list_threads() == []


def test_a_thread_goes_to_the_trash_although_the_disk_is_full() -> None:
    bench = Bench()
    thread_id = thread_on(bench.store)
    write = bench.disk.write

    def full(handle: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    bench.disk.write = full  # type: ignore[method-assign]
    trash = Trash(bench.store)
    (moved,) = trash.put([thread_id])
    assert "No space" in moved.notes[0]
    assert stands(bench.store, thread_id)
    with pytest.raises(ReadOnlyThreadError):
        bench.store.open(thread_id)
    trash.restore([thread_id])
    assert not stands(bench.store, thread_id)
    bench.disk.write = write  # type: ignore[method-assign]
    trash.put([thread_id])
    bench.disk.write = full  # type: ignore[method-assign]
    with pytest.raises(DiskError):
        trash.restore([thread_id])
    assert stands(bench.store, thread_id)
    bench.disk.write = write  # type: ignore[method-assign]
    trash.restore([thread_id])
    assert not stands(bench.store, thread_id)


def test_what_is_not_there_or_not_in_the_trash_is_refused(shelf: Shelf) -> None:
    thread_id, gone = thread_on(shelf.store), thread_on(shelf.store)
    trash = Trash(shelf.store)
    trash.put([gone])
    before = shelf.files()
    with pytest.raises(UsageError, match="already"):
        trash.put([gone])
    with pytest.raises(UsageError, match="is not in the trash"):
        trash.find(thread_id)
    for use in (trash.find, lambda text: trash.put([text]), lambda text: trash.restore([text])):
        with pytest.raises(UnknownThreadError):
            use("T-01900000-0000-7000-8000-00000000ffff")
    assert trash.find(gone[2:]) == gone
    assert shelf.files() == before


# ---- crashes -------------------------------------------------------------------------------------


def check_crash(where: str, left: Bench, thread_id: str, *, to_trash: bool) -> bool:
    """The thread is in one place, whole; the same again ends the move; it comes back too."""
    was_there = stands(left.store, thread_id)
    trash = Trash(left.store)
    if was_there != to_trash:
        (trash.put if to_trash else trash.restore)([thread_id])
    else:
        with trash.hold_lock():
            trash.finish_moves()
    assert stands(left.store, thread_id) == to_trash, where
    assert trash.list_unfinished_moves() == [], where
    folders = ("threads", "trash") if to_trash else ("trash", "threads")
    assert not [name for name in left.names(folders[0]) if name.startswith(thread_id)], where
    names = [name for name in left.names(folders[1]) if name.startswith(thread_id)]
    assert f"{thread_id}.jsonl" in names, where
    if to_trash:
        trash.restore([thread_id])
    left.store.open(thread_id).close()
    return was_there


@pytest.mark.parametrize("to_trash", [True, False])
def test_after_every_crash_a_thread_is_in_one_place_and_the_same_again_ends_the_move(
    to_trash: bool,
) -> None:
    bench = Bench()
    thread_id = thread_on(bench.store)
    trash = Trash(bench.store)
    if not to_trash:
        trash.put([thread_id])
    act = trash.put if to_trash else trash.restore
    seen = {
        check_crash(where, left, thread_id, to_trash=to_trash)
        for where, left in crashes(bench, lambda: act([thread_id]))
    }
    assert seen == {True, False}


@pytest.mark.parametrize("to_trash", [True, False])
def test_after_every_kill_it_is_so_where_a_file_has_one_name(to_trash: bool) -> None:
    disk = OneNameDisk()
    disk.make_folder(DATA)
    bench = Bench(disk)
    thread_id = thread_on(bench.store)
    trash = Trash(bench.store)
    if not to_trash:
        trash.put([thread_id])
    act = trash.put if to_trash else trash.restore
    killed: list[tuple[str, ModelDisk]] = []
    bench.disk.on_change = lambda operation, path: killed.append(
        (f"{operation} {path}", bench.disk.after_kill())
    )
    act([thread_id])
    assert len(killed) > 4
    for where, at_death in killed:
        left = Bench(at_death, first_id=1000)
        loaded = left.store.load(thread_id)
        assert not loaded.problem, where
        in_trash = left.store.folders.find(thread_id)[1] or loaded.fold.is_trashed
        again = Trash(left.store)
        if in_trash:
            again.restore([again.find(thread_id)])
        else:
            again.put([thread_id])
        assert stands(left.store, thread_id) != in_trash, where


@pytest.mark.parametrize("is_trashed", [True, False])
def test_a_move_that_a_crash_has_cut_is_ended_by_whoever_moves_threads_next(
    shelf: Shelf, is_trashed: bool
) -> None:
    thread_id, other = thread_on(shelf.store), thread_on(shelf.store)
    inside = shelf.places.data / "trash" / f"{thread_id}.jsonl"
    inside.parent.mkdir()
    inside.hardlink_to(shelf.journal(thread_id))
    if is_trashed:
        writer = shelf.store.open(thread_id)
        fill(writer, (Trashed(),))
        writer.close()
    trash = Trash(shelf.store)
    assert trash.list_unfinished_moves() == [thread_id]
    assert trash.ids() == [thread_id] * is_trashed
    busy = shelf.store.open_including_trash(thread_id)
    trash.put([other])
    assert trash.list_unfinished_moves() == [thread_id]
    busy.close()
    trash.restore([other])
    assert trash.list_unfinished_moves() == []
    assert shelf.journal(thread_id).exists() != is_trashed
    assert inside.exists() == is_trashed


def test_after_every_crash_a_family_is_whole_and_the_same_again_ends_the_move() -> None:
    bench = Bench()
    family = family_on(bench.store)
    for where, left in crashes(bench, lambda: Trash(bench.store).put([family[0]])):
        trash = Trash(left.store)
        in_trash = set(trash.ids())
        outside = {one for one in left.store.ids() if not left.store.load(one).fold.is_trashed}
        assert in_trash | outside == set(family), where
        assert not in_trash & outside, where
        if family[0] not in in_trash:
            trash.put([family[0]])
        assert set(trash.ids()) == set(family), where


def test_two_different_threads_of_one_id_are_told_and_not_touched(shelf: Shelf) -> None:
    thread_id = thread_on(shelf.store)
    Trash(shelf.store).put([thread_id])
    inside = shelf.places.data / "trash" / f"{thread_id}.jsonl"
    lines = inside.read_bytes().splitlines(keepends=True)
    shelf.journal(thread_id).write_bytes(b"".join(lines[:3]))
    before = shelf.files()
    for use in (Trash(shelf.store).put, Trash(shelf.store).restore):
        with pytest.raises(StoreError, match="there twice"):
            use([thread_id])
        assert shelf.files() == before


def test_a_copy_that_an_interrupted_move_left_behind_is_dropped(shelf: Shelf) -> None:
    thread_id = thread_on(shelf.store)
    leftover = shelf.places.data / "trash" / f"{thread_id}.jsonl"
    leftover.parent.mkdir()
    lines = shelf.journal(thread_id).read_bytes().splitlines(keepends=True)
    leftover.write_bytes(b"".join(lines[:3]))
    trash = Trash(shelf.store)
    assert trash.list_threads() == []
    trash.put([thread_id])
    records = shelf.store.scan(thread_id).records
    assert len(records) == len(lines) + 1
    trash.restore([thread_id])
    assert not leftover.exists()


def test_the_facts_are_the_last_words_of_what_was_moved(shelf: Shelf) -> None:
    from treadle.thread.codec import decode_entry

    thread_id = thread_on(shelf.store)
    trash = Trash(shelf.store)
    for act, fact in ((trash.put, Trashed()), (trash.restore, Restored())):
        act([thread_id])
        assert decode_entry(shelf.store.scan(thread_id).records[-1].event) == fact
