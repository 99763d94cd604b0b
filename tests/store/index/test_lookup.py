"""The index says what the journals say, whatever happened to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from core.samples import answer, said
from store.index.world import World, ids, kept, read_usage, rebuilt, writing
from store.shelf import CREATOR, Shelf, fill
from treadle.core.llm import Usage
from treadle.store.disk import FileStat, PosixDisk
from treadle.store.index.lookup import Index, ThreadFilters
from treadle.store.index.usage_rows import UsageCounter
from treadle.store.local_store import LocalStore
from treadle.thread.codec import encode_entry
from treadle.thread.facts import Pinned, Renamed, Tagged, Trashed
from treadle.thread.record import Head, Record, encode_batch, scan_journal
from treadle.thread.usage import NOT_SAID

TESTS = Path(__file__).parents[2]


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def index(shelf: Shelf, told: list[str]) -> Iterator[Index]:
    index = Index(shelf.store, told.append)
    yield index
    index.close()


# ---- kept equals rebuilt -----------------------------------------------------------------------

HAPPENINGS: tuple[Callable[[World, int], None], ...] = (
    *(World.create, World.append, World.fork, World.tear, World.damage, World.rechain),
    *(World.remove, World.lose_journal, World.throw_away, World.restore, World.touch),
    *(World.look, World.update, World.forget, World.die),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    happenings=st.lists(
        st.tuples(st.sampled_from(HAPPENINGS), st.integers(0, 4000)), min_size=4, max_size=14
    )
)
def test_the_index_kept_is_the_index_made_anew(
    happenings: list[tuple[Callable[[World, int], None], int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    world = World(tmp_path_factory.mktemp("world"))
    for number in range(2):
        world.create(number + 2)
        world.look(0)
    for happen, number in happenings:
        happen(world, number)
    world.index.update_all()
    now = kept(world.shelf)
    fresh = rebuilt(world.shelf)
    for table in fresh:
        assert now[table] == fresh[table], table
    counted = sum((one.usage for one in world.index.list_day_usage()), Usage())
    assert counted == sum(read_usage(world.shelf).values(), Usage())
    world.index.close()


def test_what_the_index_lists_is_what_reading_all_threads_gives(shelf: Shelf, index: Index) -> None:
    shelf.busy()
    pinned = shelf.create((said("first"), Pinned(), Tagged(("red",))))
    for _ in range(2):
        found = index.list_threads()
        assert found[0].id == pinned
        assert sorted(found, key=lambda line: line.id) == sorted(
            shelf.store.list(), key=lambda line: line.id
        )
        with writing(shelf, pinned) as writer:
            fill(writer, (answer("done"),))
        assert index.list_threads() == found, "all answers are of one moment"
        index.update_all()


# ---- what is not done in a folder ----------------------------------------------------------------


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    happenings=st.lists(
        st.tuples(st.sampled_from(HAPPENINGS), st.integers(0, 4000)), min_size=4, max_size=14
    )
)
@example(
    happenings=[
        *[(World.create, 3)] * 5,
        *[(World.append, 320), (World.create, 0), (World.damage, 2028)],
    ]
)
def test_what_is_told_of_a_folder_is_what_a_look_at_all_threads_would_tell(
    happenings: list[tuple[Callable[[World, int], None], int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    world = World(tmp_path_factory.mktemp("world"))
    for happen, number in happenings:
        happen(world, number)
        told = {line.id for line in Index(world.store).list_pending("/w")}
        lines = Index(world.store).list_threads(ThreadFilters(workspace="/w", state="unfinished"))
        assert told == {line.id for line in lines if not line.problem}
    world.index.close()


def test_of_a_folder_with_very_many_threads_the_newest_are_looked_at_and_those_not_done(
    shelf: Shelf, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.store.index.index_update.FOLDER_COUNT_MAX", 1)
    stopped = shelf.create((said("stopped"),))
    done, newest = (shelf.create((said("a"),), (answer("b"),)) for _ in range(2))
    assert [line.id for line in index.list_pending("/w")] == [stopped]
    for thread, entry in ((stopped, answer("at last")), (done, said("c")), (newest, said("c"))):
        with writing(shelf, thread) as writer:
            fill(writer, (entry,))
    assert [line.id for line in index.list_pending("/w")] == [newest]
    index.update_all()
    assert [line.id for line in index.list_pending("/w")] == [newest, done]


def test_what_is_told_of_a_folder_looks_at_no_file_of_another(shelf: Shelf) -> None:
    for number in range(3):
        writer = shelf.store.create(CREATOR, workspace=f"/elsewhere-{number}")
        fill(writer, (said("elsewhere"),))
        writer.close()
    here = shelf.create((said("here"),))
    for new in (4, 0):
        disk = Watched()
        index = Index(LocalStore(shelf.places, disk=disk))
        assert [line.id for line in index.list_pending("/w")] == [here]
        index.close()
        journals = [Path(path).name for path in disk.seen if path.endswith(".jsonl")]
        assert disk.seen.count(str(shelf.threads)) == 1
        assert journals.count(f"{here}.jsonl") == 1
        assert len(journals) == max(new, 1)


def test_a_look_at_all_threads_lists_each_folder_once(shelf: Shelf) -> None:
    shelf.busy()
    Index(shelf.store).update_all()
    disk = Watched()
    index = Index(LocalStore(shelf.places, disk=disk))
    index.list_threads()
    index.count()
    index.search("mended")
    index.close()
    trash = str(shelf.threads.parent / "trash")
    assert disk.seen.count(str(shelf.threads)) == disk.seen.count(trash) == 1
    journals = [path for path in disk.seen if path.endswith(".jsonl")]
    assert len(journals) == len(set(journals)) == len(list(shelf.threads.glob("*.jsonl")))


class Watched(PosixDisk):
    """A disk that knows what was listed and looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def list(self, folder: str, ending: str = "") -> list[str]:
        self.seen.append(folder)
        return super().list(folder, ending)

    def stats(self, folder: str, ending: str = "") -> dict[str, FileStat]:
        self.seen.append(folder)
        return super().stats(folder, ending)

    def stat(self, path: str) -> FileStat | None:
        self.seen.append(path)
        return super().stat(path)


