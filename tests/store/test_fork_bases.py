"""A fork never hangs on a base that is being removed, was scrubbed meanwhile, or is damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from core.samples import answer, said
from store.shelf import CREATOR, CountingDisk, Shelf, fill
from treadle.errors import (
    DamagedJournalError,
    ReadOnlyThreadError,
    StorageBusyError,
    ThreadBusyError,
    TreadleError,
    UnknownThreadError,
)
from treadle.store.folders import JOURNAL_SUFFIX
from treadle.store.local_store import FORK_TRIES
from treadle.store.replay import verify_thread
from treadle.store.upkeep.garbage import GarbageCollector, GarbageOptions
from treadle.store.upkeep.scrub import scrub
from treadle.store.upkeep.trash import Trash
from treadle.thread.facts import Annotated

SECRET = "swordfish"
TALK = ((said("one"),), (answer(f"it is {SECRET}"),), (said("two"),), (answer("second"),))


class EventfulDisk(CountingDisk):
    """The real disk, on which others do something just before a journal is made or after it."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[Callable[[], object]] = []
        self.after: list[Callable[[], object]] = []
        self._has_new = False

    def create(self, path: str) -> int:
        if path.endswith(JOURNAL_SUFFIX) and self.before:
            self.before.pop()()
        self._has_new = self._has_new or path.endswith(JOURNAL_SUFFIX)
        return super().create(path)

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self._has_new = self._has_new or target.endswith(JOURNAL_SUFFIX)

    def sync_folder(self, path: str) -> None:
        super().sync_folder(path)
        is_new, self._has_new = self._has_new, False
        if is_new and self.after:
            self.after.pop()()


@pytest.fixture
def disk() -> EventfulDisk:
    return EventfulDisk()


@pytest.fixture
def eventful(tmp_path: Path, disk: EventfulDisk) -> Shelf:
    """A shelf on that disk; others look at the same files over a disk of their own."""
    shelf = Shelf(tmp_path)
    shelf.store.folders.disk = disk
    shelf.store._disk = disk
    return shelf


def others(shelf: Shelf) -> Shelf:
    """Another process's view of it."""
    return Shelf(shelf.places.data.parent)


def redact(text: str) -> str:
    return text.replace(SECRET, "[REDACTED:k]")


def collect(shelf: Shelf) -> None:
    garbage = GarbageCollector(shelf.store)
    garbage.remove(garbage.plan(), GarbageOptions(), lambda _: "")


def whole(shelf: Shelf) -> None:
    """Every thread there is can be read from its journals alone."""
    for path in shelf.places.data.rglob("T-*.json"):
        path.unlink()
    for thread_id in shelf.store.ids():
        assert verify_thread(shelf.store, thread_id).is_good


# ---- while it is made ----------------------------------------------------------------------------


@pytest.mark.parametrize("is_removed", [True, False])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_fork_of_what_goes_to_the_trash_meanwhile_is_not_made(
    eventful: Shelf, disk: EventfulDisk, when: str, is_removed: bool
) -> None:
    base = eventful.create(*TALK)

    def put_away() -> None:
        Trash(others(eventful).store).put([base])
        if is_removed:
            collect(others(eventful))

    getattr(disk, when).append(put_away)
    with pytest.raises((ReadOnlyThreadError, UnknownThreadError)):
        eventful.store.fork(base, creator=CREATOR)
    assert eventful.store.ids() == []
    assert eventful.store.folders.ids(in_trash=True) == (
        [] if is_removed and when == "before" else [base]
    )


