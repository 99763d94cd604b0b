"""The file of the index: damaged, busy, not to be written, and what it forgets."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TypeAlias

import pytest

from core.samples import answer, said
from store.index.world import World, ids, kept, path_of, rebuilt, writing
from store.shelf import Shelf, fill
from treadle.store.index.index_file import INDEX_NAME
from treadle.store.index.lookup import Index
from treadle.store.index.schema import SCHEMA_VERSION

OpenIndex: TypeAlias = Callable[[Shelf], Index]

TESTS = Path(__file__).parents[2]


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def open_index(told: list[str]) -> Iterator[OpenIndex]:
    """Opens indexes, which are closed at the end."""
    with ExitStack() as opened:
        yield lambda shelf: opened.enter_context(closing(Index(shelf.store, told.append)))


@pytest.fixture
def index(shelf: Shelf, open_index: OpenIndex) -> Index:
    return open_index(shelf)


# ---- the file ----------------------------------------------------------------------------------


def test_looking_for_threads_where_there_are_none_makes_nothing(
    tmp_path: Path, told: list[str], open_index: OpenIndex
) -> None:
    shelf = Shelf(tmp_path)
    index = open_index(shelf)
    assert index.list_threads() == []
    assert list(tmp_path.iterdir()) == []
    thread = shelf.create((said("first"),))
    assert ids(index) == [thread]
    assert path_of(shelf).exists()
    assert told == []


def test_nobody_else_can_read_the_file_and_its_log(shelf: Shelf, index: Index) -> None:
    shelf.create((said("first"),))
    index.update_all()
    files = list(shelf.places.data.glob(INDEX_NAME + "*"))
    assert len(files) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def spoil_version(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA user_version = {SCHEMA_VERSION - 1 or -1}")
    database.close()


def spoil_tables(path: Path) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("DROP TABLE threads")
    database.close()


def spoil_words(path: Path) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("DELETE FROM words_data WHERE id > 10")
    database.close()


SPOILERS: dict[str, Callable[[Path], object]] = {
    "no database": lambda path: path.write_bytes(b"x" * 5000),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:8192]),
    "zeros": lambda path: path.write_bytes(path.read_bytes()[:4096] + bytes(60_000)),
    "an older version": spoil_version,
    "a table is gone": spoil_tables,
    "the full-text index is damaged": spoil_words,
}


@pytest.mark.parametrize("name", SPOILERS)
def test_a_damaged_index_is_made_anew_and_the_answer_is_right(
    shelf: Shelf, told: list[str], name: str, open_index: OpenIndex
) -> None:
    threads = [shelf.busy() for _ in range(3)]
    first = open_index(shelf)
    first.update_all()
    first.close()
    SPOILERS[name](path_of(shelf))
    index = open_index(shelf)
    assert [hit.thread.id for hit in index.search("mended")] == threads[::-1]
    assert ids(index) == threads[::-1]
    what = "an older Treadle's" if name == "an older version" else "damaged"
    assert [f"is {what}; it is made anew" in line for line in told] == [True] * (name != "empty")
    index.close()
    assert kept(shelf) == rebuilt(shelf)


def test_an_index_of_a_newer_version_is_left_alone(
    shelf: Shelf, told: list[str], open_index: OpenIndex
) -> None:
    thread = shelf.busy()
    first = open_index(shelf)
    first.update_all()
    first.close()
    database = sqlite3.connect(path_of(shelf))
    database.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    database.close()
    before = path_of(shelf).read_bytes()
    index = open_index(shelf)
    assert ids(index) == [thread]
    assert not index.update(thread)
    assert not index.erase(thread)
    index.close()
    assert path_of(shelf).read_bytes() == before
    assert len(told) == 1
    assert "newer" in told[0]


def test_what_stands_in_the_place_of_the_file_is_left_alone(
    shelf: Shelf, index: Index, told: list[str]
) -> None:
    thread = shelf.create((said("first"),))
    os.mkfifo(path_of(shelf))
    assert ids(index) == [thread]
    assert "in memory" in told[0]
    assert stat.S_ISFIFO(path_of(shelf).stat().st_mode)


def test_an_index_that_cannot_be_written_is_copied_and_brought_up_to_date(
    shelf: Shelf, told: list[str], open_index: OpenIndex
) -> None:
    shelf.create((said("old"),))
    first = open_index(shelf)
    first.update_all()
    first.close()
    database = sqlite3.connect(path_of(shelf), isolation_level=None)
    database.execute("PRAGMA max_page_count = 1")
    thread = shelf.create((said("new"),))
    index = open_index(shelf)
    opened = index._file._open()
    opened.execute("PRAGMA max_page_count = 1")
    with writing(shelf, thread) as writer:
        fill(writer, tuple(said(f"word{n} " * 2000) for n in range(1)))
    assert ids(index)[0] == thread
    assert index.search("word0")[0].thread.id == thread
    assert "copy in memory" in told[0]
    assert index.update(thread) is False
    database.close()


def test_a_busy_index_is_copied_too(
    shelf: Shelf,
    told: list[str],
    monkeypatch: pytest.MonkeyPatch,
    open_index: OpenIndex,
) -> None:
    monkeypatch.setattr("treadle.store.index.index_file.BUSY_S", 0.01)
    shelf.create((said("old"),))
    first = open_index(shelf)
    first.update_all()
    other = sqlite3.connect(path_of(shelf), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    thread = shelf.create((said("new"),))
    index = open_index(shelf)
    assert ids(index)[0] == thread
    assert "locked" in told[0]
    other.close()
    first.update_all()
    assert first.list_threads()[0].id == thread


_ONE_OF_MANY = """
import sys
from pathlib import Path
from store.shelf import Shelf
from treadle.store.index.lookup import Index
index = Index(Shelf(Path(sys.argv[1])).store)
for _ in range(3):
    index.update_all()
    print(len(index.list_threads()), len(index.search("mended")))