# ---- freshness ---------------------------------------------------------------------------------


def test_only_what_has_grown_is_read_again(shelf: Shelf, index: Index) -> None:
    quiet, busy = shelf.create((said("quiet"),)), shelf.create((said("busy"),))
    index.update_all()
    statements: list[str] = []
    index._file._open().set_trace_callback(statements.append)
    index.update_all()
    assert not [text for text in statements if text.startswith(("BEGIN", "INSERT", "UPDATE"))]
    with writing(shelf, busy) as writer:
        fill(writer, (answer("loudly"),))
    statements.clear()
    index.update_all()
    written = [text for text in statements if text.startswith("INSERT INTO words")]
    assert len(written) == 1
    assert "loudly" in written[0]
    assert quiet not in "".join(statements)


@pytest.mark.parametrize("damage", [b"half a rec", b"\0" * 20])
def test_a_torn_thread_is_not_read_again_while_its_file_stays_as_it_is(
    shelf: Shelf, index: Index, damage: bytes
) -> None:
    torn = shelf.create((said("quiet"),))
    with shelf.journal(torn).open("ab") as file:
        file.write(damage)
    index.update_all()
    statements: list[str] = []
    index._file._open().set_trace_callback(statements.append)
    index.update_all()
    assert not [text for text in statements if text.startswith(("BEGIN", "INSERT", "UPDATE"))]


