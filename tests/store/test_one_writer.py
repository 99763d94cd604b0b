"""A thread has one writer; a second one is told so, and a stale one writes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.samples import said
from store.shelf import CREATOR, TURN, Shelf, fill
from treadle.errors import DamagedJournalError, DiskError, StaleWriterError, ThreadBusyError
from treadle.thread.record import Condition

pytestmark = pytest.mark.timeout(20)

HOLDER = """
import sys
from pathlib import Path
from treadle.store.local import LocalStore
from treadle.store.places import Places
folder = Path(sys.argv[1])
store = LocalStore(Places(folder / "data", folder / "state", folder / "config"))
writer = store.open(sys.argv[2])
print("open", flush=True)
input()
writer.close()
"""


@contextmanager
def holder(folder: Path, thread_id: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has the thread open."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, folder, thread_id],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_writer_in_the_same_process_is_refused(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    with pytest.raises(ThreadBusyError, match=writer.thread_id):
        shelf.store.open(writer.thread_id)
    fill(writer, *TURN)
    writer.close()
    shelf.store.open(writer.thread_id).close()


def test_a_second_process_is_refused_at_once_until_the_first_gives_the_thread_back(
    shelf: Shelf, tmp_path: Path
) -> None:
    thread_id = shelf.busy()
    before = shelf.files()
    with holder(tmp_path, thread_id) as process:
        with pytest.raises(ThreadBusyError, match="open in another process"):
            shelf.store.open(thread_id)
        assert shelf.store.load(thread_id).fold.version == 7
        assert shelf.files() == before
        process.communicate(b"\n")
        shelf.store.open(thread_id).close()


def test_when_the_holder_is_killed_the_next_writer_gets_the_thread_at_once(
    shelf: Shelf, tmp_path: Path
) -> None:
    thread_id = shelf.busy()
    with holder(tmp_path, thread_id) as process:
        process.kill()
        process.wait()
        writer = shelf.store.open(thread_id)
        fill(writer, (said(),))
        writer.close()


def test_other_threads_are_free_meanwhile(shelf: Shelf, tmp_path: Path) -> None:
    one, other = shelf.busy(), shelf.busy()
    with holder(tmp_path, one):
        writer = shelf.store.open(other)
        assert {line.id for line in shelf.store.list()} == {one, other}
        writer.close()


def test_a_refused_opening_leaves_no_lock_behind(shelf: Shelf) -> None:
    thread_id = shelf.busy()
    shelf.snapshot(thread_id).unlink()
    journal = shelf.journal(thread_id)
    whole = journal.read_bytes()
    journal.write_bytes(whole.replace(b"mend it", b"mend at"))
    with pytest.raises(DamagedJournalError):
        shelf.store.open(thread_id)
    journal.write_bytes(whole)
    shelf.store.open(thread_id).close()


@pytest.mark.parametrize("foreign", [b"x", b'{"seq":8}\n'])
def test_a_writer_that_finds_more_in_the_file_than_it_left_writes_nothing(
    shelf: Shelf, foreign: bytes
) -> None:
    writer = shelf.store.create(CREATOR)
    journal = shelf.journal(writer.thread_id)
    with journal.open("ab") as file:
        file.write(foreign)
    before = journal.read_bytes()
    writer.stage(said())
    with pytest.raises(StaleWriterError, match="somebody else wrote"):
        writer.commit()
    assert journal.read_bytes() == before
    assert not writer.is_usable


def test_a_writer_that_finds_less_in_the_file_than_it_left_writes_nothing(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    fill(writer, TURN[0])
    journal = shelf.journal(writer.thread_id)
    journal.write_bytes(journal.read_bytes()[:-1])
    before = journal.read_bytes()
    writer.stage(said())
    with pytest.raises(StaleWriterError):
        writer.commit()
    assert journal.read_bytes() == before


def test_a_writer_that_failed_once_never_writes_again(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    journal = shelf.journal(writer.thread_id)
    whole = journal.read_bytes()
    journal.write_bytes(whole + b"x")
    writer.stage(said())
    with pytest.raises(StaleWriterError):
        writer.commit()
    journal.write_bytes(whole)
    writer.stage(said())
    for use in (writer.commit, writer.sync):
        with pytest.raises(StaleWriterError, match="failed before"):
            use()
    assert writer.close() is None
    assert not shelf.snapshot(writer.thread_id).exists()
    assert journal.read_bytes() == whole


def test_when_the_lock_file_is_removed_and_two_write_one_of_them_is_stopped(shelf: Shelf) -> None:
    first = shelf.store.create(CREATOR)
    shelf.lock(first.thread_id).unlink()
    second = shelf.store.open(first.thread_id)
    fill(second, (said("the second"),))
    first.stage(said("the first"))
    with pytest.raises(StaleWriterError):
        first.commit()
    first.close()
    second.close()
    found = shelf.store.scan(first.thread_id)
    assert found.condition is Condition.CLEAN
    assert shelf.store.load(first.thread_id).fold.title() == "the second"


def test_a_journal_removed_while_it_is_open_takes_no_more_records(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    shelf.journal(writer.thread_id).unlink()
    writer.stage(said())
    with pytest.raises(DiskError, match="removed while it was open"):
        writer.commit()
    writer.close()
    assert not shelf.journal(writer.thread_id).exists()
    assert not shelf.snapshot(writer.thread_id).exists()


def test_a_journal_replaced_while_it_is_open_takes_no_more_records(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    journal = shelf.journal(writer.thread_id)
    copy = journal.with_suffix(".copy")
    copy.write_bytes(journal.read_bytes())
    copy.rename(journal)
    before = journal.read_bytes()
    writer.stage(said())
    with pytest.raises(DiskError):
        writer.commit()
    writer.close()
    assert journal.read_bytes() == before


WORKER = """
import os, sys
from pathlib import Path
from treadle.errors import ThreadBusyError
from treadle.store.local import LocalStore
from treadle.store.places import Places
from treadle.thread.facts import Recovered
folder = Path(sys.argv[1])
store = LocalStore(Places(folder / "data", folder / "state", folder / "config"))
done = 0
while done < 15:
    try:
        writer = store.open(sys.argv[2])
    except ThreadBusyError:
        os.sched_yield()
        continue
    writer.stage(Recovered(f"{sys.argv[3]} {done}"))
    writer.stage(Recovered("and on"))
    writer.commit()
    writer.close()
    done += 1
"""


def test_processes_that_take_turns_lose_repeat_and_mix_nothing(
    shelf: Shelf, tmp_path: Path
) -> None:
    thread_id = shelf.create()
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, tmp_path, thread_id, name])
        for name in ("ann", "bob", "cyd", "dee")
    ]
    assert [worker.wait() for worker in workers] == [0, 0, 0, 0]
    found = shelf.store.scan(thread_id)
    assert found.condition is Condition.CLEAN
    notes = [json.loads(bytes(record.event)).get("note") for record in found.records[1:]]
    assert notes[1::2] == ["and on"] * 60
    for name in ("ann", "bob", "cyd", "dee"):
        mine = [note for note in notes[::2] if note.startswith(name)]
        assert mine == [f"{name} {number}" for number in range(15)]
