"""A thread has one writer; a second one is told so, and a stale one writes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.samples import said
from store.shelf import CREATOR, TURN, Shelf, fill
from treadle.errors import DamagedJournalError, DiskError, StaleWriterError, ThreadBusyError
from treadle.store.thread_lock import NOTE_SIZE_MAX, WORD_LENGTH_MAX, Holder
from treadle.thread.record import JournalCondition

HOLDER = """
import sys
from pathlib import Path
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
folder = Path(sys.argv[1])
places = Places(folder / "data", folder / "state", folder / "config")
writer = LocalStore(places, program="treadle run").open(sys.argv[2])
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
    assert found.condition is JournalCondition.CLEAN
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
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
from treadle.thread.facts import Recovered
folder, thread, name, turns, batches = sys.argv[1:]
folder = Path(folder)
store = LocalStore(Places(folder / "data", folder / "state", folder / "config"))
print("ready", flush=True)
input()
for turn in range(int(turns)):
    while True:
        try:
            writer = store.open(thread)
            break
        except ThreadBusyError:
            os.sched_yield()
    for batch in range(int(batches)):
        writer.stage(Recovered(f"{name} {turn} {batch}"))
        writer.stage(Recovered("and on"))
        writer.commit()
    writer.close()
"""


@pytest.mark.parametrize(("count", "turns", "batches"), [(2, 100, 1), (8, 8, 25)])
def test_processes_that_race_for_a_thread_lose_repeat_and_mix_nothing(
    shelf: Shelf, tmp_path: Path, count: int, turns: int, batches: int
) -> None:
    thread_id = shelf.create()
    names = [f"worker-{number}" for number in range(count)]
    arguments = [tmp_path, thread_id]
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, *arguments, name, str(turns), str(batches)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for name in names
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(b"\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate()
    assert [worker.returncode for worker in workers] == [0] * count
    found = shelf.store.scan(thread_id)
    assert found.condition is JournalCondition.CLEAN
    notes = [json.loads(bytes(record.event)).get("note") for record in found.records[1:]]
    assert notes[1::2] == ["and on"] * (count * turns * batches)
    written = notes[::2]
    of_a_turn = [note.rpartition(" ")[0] for note in written]
    assert of_a_turn[::batches] == of_a_turn[batches - 1 :: batches]  # nobody came between
    for name in names:
        mine = [note for note in written if note.startswith(f"{name} ")]
        assert mine == [
            f"{name} {turn} {batch}" for turn in range(turns) for batch in range(batches)
        ]


# ---- who holds it --------------------------------------------------------------------------------


def test_who_finds_a_thread_busy_is_told_who_has_it_and_since_when(
    shelf: Shelf, tmp_path: Path
) -> None:
    thread_id = shelf.busy()
    with holder(tmp_path, thread_id) as process:
        found = shelf.store.find_holder(thread_id)
        assert isinstance(found, Holder)
        assert (found.pid, found.program) == (process.pid, "treadle run")
        assert (found.host, found.since[-1]) == (os.uname().nodename, "Z")
        with pytest.raises(ThreadBusyError) as caught:
            shelf.store.open(thread_id)
        since = found.since[:16].replace("T", " ")
        who = f"pid {process.pid} on {found.host}, since {since} UTC (treadle run)"
        assert caught.value.message == f"thread {thread_id} is open in another process: {who}"
        assert (caught.value.thread_id, caught.value.holder) == (thread_id, who)
        assert f"treadle watch {thread_id}" in caught.value.hint


NOTES = {
    "nothing": b"",
    "torn": b'{"pid":12,"host":"lo',
    "no JSON": b"hello",
    "no UTF-8": b'{"pid":12,"host":"\xff","since":"2026"}',
    "another kind of object": b'{"holder":"me"}',
    "a list": b"[]",
    "deep": b"[" * NOTE_SIZE_MAX,
    "no process": b'{"pid":-1,"host":"loom","since":"2026-11-21T10:15"}',
    "a text for a number": b'{"pid":"12","host":"loom","since":"2026-11-21T10:15"}',
    "what steers a terminal": b'{"pid":12,"host":"\\u001b[2J","since":"2026-11-21T10:15"}',
    "a long name": b'{"pid":12,"host":"%b","since":""}' % (b"x" * (WORD_LENGTH_MAX + 1)),
    "more than is read": b'{"pid":12,"host":"loom","since":""}'.ljust(NOTE_SIZE_MAX) + b"x}",
}


@pytest.mark.parametrize("kind", [name for name in NOTES if name != "more than is read"])
def test_what_nobody_here_wrote_into_a_lock_file_names_nobody(shelf: Shelf, kind: str) -> None:
    writer = shelf.store.create(CREATOR)
    shelf.lock(writer.thread_id).write_bytes(NOTES[kind])
    assert shelf.store.find_holder(writer.thread_id) == ""
    with pytest.raises(ThreadBusyError) as caught:
        shelf.store.open(writer.thread_id)
    assert caught.value.message == f"thread {writer.thread_id} is open in another process"
    writer.close()
    assert shelf.store.find_holder(writer.thread_id) is None
    shelf.store.open(writer.thread_id).close()


def test_of_a_long_lock_file_only_the_beginning_is_read(shelf: Shelf) -> None:
    writer = shelf.store.create(CREATOR)
    with shelf.lock(writer.thread_id).open("wb") as file:
        file.write(NOTES["more than is read"])
        file.truncate(1 << 40)
    assert shelf.store.find_holder(writer.thread_id) == Holder(12, "loom", "")
    writer.close()


def test_a_shorter_note_leaves_nothing_of_a_longer_one(shelf: Shelf) -> None:
    thread_id = shelf.create()
    shelf.lock(thread_id).write_bytes(b"x" * 5000)
    writer = shelf.store.open(thread_id)
    assert isinstance(shelf.store.find_holder(thread_id), Holder)
    assert len(shelf.lock(thread_id).read_bytes()) < 500
    writer.close()


def test_a_thread_that_nobody_has_open_has_no_holder_whatever_its_lock_file_says(
    shelf: Shelf, tmp_path: Path
) -> None:
    thread_id = shelf.busy()
    assert shelf.lock(thread_id).read_bytes()
    assert shelf.store.find_holder(thread_id) is None
    with holder(tmp_path, thread_id) as process:
        process.kill()
        process.wait()
        assert json.loads(shelf.lock(thread_id).read_bytes())["pid"] == process.pid
        assert shelf.store.find_holder(thread_id) is None
    shelf.lock(thread_id).unlink()
    assert shelf.store.find_holder(thread_id) is None


def test_no_writer_fails_because_somebody_asks_who_writes(shelf: Shelf, tmp_path: Path) -> None:
    """The worker gives up at the first refusal; here it is refused by nobody.

    It goes on until it was seen at work, and between two turns, often enough.
    """
    thread_id = shelf.create()
    enough = tmp_path / "enough"
    alone = WORKER.replace("os.sched_yield()", "sys.exit(3)")
    alone += f"    if Path({str(enough)!r}).exists():\n        break\nprint(turn + 1)\n"
    with subprocess.Popen(
        [sys.executable, "-c", alone, tmp_path, thread_id, "one", "1000000", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        assert worker.stdin is not None
        worker.stdin.write(b"\n")
        worker.stdin.flush()
        answers: Counter[bool] = Counter()
        try:
            while worker.poll() is None:
                answers[shelf.store.find_holder(thread_id) is None] += 1
                if min(answers[True], answers[False]) == 30:
                    enough.touch()
        finally:
            worker.kill()
        turns = worker.stdout.read()
    assert worker.returncode == 0
    assert len(shelf.store.scan(thread_id).records) == 1 + 2 * int(turns)


PARENT = """
import os, subprocess, sys
from pathlib import Path
from treadle.store.local_store import LocalStore
from treadle.store.paths import Places
folder = Path(sys.argv[1])
writer = LocalStore(Places(folder / "data", folder / "state", folder / "config")).open(sys.argv[2])
child = subprocess.Popen(
    [sys.executable, "-c", "import os; os.open(os.sys.argv[1], os.O_RDONLY)", sys.argv[3]],
    close_fds=False,
)
print(child.pid, flush=True)
input()
"""


def test_a_child_that_outlives_the_holder_does_not_keep_the_thread(
    shelf: Shelf, tmp_path: Path
) -> None:
    thread_id = shelf.busy()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path, thread_id, fifo],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        with pytest.raises(ThreadBusyError):
            shelf.store.open(thread_id)
        parent.kill()
        parent.wait()
        os.kill(child, 0)  # it lives: it waits for somebody to open the other end
        assert shelf.store.find_holder(thread_id) is None
        shelf.store.open(thread_id).close()
        os.kill(child, signal.SIGKILL)
