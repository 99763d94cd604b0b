"""Only what nothing needs is removed, after it was named; nothing that is left ever misses it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.samples import ended, said, success
from lab.model_disk import ModelDisk
from store.power import Bench, crashes
from store.shelf import CREATOR, TURN, Shelf, fill
from treadle.core.messages import BlobRef
from treadle.errors import DiskError, StorageBusyError, StoreError
from treadle.store.blobs import REMOVAL_SUFFIX
from treadle.store.live_answer import live_answer_path
from treadle.store.local_store import LocalStore
from treadle.store.upkeep.disk_usage import measure_thread_usage
from treadle.store.upkeep.garbage import GarbageCollector, GarbageOptions, GarbagePlan
from treadle.store.upkeep.references import find_references
from treadle.store.upkeep.trash import Trash, TrashedThread

ALL = GarbageOptions()


def gone(_: TrashedThread) -> str:
    """Nothing else is kept for it."""
    return ""


def naming(store: LocalStore, *outputs: bytes) -> str:
    """A thread that names these outputs."""
    writer = store.create(CREATOR, workspace="/w")
    fill(writer, *TURN[:2])
    for data in outputs:
        ref = writer.keep(data)
        fill(writer, (ended("a", replace(success("a", "cut"), blob=ref)),))
    writer.close()
    return writer.thread_id


def fork_of(store: LocalStore, base: str) -> str:
    writer = store.fork(base, creator=CREATOR)
    fill(writer, (said("on"),))
    writer.close()
    return writer.thread_id


def age(shelf: Shelf) -> None:
    """All files are from long ago."""
    for path in shelf.places.data.rglob("*"):
        os.utime(path, (1, 1))


def collect(store: LocalStore, choice: GarbageOptions = ALL) -> GarbagePlan:
    garbage = GarbageCollector(store)
    return garbage.remove(garbage.plan(choice), choice, gone)


def looked_up(store: LocalStore, threads: Collection[str] = ()) -> list[str]:
    """Look for all that the threads (by default all) name: bases and blobs; the blobs found."""
    found: list[str] = []
    for in_trash in (False, True):
        for thread_id in store.folders.ids(in_trash=in_trash):
            if threads and thread_id not in threads:
                continue
            store.load(thread_id)
            data = store.folders.disk.read(
                store.folders.path(thread_id, ".jsonl", in_trash=in_trash)
            )
            for name, size in re.findall(rb'"sha256":"([0-9a-f]{64})","size":(\d+)', data):
                store.read_blob(BlobRef(name.decode(), int(size)))
                found.append(name.decode())
    return found


# ---- what goes -----------------------------------------------------------------------------------


def test_nothing_is_removed_that_is_not_in_the_trash_or_named_by_nobody(shelf: Shelf) -> None:
    naming(shelf.store, b"one" * 50)
    age(shelf)
    before = shelf.files()
    plan = GarbageCollector(shelf.store).plan()
    assert plan.is_empty
    assert plan.size == 0
    assert collect(shelf.store).is_empty
    assert shelf.files() == before


def test_a_trashed_thread_goes_with_the_blobs_that_only_it_named(shelf: Shelf) -> None:
    kept = naming(shelf.store, b"shared", b"kept")
    thread_id = naming(shelf.store, b"shared", b"only mine")
    Trash(shelf.store).put([thread_id])
    age(shelf)
    before = shelf.files()
    plan = GarbageCollector(shelf.store).plan()
    assert [line.id for line in plan.threads] == [thread_id]
    assert [one.size for one in plan.blobs] == [len(b"only mine")]
    assert shelf.files() == before
    sizes = {p: (shelf.places.data / p).stat().st_size for p in before}
    removed = collect(shelf.store)
    assert removed == plan
    left = shelf.files()
    assert sum(size for path, size in sizes.items() if path not in left) == plan.size
    assert len(looked_up(shelf.store)) == 2
    assert shelf.store.ids() == [kept]
    assert shelf.lock(thread_id).exists()


def test_what_a_killed_process_was_saying_goes_with_its_thread(shelf: Shelf) -> None:
    thread_id = naming(shelf.store)
    path = live_answer_path(shelf.places, thread_id)
    path.parent.mkdir(parents=True)
    path.write_text("left")
    Trash(shelf.store).put([thread_id])
    age(shelf)
    collect(shelf.store)
    assert not path.exists()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_what_a_fork_goes_on_from_stays_as_long_as_the_fork(
    shelf: Shelf, order: tuple[int, ...]
) -> None:
    base = naming(shelf.store, b"of the base")
    middle = fork_of(shelf.store, base)
    end = fork_of(shelf.store, middle)
    family = [base, middle, end]
    trash = Trash(shelf.store)
    trash.put([family[at] for at in order if family[at] != end])
    age(shelf)
    plan = collect(shelf.store)
    assert plan.is_empty
    assert len(plan.kept) == 2
    assert f"thread {base}: {middle} goes on from it" in plan.kept
    shelf.store.open(end).close()
    assert len(looked_up(shelf.store)) == 1
    trash.put([end])
    age(shelf)
    removed = collect(shelf.store)
    assert [line.id for line in removed.threads] == [end, middle, base]
    assert len(removed.blobs) == 1
    assert shelf.store.folders.ids(in_trash=True) == []


def test_a_fork_that_cannot_be_read_still_keeps_what_it_goes_on_from(shelf: Shelf) -> None:
    base = naming(shelf.store)
    fork = fork_of(shelf.store, base)
    Trash(shelf.store).put([base])
    data = bytearray(shelf.journal(fork).read_bytes())
    data[3] ^= 1
    shelf.journal(fork).write_bytes(data)
    assert collect(shelf.store).threads == ()
    assert shelf.store.folders.ids(in_trash=True) == [base]


def test_a_blob_that_only_damaged_or_quarantined_bytes_name_stays(shelf: Shelf) -> None:
    torn, spoilt = naming(shelf.store, b"in a torn end"), naming(shelf.store, b"in a spoilt one")
    data = shelf.journal(torn).read_bytes()
    shelf.journal(torn).write_bytes(data[:-30])
    shelf.snapshot(torn).unlink()
    shelf.store.open(torn).close()
    assert list(shelf.quarantine.iterdir())
    broken = shelf.journal(spoilt).read_bytes().replace(b"scripted", b"scrapted")
    shelf.journal(spoilt).write_bytes(broken)
    shelf.snapshot(spoilt).unlink()
    age(shelf)
    assert GarbageCollector(shelf.store).plan().is_empty
    with_evidence = GarbageOptions(has_quarantine=True)
    plan = GarbageCollector(shelf.store).plan(with_evidence)
    assert len(plan.quarantine) == len(plan.blobs) == 1
    assert collect(shelf.store, with_evidence) == plan
    assert list(shelf.quarantine.iterdir()) == []
    assert GarbageCollector(shelf.store).plan().is_empty


def test_what_is_young_stays_and_it_is_said(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    ref = writer.keep(b"about to be named")
    draft = shelf.places.data / "blobs" / "tmp" / f"{ref.sha256}.0123456789abcdef"
    draft.write_bytes(b"half")
    plan = collect(shelf.store)
    assert plan.is_empty
    assert len(plan.kept) == 1
    assert "last hour" in plan.kept[0]
    age(shelf)
    removed = collect(shelf.store)
    assert [len(removed.blobs), len(removed.drafts)] == [1, 1]
    assert not draft.exists()
    writer.close()


def test_threads_that_came_later_to_the_trash_stay_where_days_are_given(shelf: Shelf) -> None:
    old, new, damaged = (naming(shelf.store) for _ in range(3))
    shelf.snapshot(damaged).unlink()
    shelf.journal(damaged).write_bytes(b"")
    trash = Trash(shelf.store)
    shelf.clock.fixed = "2027-01-01T00:00:00.000000Z"
    trash.put([old])
    shelf.clock.fixed = "2027-01-10T00:00:00.000000Z"
    trash.put([new, damaged])
    for days_min, goes in ((9.5, []), (9.0, [old]), (0.0, [old, new, damaged])):
        plan = GarbageCollector(shelf.store).plan(GarbageOptions(days_min))
        assert {line.id for line in plan.threads} == set(goes)
        assert len(plan.kept) == 3 - len(goes)


def test_a_thread_that_another_process_has_open_stays(shelf: Shelf) -> None:
    thread_id = naming(shelf.store)
    Trash(shelf.store).put([thread_id])
    plan = GarbageCollector(shelf.store).plan()
    writer = shelf.store.open_including_trash(thread_id)
    removed = GarbageCollector(shelf.store).remove(plan, ALL, gone)
    assert removed.is_empty
    assert removed.kept == (f"thread {thread_id}: another process has it open",)
    writer.close()
    assert [line.id for line in collect(shelf.store).threads] == [thread_id]


def test_a_thread_stays_where_what_else_is_kept_for_it_cannot_be_let_go_of(shelf: Shelf) -> None:
    base = naming(shelf.store)
    fork = fork_of(shelf.store, base)
    Trash(shelf.store).put([base, fork])
    asked: list[str] = []

    def drop(line: TrashedThread) -> str:
        asked.append(line.id)
        return "git is busy" if line.id == fork else ""

    garbage = GarbageCollector(shelf.store)
    removed = garbage.remove(garbage.plan(), ALL, drop)
    assert removed.is_empty
    assert asked == [fork]
    assert removed.kept == (
        f"thread {fork}: git is busy",
        f"thread {base}: a fork that was kept goes on from it",
    )
    shelf.store.load(fork)


def test_nothing_goes_that_was_not_in_the_plan_a_person_agreed_to(shelf: Shelf) -> None:
    one, other = naming(shelf.store, b"one"), naming(shelf.store, b"other")
    Trash(shelf.store).put([one])
    age(shelf)
    garbage = GarbageCollector(shelf.store)
    plan = garbage.plan()
    Trash(shelf.store).put([other])
    age(shelf)
    removed = garbage.remove(plan, ALL, gone)
    assert removed == plan
    assert shelf.store.folders.ids(in_trash=True) == [other]
    assert len(looked_up(shelf.store)) == 1


def test_nothing_goes_that_was_taken_back_meanwhile(shelf: Shelf) -> None:
    thread_id = naming(shelf.store, b"needed")
    trash = Trash(shelf.store)
    trash.put([thread_id])
    age(shelf)
    garbage = GarbageCollector(shelf.store)
    plan = garbage.plan()
    trash.restore([thread_id])
    assert garbage.remove(plan, ALL, gone).is_empty
    shelf.store.open(thread_id).close()
    assert len(looked_up(shelf.store)) == 1


def test_nothing_is_removed_while_threads_are_moved(shelf: Shelf) -> None:
    thread_id = naming(shelf.store)
    Trash(shelf.store).put([thread_id])
    with Trash(shelf.store).hold_lock(), pytest.raises(StorageBusyError):
        collect(shelf.store)
    assert shelf.store.folders.ids(in_trash=True) == [thread_id]


@pytest.mark.parametrize("folder", ["threads", "trash"])
@pytest.mark.parametrize("kind", ["a dangling link", "a folder"])
def test_nothing_goes_while_what_has_a_journals_name_cannot_be_read(
    shelf: Shelf, kind: str, folder: str
) -> None:
    thread_id = naming(shelf.store, b"named")
    Trash(shelf.store).put([thread_id])
    age(shelf)
    garbage = GarbageCollector(shelf.store)
    plan = garbage.plan()
    strange = shelf.places.data / folder / "T-01900000-0000-7000-8000-0000000000ff.jsonl"
    strange.mkdir() if kind == "a folder" else strange.symlink_to("/nowhere")
    with pytest.raises(StoreError, match="no plain file"):
        garbage.plan()
    with pytest.raises(StoreError):
        garbage.remove(plan, ALL, gone)
    assert len(looked_up(shelf.store, [thread_id])) == 1


@pytest.mark.parametrize("size", [64, 65, 100, 1024 * 1024 + 7, 1024 * 1024 + 34])
def test_a_name_is_seen_wherever_it_stands(shelf: Shelf, tmp_path: Path, size: int) -> None:
    name = "0123456789abcdef" * 4
    path = tmp_path / "T-01900000-0000-7000-8000-0000000000ff.jsonl"
    for before in (b"f" * (size - 64), b" " * (size - 64)):
        path.write_bytes(before + name.encode() + b"f")
        assert find_references(shelf.disk, str(path), {name, "0" * 64}).blobs == {name}
        path.write_bytes(before + name[:-1].encode() + b'"')
        assert find_references(shelf.disk, str(path), {name}).blobs == frozenset()


def test_a_folder_that_cannot_be_listed_stops_everything(shelf: Shelf) -> None:
    thread_id = naming(shelf.store, b"named")
    Trash(shelf.store).put([thread_id])
    age(shelf)
    plan = GarbageCollector(shelf.store).plan()
    (shelf.places.data / "quarantine").write_bytes(b"not a folder")
    with pytest.raises(DiskError):
        GarbageCollector(shelf.store).remove(plan, ALL, gone)
    assert len(looked_up(shelf.store)) == 1


# ---- crashes and races ---------------------------------------------------------------------------


def garden() -> tuple[Bench, list[str]]:
    """A bench with a base and its fork in the trash, a fork that stays, and blobs of all kinds."""
    bench = Bench()
    store = bench.store
    free, base = naming(store, b"shared", b"mine"), naming(store, b"of the base")
    fork, kept = fork_of(store, base), naming(store, b"shared")
    end = fork_of(store, kept)
    keeper = store.create(CREATOR)
    keeper.keep(b"named by nobody")
    keeper.close()
    Trash(store).put([base, fork, free, kept])
    return bench, [kept, end, keeper.thread_id]


def test_after_every_crash_nothing_is_missed_and_the_same_again_ends_it() -> None:
    bench, kept = garden()
    done = GarbageCollector(bench.store).plan()
    assert [len(done.threads), len(done.blobs)] == [3, 3]
    looked_at = 0
    for where, left in crashes(bench, lambda: collect(bench.store)):
        looked_at += 1
        assert looked_up(left.store), where
        assert set(kept) <= set(left.store.ids() + Trash(left.store).ids()), where
        collect(left.store)
        assert len(looked_up(left.store)) == 1, where
        assert left.store.ids() + left.store.folders.ids(in_trash=True) == kept[::-1], where
        assert left.store.folders.ids(in_trash=True) == kept[:1], where
        assert len(left.names("blobs")) == 1 + ("tmp" in left.names("blobs")), where
    assert looked_at > 50


def keeping(disk: ModelDisk, data: bytes, kept: list[BlobRef]) -> None:
    """Another process names the same bytes now."""
    other = Bench(disk, first_id=500 + 20 * len(kept))
    writer = other.store.create(CREATOR)
    ref = writer.keep(data)
    fill(writer, *TURN[:2], (ended("a", replace(success("a", "cut"), blob=ref)),))
    writer.close()
    kept.append(ref)


def test_who_keeps_the_same_bytes_at_any_moment_of_it_still_finds_them() -> None:
    data = b"named by nobody"
    steps = 0
    bench, _ = garden()
    bench.disk.on_change = lambda operation, path: None
    start = bench.disk.change_count
    collect(bench.store)
    for step in range(1, bench.disk.change_count - start + 1):
        bench, _ = garden()
        bench.set_files_to_now()
        kept: list[BlobRef] = []
        at = bench.disk.change_count + step

        def interrupt(operation: str, path: str, at: int = at, bench: Bench = bench) -> None:
            if bench.disk.change_count == at and not kept:  # noqa: B023  used in this round only
                keeping(bench.disk, data, kept)  # noqa: B023

        bench.disk.on_change = interrupt
        collect(bench.store)
        bench.disk.on_change = None
        assert len(kept) == 1
        steps += 1
        assert bench.store.read_blob(kept[0]) == data, step
        assert not [name for name in bench.names("blobs") if name.endswith(REMOVAL_SUFFIX)]
    assert steps > 15


def test_bytes_that_were_kept_meanwhile_survive_a_power_cut_too() -> None:
    data = b"named by nobody"
    looked_at = 0
    for step in range(1, 100):
        bench, _ = garden()
        bench.set_files_to_now()
        kept: list[BlobRef] = []
        left: list[ModelDisk] = []
        at = bench.disk.change_count + step

        def cut(
            operation: str,
            path: str,
            at: int = at,
            bench: Bench = bench,
            kept: list[BlobRef] = kept,
            left: list[ModelDisk] = left,
        ) -> None:
            if bench.disk.change_count == at and not kept:
                keeping(bench.disk, data, kept)
            elif kept:
                left.extend(bench.disk.crash_states(12))

        bench.disk.on_change = cut
        collect(bench.store)
        bench.disk.on_change = None
        for state in left:
            looked_at += 1
            assert Bench(state).store.read_blob(kept[0]) == data, step
        if not kept:
            break
    assert looked_at > 100


def test_bytes_that_go_while_somebody_keeps_them_are_there_when_it_returns() -> None:
    data = b"named by nobody"
    for step in range(1, 30):
        bench, _ = garden()
        bench.set_files_to_now()
        other = Bench(bench.disk, first_id=500)
        writer = other.store.create(CREATOR)
        at, done = bench.disk.change_count + step, [False]

        def interrupt(
            operation: str,
            path: str,
            at: int = at,
            bench: Bench = bench,
            done: list[bool] = done,
        ) -> None:
            if bench.disk.change_count == at and not done[0]:
                done[0] = True
                collect(bench.store)

        bench.disk.on_change = interrupt
        ref = writer.keep(data)
        bench.disk.on_change = None
        assert bench.store.read_blob(ref) == data, step
        if not done[0]:
            assert step > 1
            return
    pytest.fail("it never ended")


def test_a_blob_put_aside_when_the_process_died_is_read_and_put_back(shelf: Shelf) -> None:
    thread_id = naming(shelf.store, b"needed")
    (name,) = looked_up(shelf.store)
    path = shelf.places.data / "blobs" / name
    path.rename(f"{path}{REMOVAL_SUFFIX}")
    assert looked_up(shelf.store) == [name]
    assert measure_thread_usage(shelf.store, thread_id).blob_count == 1
    age(shelf)
    other = naming(shelf.store)
    Trash(shelf.store).put([other])
    collect(shelf.store)
    assert path.read_bytes() == b"needed"
    assert not Path(f"{path}{REMOVAL_SUFFIX}").exists()


def test_the_lock_of_a_thread_that_is_gone_goes_unless_somebody_has_it(shelf: Shelf) -> None:
    gone_id, left, held = (naming(shelf.store) for _ in range(3))
    Trash(shelf.store).put([gone_id])
    age(shelf)
    collect(shelf.store)
    for thread_id in (left, held):  # as an older version, or a death in between, leaves it
        shelf.journal(thread_id).unlink()
        shelf.snapshot(thread_id).unlink()
    kept = naming(shelf.store)
    handle = shelf.store.lock(held)
    age(shelf)
    collect(shelf.store)
    names = {path.name for path in shelf.threads.glob("*.lock")}
    assert names == {f"{held}.lock", f"{kept}.lock"}
    shelf.disk.close(handle)


def test_a_long_run_of_such_letters_is_searched_whole(shelf: Shelf, tmp_path: Path) -> None:
    names = [f"{number:064x}" for number in (0xABC, 0xDEF)]
    path = tmp_path / "T-01900000-0000-7000-8000-0000000000ff.jsonl"
    path.write_bytes(b"f" * 100_000 + names[1].encode() + b"f" * 100_000)
    for count in (0, 1_000):
        others = {f"{number:063x}e" for number in range(count)}
        assert find_references(shelf.disk, str(path), {*names, *others}).blobs == {names[1]}
