"""Reading a journal takes no more memory than the thread itself, however long the file is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from store.shelf import Shelf
from thread.journals import at
from treadle.thread.codec import encode_entry
from treadle.thread.facts import FORMAT_VERSION, Foreign, ThreadCreated
from treadle.thread.record import RECORD_SIZE_MAX, Head, encode_batch

MIB: Final = 1024 * 1024
READ: Final = """
import resource, sys
from pathlib import Path
from store.shelf import Shelf
from treadle.errors import TreadleError

store = Shelf(Path(sys.argv[1])).store
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for use in (store.load, store.open, store.list_rests, store.load_initial_fold, store.summary):
    try:
        use(sys.argv[2])
    except TreadleError as error:
        print(error.message, file=sys.stderr)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def grown_by(shelf: Shelf, thread_id: str) -> int:
    """How many bytes a process grows by when it reads and opens a thread."""
    ran = subprocess.run(
        [sys.executable, "-c", READ, str(shelf.places.data.parent), thread_id],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(ran.stdout)


def written(shelf: Shelf, text: str, size: int) -> str:
    """A thread whose journal is longer than `size`, of facts that a fold does not keep."""
    thread_id = shelf.next_id()
    header = ThreadCreated(FORMAT_VERSION, thread_id, "chat", "treadle/0.1.0")
    data, head = encode_batch(Head(), at(0), [encode_entry(header)[1]])
    _, event = encode_entry(Foreign(text))
    shelf.threads.mkdir(parents=True, exist_ok=True)
    with shelf.journal(thread_id).open("wb") as file:
        file.write(data)
        while head.size < size:
            data, head = encode_batch(head, at(1), [event] * 64)
            file.write(data)
    return thread_id


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss is another one")
def test_a_long_journal_is_read_without_being_held(shelf: Shelf) -> None:
    thread_id = written(shelf, "x" * 2000, 64 * MIB)
    assert grown_by(shelf, thread_id) < 16 * MIB


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss is another one")
@pytest.mark.parametrize("beginning", ["nothing", "a journal"])
def test_a_gigabyte_of_nothing_takes_no_more_than_the_longest_record(
    shelf: Shelf, beginning: str
) -> None:
    thread_id = written(shelf, "x", 1000)
    if beginning == "nothing":
        shelf.journal(thread_id).write_bytes(b"")
    with shelf.journal(thread_id).open("ab") as file:
        file.truncate(1024 * MIB)
    assert grown_by(shelf, thread_id) < 3 * RECORD_SIZE_MAX
    assert shelf.journal(thread_id).stat().st_size == 1024 * MIB