def test_what_got_a_fork_after_all_was_looked_at_is_not_removed(
    eventful: Shelf, disk: EventfulDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = eventful.create(*TALK)
    garbage = GarbageCollector(others(eventful).store)
    fork = eventful.store.fork(base, creator=CREATOR)
    fork.close()
    journal = eventful.journal(fork.thread_id)
    data = journal.read_bytes()
    journal.unlink()
    eventful.snapshot(fork.thread_id).unlink()
    Trash(eventful.store).put([base])
    plan = garbage.plan()
    hold = garbage._store.lock

    def hold_late(thread_id: str) -> int:
        journal.write_bytes(data)
        return hold(thread_id)

    monkeypatch.setattr(garbage._store, "lock", hold_late)
    removed = garbage.remove(plan, GarbageOptions(), lambda _: "")
    assert removed.threads == ()
    assert removed.kept == (f"thread {base}: {fork.thread_id} goes on from it",)
    whole(eventful)


def test_a_fork_of_what_is_scrubbed_meanwhile_is_begun_anew(
    eventful: Shelf, disk: EventfulDisk
) -> None:
    base = eventful.create(*TALK)
    disk.before.append(lambda: scrub(others(eventful).store, [base], redact))
    fork = eventful.store.fork(base, creator=CREATOR)
    assert [message.content for message in fork.fold.conversation][1] == "it is [REDACTED:k]"
    fork.close()
    assert len(eventful.store.ids()) == 2
    whole(eventful)


def test_a_fork_of_what_is_scrubbed_all_the_time_is_given_up(
    eventful: Shelf, disk: EventfulDisk
) -> None:
    base = eventful.create(*TALK)
    texts = iter(["one", "it is", "two", "second", "swo", "rdfish"])

    def scrub_more() -> None:
        text = next(texts)
        scrub(others(eventful).store, [base], lambda said: said.replace(text, "[REDACTED:k]"))

    disk.before += [scrub_more] * FORK_TRIES
    with pytest.raises(StorageBusyError, match="again and again"):
        eventful.store.fork(base, creator=CREATOR)
    assert eventful.store.ids() == [base]


def test_a_fork_made_before_the_scrub_looks_for_forks_stops_the_scrub(
    eventful: Shelf, disk: EventfulDisk
) -> None:
    base = eventful.create(*TALK)
    stopped: list[TreadleError] = []

    def try_to_scrub() -> None:
        with pytest.raises(ThreadBusyError) as caught:
            scrub(others(eventful).store, [base], redact)
        stopped.append(caught.value)

    disk.after.append(try_to_scrub)
    eventful.store.fork(base, creator=CREATOR).close()
    assert len(stopped) == 1
    whole(eventful)


def test_no_fork_is_made_while_somebody_holds_the_base_and_moves_threads(shelf: Shelf) -> None:
    base = shelf.create(*TALK)
    other = others(shelf).store
    with Trash(other).hold_lock():
        shelf.store.fork(base, creator=CREATOR).close()
        before = shelf.files()
        lock = other.lock(base)
        with pytest.raises(StorageBusyError, match=base):
            shelf.store.fork(base, creator=CREATOR)
        other.folders.disk.close(lock)
    assert shelf.files() == before


@pytest.mark.parametrize("what", ["gone", "held"])
def test_a_fork_is_not_taken_in_whose_base_changes_meanwhile(
    eventful: Shelf, disk: EventfulDisk, what: str
) -> None:
    base = eventful.create(*TALK)
    fork = eventful.store.fork(base, creator=CREATOR)
    fork.close()
    data = eventful.journal(fork.thread_id).read_bytes()
    for path in (eventful.journal(fork.thread_id), eventful.snapshot(fork.thread_id)):
        path.unlink()
    other, held = others(eventful), ExitStack()

    def happen() -> None:
        if what == "gone":
            for path in (eventful.journal(base), eventful.snapshot(base)):
                path.unlink()
        else:
            held.enter_context(Trash(other.store).hold_lock())
            held.callback(other.disk.close, other.store.lock(base))

    disk.after.append(happen)
    with pytest.raises((DamagedJournalError, UnknownThreadError, StorageBusyError)):
        eventful.store.adopt(data)
    held.close()
    assert not eventful.journal(fork.thread_id).exists()


# ---- afterwards ----------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "another"])
def test_a_fork_on_a_damaged_base_is_shown_and_never_written_to(
    shelf: Shelf, damage: str, depth: int
) -> None:
    base = fork = shelf.create(*TALK)
    for _ in range(depth):
        writer = shelf.store.fork(fork, creator=CREATOR)
        fill(writer, (Annotated("own"),))
        writer.close()
        fork = writer.thread_id
    path = shelf.journal(base)
    data = path.read_bytes()
    if damage == "flipped":
        path.write_bytes(data.replace(b"two", b"tvo"))
    elif damage == "cut":
        path.write_bytes(b"".join(data.splitlines(keepends=True)[:3]))
    elif damage == "gone":
        path.unlink()
        shelf.snapshot(base).unlink()
    else:
        stranger = shelf.create((said("x"),), (said("y"),), (said("z"),), (said("u"),))
        path.write_bytes(shelf.journal(stranger).read_bytes())
    before = shelf.files()
    with pytest.raises(DamagedJournalError, match=base) as caught:
        shelf.store.open(fork)
    assert f"treadle verify {base}" in caught.value.hint
    assert len(shelf.store.load(fork).fold.conversation) == 4
    assert shelf.files() == before
    assert shelf.store.find_holder(fork) is None


def test_a_fork_before_the_damage_of_its_base_is_written_to(shelf: Shelf) -> None:
    base = shelf.create(*TALK)
    writer = shelf.store.fork(base, 3, creator=CREATOR)
    writer.close()
    path = shelf.journal(base)
    path.write_bytes(path.read_bytes().replace(b"two", b"tvo"))
    again = shelf.store.open(writer.thread_id)
    fill(again, (said("on"),))
    again.close()


# ---- forks that an older scrub has missed --------------------------------------------------------


def missed(shelf: Shelf, version: int | None = None) -> tuple[str, str]:
    """A thread, and a fork of it that was put there after the thread was scrubbed."""
    base = shelf.create(*TALK)
    fork = shelf.store.fork(base, version, creator=CREATOR)
    fill(fork, (Annotated(f"own {SECRET}"),))
    fork.close()
    journal = shelf.journal(fork.thread_id)
    data = journal.read_bytes()
    journal.unlink()
    shelf.snapshot(fork.thread_id).unlink()
    scrub(shelf.store, [base], redact)
    journal.write_bytes(data)
    return base, fork.thread_id


@pytest.mark.parametrize("is_base_named", [True, False])
def test_a_fork_that_a_scrub_has_missed_is_mended_by_the_next_one(
    shelf: Shelf, is_base_named: bool
) -> None:
    base, fork = missed(shelf)
    scrub(shelf.store, [base, fork] if is_base_named else [fork], redact)
    assert SECRET not in shelf.journal(fork).read_text()
    if is_base_named:
        shelf.store.open(fork).close()
        whole(shelf)


def test_a_fork_that_fits_nothing_stops_no_scrub_and_stays_as_it_is(shelf: Shelf) -> None:
    base, fork = missed(shelf, 3)
    before = json.loads(shelf.journal(fork).read_text().splitlines()[0])
    assert scrub(shelf.store, [base], lambda text: text.replace("second", "[X]")).threads
    scrub(shelf.store, [base, fork], redact)
    assert json.loads(shelf.journal(fork).read_text().splitlines()[0]) == before
    assert SECRET not in shelf.journal(fork).read_text()