"""


def test_processes_that_catch_up_at_once_agree(shelf: Shelf, index: Index) -> None:
    for _ in range(150):
        shelf.busy()
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _ONE_OF_MANY, str(shelf.places.data.parent)],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:
        out, _ = process.communicate(timeout=120)
        assert (process.returncode, out) == (0, "150 150\n" * 3)
    index.update_all()
    assert kept(shelf) == rebuilt(shelf)


def test_others_may_write_between_threads_that_take_long(
    shelf: Shelf, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = [shelf.create((said("long"),)) for _ in range(3)]
    index.list_threads()
    for thread in threads:
        index.mark_stale(thread)
    pauses: list[float] = []

    def write_meanwhile(pause_s: float) -> None:
        pauses.append(pause_s)
        with closing(sqlite3.connect(path_of(shelf), timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE").execute("ROLLBACK")

    monkeypatch.setattr("treadle.store.index.index_update._CHUNK_S", 0.0)
    monkeypatch.setattr("treadle.store.index.index_update.sleep", write_meanwhile)
    index.update_all()
    assert pauses == [0.11] * 2


# ---- forgetting --------------------------------------------------------------------------------


def bytes_of(shelf: Shelf) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(shelf.places.data.glob(INDEX_NAME + "*")))


def grown(shelf: Shelf, secret: str) -> str:
    """A thread that holds a secret, indexed among others in many small writes."""
    thread = shelf.create((said(f"the key is {secret}"),), (answer(f"thanks for {secret}"),))
    index = Index(shelf.store)
    for number in range(30):
        shelf.create((said(f"thread {number} is about something else " * 20),))
        index.update_all()
    index.close()
    assert secret.encode() in bytes_of(shelf)
    return thread


SECRET = "zqxjkvwyzqxjkvwy"


def test_what_is_forgotten_is_in_no_byte_of_the_files(shelf: Shelf, index: Index) -> None:
    thread = grown(shelf, SECRET)
    assert index.erase(thread)
    assert SECRET.encode() not in bytes_of(shelf)
    assert SECRET[:8].encode() not in bytes_of(shelf)
    assert ids(index)[-1] == thread, "its journal is there still"


@pytest.mark.parametrize("how", [World.rechain, World.remove])
def test_what_left_the_journals_leaves_the_files_of_the_index(
    shelf: Shelf, index: Index, how: Callable[[World, int], None]
) -> None:
    """Even if whoever removed it has died before it told the index."""
    thread = grown(shelf, "mend" + SECRET)
    how(World(shelf.places.data.parent), 0)
    assert (thread in ids(index)) == (how is World.rechain)
    assert ("mend" + SECRET).encode() not in bytes_of(shelf)


def test_a_reader_delays_the_end_of_the_traces_and_a_later_one_completes_it(
    shelf: Shelf, index: Index, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("treadle.store.index.index_update.PURGE_WAIT_S", 0)
    thread = grown(shelf, SECRET)
    reader = sqlite3.connect(path_of(shelf), isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM threads").fetchone()
    shelf.journal(thread).unlink()
    shelf.snapshot(thread).unlink()
    assert not index.erase(thread)
    assert [line.partition(" ")[0] for line in told] == ["waiting", "it"]
    assert "cleaned by whoever reads it next" in told[-1]
    reader.close()
    index.update_all()
    assert SECRET.encode() not in bytes_of(shelf)