def test_a_known_fold_saves_reading_the_thread(shelf: Shelf, index: Index) -> None:
    thread = shelf.create((said("first"),))
    index.update_all()
    writer = shelf.store.open(thread)
    fill(writer, (Renamed("The loom"),))
    shelf.snapshot(thread).write_bytes(b"not looked at")
    assert index.update(thread, writer.fold)
    writer.close()
    assert index.list_threads()[0] == writer.fold.summary()
    index.update_all()
    assert kept(shelf) == rebuilt(shelf)


def test_a_fork_of_a_damaged_thread_says_so_as_soon_as_it_is_damaged(
    shelf: Shelf, index: Index
) -> None:
    base = shelf.create((said("first"),), (answer("second"),))
    fork = shelf.store.fork(base, creator=CREATOR)
    fork.close()
    shelf.snapshot(fork.thread_id).unlink(missing_ok=True)
    assert [line.problem for line in index.list_threads()] == ["", ""]
    shelf.journal(base).unlink()
    shelf.snapshot(base).unlink()
    index.update_all()
    (line,) = index.list_threads()
    assert (line.id, "gone" in line.problem) == (fork.thread_id, True)


def test_one_bad_file_has_a_line_and_stops_nothing(shelf: Shelf, index: Index) -> None:
    good, bad = shelf.create((said("good"),)), shelf.create((said("bad"),))
    shelf.snapshot(bad).unlink()
    data = shelf.journal(bad).read_bytes()
    shelf.journal(bad).write_bytes(b"x" + data)
    (shelf.threads / "T-not-an-id.jsonl").write_bytes(b"\0" * 99)
    os.mkfifo(shelf.threads / "T-01900000-0000-7000-8000-00000000ffff.jsonl")
    shelf.journal(shelf.next_id()).write_bytes(b"")
    lines = {line.id: line for line in index.list_threads()}
    assert lines[good].problem == ""
    assert lines[bad].problem != ""
    assert ids(index, ThreadFilters(state="damaged")).count(bad) == 1


def test_the_trash_is_listed_when_it_is_asked_for_only(shelf: Shelf, index: Index) -> None:
    kept_one, away = shelf.create((said("here"),)), shelf.create((said("away"),))
    marked = shelf.create((said("marked"), Trashed()))
    world = World(shelf.places.data.parent)
    world.move(shelf.journal(away), world.trash)
    assert ids(index) == [kept_one]
    assert {*ids(index, ThreadFilters(is_trashed=True))} == {away, marked}
    assert all(line.is_trashed for line in index.list_threads(ThreadFilters(is_trashed=True)))
    world.move(world.trash / f"{away}.jsonl", shelf.threads)
    index.update_all()
    assert {*ids(index)} == {kept_one, away}


def test_a_journal_that_was_written_anew_and_is_longer_is_read_from_its_beginning(
    shelf: Shelf, index: Index
) -> None:
    """In the same file, so that only the chain tells it from one that has grown."""
    thread = shelf.create((said("before"),))
    index.update_all()
    path = shelf.journal(thread)
    events = [bytes(one.event).replace(b"before", b"afterwards") for one in scan_of(path)]
    shelf.snapshot(thread).unlink()
    path.write_bytes(encode_batch(Head(), "2026-11-21T00:00:00.000000Z", events)[0])
    index.update_all()
    assert index.search("before") == []
    assert [hit.thread.id for hit in index.search("afterwards")] == [thread]


def scan_of(path: Path) -> list[Record]:
    return scan_journal(path.read_bytes()).records


def test_usage_of_other_zones_goes_to_its_own_day() -> None:
    """These two are 26 hours apart, though they name the same minute."""
    counter = UsageCounter(NOT_SAID)
    entry = Renamed("t", by="model", usage=Usage(1, 0), model="m")
    for seq, zone in enumerate(("+14:00", "-12:00"), 1):
        record = Record(seq, f"2026-11-21T12:00:00{zone}", msgspec.Raw(encode_entry(entry)[1]))
        counter.add(record, entry)
    assert len(counter.sums) == 2
