"""A switch of the journal mode waits for others at it, which SQLite by itself does not."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from treadle.store.sqlite_journal_mode import set_journal_mode

THREADS = 4


def test_several_that_switch_a_new_file_at_once_all_do(tmp_path: Path) -> None:
    """Without the wait one of ten rounds ends with `database is locked`."""

    def switch(path: Path, begin: Barrier) -> str:
        database = sqlite3.connect(path, timeout=0, isolation_level=None)
        try:
            begin.wait()
            return set_journal_mode(database, "WAL", wait_s=60)
        finally:
            database.close()

    with ThreadPoolExecutor(THREADS) as pool:
        for number in range(60):
            begin = Barrier(THREADS, timeout=60)
            path = tmp_path / f"{number}.sqlite"
            modes = [pool.submit(switch, path, begin) for _ in range(THREADS)]
            assert [mode.result() for mode in modes] == ["wal"] * THREADS


def test_it_gives_up_when_its_time_is_over(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    other = sqlite3.connect(path, timeout=0, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        set_journal_mode(other, "WAL", wait_s=0.05)
    writer.execute("COMMIT")
    assert set_journal_mode(other, "WAL", wait_s=0.0) == "wal"
    for database in (writer, other):
        database.close()


def test_what_is_no_matter_of_waiting_is_raised_at_once(tmp_path: Path) -> None:
    (tmp_path / "x.sqlite").write_bytes(b"no database at all" * 100)
    database = sqlite3.connect(tmp_path / "x.sqlite")
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        set_journal_mode(database, "WAL", wait_s=60)
    database.close()


def test_a_place_that_cannot_have_the_mode_says_which_it_has() -> None:
    database = sqlite3.connect(":memory:")
    assert set_journal_mode(database, "WAL", wait_s=0) == "memory"
    database.close()
