"""What may leave this machine: the one way out, the lock under it, and who takes it first."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from core.samples import said
from store.shelf import CREATOR, Shelf, fill
from treadle.api.marks import Mark
from treadle.errors import (
    InternalError,
    PrivateThreadError,
    ReadOnlyThreadError,
    StorageBusyError,
    UnknownThreadError,
)
from treadle.store.disk import PosixDisk
from treadle.store.journal import sync_journal
from treadle.store.local_store import LocalStore
from treadle.store.send_lock import WAIT_COUNT_MAX, set_private
from treadle.sync.shareable_thread import ShareableThread, open_shareable
from treadle.thread.facts import Annotated, PrivacySet
from treadle.thread.record import Head, scan_journal

TESTS = Path(__file__).parent.parent


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def two_writes(shelf: Shelf) -> str:
    return shelf.create((said("one"), Annotated("x")), (Annotated("y"), Annotated("z")))


def test_nobody_makes_one_but_who_has_looked(shelf: Shelf) -> None:
    thread = two_writes(shelf)
    path = str(shelf.journal(thread))
    with pytest.raises(InternalError, match="only `open_shareable`"):
        ShareableThread(object(), shelf.store, thread, path, Head(), Head())


def test_what_was_handed_out_is_of_no_use_afterwards(shelf: Shelf) -> None:
    thread = two_writes(shelf)
    with open_shareable(shelf.store, thread) as found:
        lines = found.lines(Mark())
    with pytest.raises(InternalError, match="after its lock"):
        _ = found.thread_id
    with pytest.raises(InternalError, match="after its lock"):
        next(lines)


def test_its_lines_are_those_of_the_journal_after_any_record(shelf: Shelf) -> None:
    thread = two_writes(shelf)
    whole = shelf.journal(thread).read_bytes()
    lines = whole.splitlines(keepends=True)
    records = scan_journal(whole).records
    sizes = [sum(map(len, lines[:count])) for count in range(len(lines) + 1)]
    for known in (0, 1, 3, len(lines)):
        seen = Head()
        if known:
            last = records[known - 1]
            seen = Head(last.seq, last.hash, last.at, sizes[known])
        with open_shareable(shelf.store, thread, seen) as found:
            assert (found.mark.seq, found.head.size) == (len(lines), len(whole))
            for place, record in enumerate(records, 1):
                mark = Mark(record.seq, record.hash)
                assert b"".join(found.lines(mark)) == b"".join(lines[place:])
                assert found.has_mark(mark)
            assert b"".join(found.lines(Mark())) == whole
            assert not found.has_mark(Mark(2, "f" * 32))
            assert not found.has_mark(Mark(99, "f" * 32))
            with pytest.raises(UnknownThreadError, match="another one"):
                b"".join(found.lines(Mark(1, "f" * 32)))


def test_a_private_thread_does_not_leave_whatever_says_so(shelf: Shelf) -> None:
    by_header = shelf.create((said("a"),), is_private=True)
    by_fact = shelf.create((said("b"), PrivacySet(True)))
    fork = shelf.store.fork(shelf.create((said("c"),)), creator=CREATOR)
    fork.close()
    base = fork.fold.header.base
    assert base is not None
    set_private(shelf.store, base.thread)
    child = shelf.store.create(CREATOR, parent=(fork.thread_id, "c", 1))
    child.close()
    for thread in (by_header, by_fact, base.thread, fork.thread_id, child.thread_id):
        with pytest.raises(PrivateThreadError), open_shareable(shelf.store, thread):
            pytest.fail("it left")
    set_private(shelf.store, base.thread, False)
    for thread in (base.thread, fork.thread_id, child.thread_id):
        with open_shareable(shelf.store, thread) as found:
            assert found.thread_id == thread


def test_a_child_whose_parent_is_gone_may_leave(shelf: Shelf) -> None:
    child = shelf.store.create(CREATOR, parent=(shelf.next_id(), "c", 1))
    child.close()
    with open_shareable(shelf.store, child.thread_id) as found:
        assert found.mark.seq == 1


def test_a_damaged_thread_does_not_leave(shelf: Shelf) -> None:
    thread = two_writes(shelf)
    data = bytearray(shelf.journal(thread).read_bytes())
    data[data.index(b"one")] ^= 1
    shelf.journal(thread).write_bytes(data)
    with (
        pytest.raises(ReadOnlyThreadError, match="cannot be read"),
        open_shareable(shelf.store, thread),
    ):
        pytest.fail("it left")


def test_an_unfinished_write_is_left_behind(shelf: Shelf) -> None:
    thread = two_writes(shelf)
    whole = shelf.journal(thread).read_bytes()
    shelf.journal(thread).write_bytes(whole + b'{"seq":6,"at":"20')
    with open_shareable(shelf.store, thread) as found:
        assert b"".join(found.lines(Mark())) == whole


def test_what_is_sent_was_durable_before(shelf: Shelf) -> None:
    """A write that comes between the look at the size and the sync is not among it."""
    thread = two_writes(shelf)
    whole = shelf.journal(thread).read_bytes()
    synced: list[int] = []

    class Watching(PosixDisk):
        def sync(self, handle: int) -> None:
            synced.append(os.fstat(handle).st_size)
            super().sync(handle)
            with shelf.journal(thread).open("ab") as file:
                file.write(b"later")

    store = LocalStore(shelf.places, disk=Watching())
    sync_journal(shelf.disk, str(shelf.journal(thread)))
    with open_shareable(store, thread) as found:
        assert found.head.size == len(whole) == synced[0]


def test_who_sends_and_who_makes_private_are_never_at_it_at_once(shelf: Shelf) -> None:
    thread = two_writes(shelf)
    waits = 0

    def pause() -> None:
        nonlocal waits
        waits += 1

    with open_shareable(shelf.store, thread):
        with pytest.raises(StorageBusyError, match="being sent"):
            set_private(shelf.store, thread, pause=pause)
        with pytest.raises(StorageBusyError), open_shareable(shelf.store, thread):
            pytest.fail("it was sent twice at once")
    assert waits == WAIT_COUNT_MAX
    assert not shelf.store.load(thread).fold.is_private


def test_what_hangs_on_a_thread_is_sent_under_its_lock_too(shelf: Shelf) -> None:
    thread = two_writes(shelf)
    fork = shelf.store.fork(thread, creator=CREATOR)
    fork.close()
    with open_shareable(shelf.store, fork.thread_id), pytest.raises(StorageBusyError):
        set_private(shelf.store, thread, pause=lambda: None)


def test_a_session_makes_its_own_thread_private_as_soon_as_nobody_sends_it(shelf: Shelf) -> None:
    thread = two_writes(shelf)
    writer = shelf.store.open(thread)
    begun, end = threading.Event(), threading.Event()

    def send() -> None:
        with open_shareable(shelf.store, thread):
            begun.set()
            end.wait()

    sender = threading.Thread(target=send)
    sender.start()
    begun.wait()

    def let_it_end() -> None:
        end.set()
        sender.join()

    assert set_private(shelf.store, writer, pause=let_it_end)
    fill(writer, (Annotated("more"),))
    writer.close()
    with pytest.raises(PrivateThreadError), open_shareable(shelf.store, thread):
        pytest.fail("it left")


def test_another_process_that_sends_is_waited_for_and_its_death_frees_the_lock(
    shelf: Shelf,
) -> None:
    thread = two_writes(shelf)
    home = shelf.places.data.parent
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from treadle.store.local_store import LocalStore\n"
        "from treadle.store.paths import Places\n"
        "from treadle.sync.shareable_thread import open_shareable\n"
        f"home = Path({str(home)!r})\n"
        "store = LocalStore(Places(home / 'data', home / 'state', home / 'config'))\n"
        f"with open_shareable(store, {thread!r}) as found:\n"
        "    print(found.mark.seq, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"5\n"
        with pytest.raises(StorageBusyError), open_shareable(shelf.store, thread):
            pytest.fail("it was sent twice at once")

        def kill() -> None:
            other.kill()
            other.wait()

        assert set_private(shelf.store, thread, pause=kill)
    assert shelf.store.load(thread).fold.is_private
