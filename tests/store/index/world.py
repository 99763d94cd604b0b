"""A store to which things happen, and what an index of it holds."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from core.samples import CONFIG
from store.shelf import CREATOR, TURN, Shelf, fill
from thread.journals import at
from treadle.core.llm import Usage
from treadle.core.task.events import TaskConfig, TaskGiven
from treadle.store.index.index_file import INDEX_NAME, IndexFile
from treadle.store.index.index_update import IndexUpdater
from treadle.store.index.lookup import Index, ThreadFilters
from treadle.store.index.schema import NUMBER_SHIFT
from treadle.thread.codec import Entry, decode_entry
from treadle.thread.facts import (
    Annotated,
    BranchRecord,
    Configured,
    GitObserved,
    Merged,
    Pinned,
    Renamed,
    Tagged,
    Trashed,
)
from treadle.thread.fold import TASK
from treadle.thread.record import Head, encode_batch, scan_journal
from treadle.thread.usage import list_usage


def path_of(shelf: Shelf) -> Path:
    return shelf.places.data / INDEX_NAME


def dump(database: sqlite3.Connection) -> dict[str, Any]:
    """All that an index holds, by thread; the numbers it gives to threads say nothing."""
    names = dict(database.execute("SELECT number, id FROM journals").fetchall())
    tables = ("journals", "threads", "tags", "commits", "usage")
    found: dict[str, Any] = {}
    for table in tables:
        cursor = database.execute(f"SELECT * FROM {table}")
        columns = [column[0] for column in cursor.description]
        at = columns.index("number")
        found[table] = sorted(
            (names[row[at]], *(value for place, value in enumerate(row) if place != at))
            for row in cursor
        )
    found["words"] = sorted(
        (names[row >> NUMBER_SHIFT], row & (1 << NUMBER_SHIFT) - 1, text, sha)
        for row, text, sha in database.execute("SELECT rowid, text, sha FROM words")
    )
    found["meta"] = database.execute("SELECT * FROM meta ORDER BY name").fetchall()
    database.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    return found


def kept(shelf: Shelf) -> dict[str, Any]:
    database = sqlite3.connect(path_of(shelf), isolation_level=None)
    try:
        return dump(database)
    finally:
        database.close()


def rebuilt(shelf: Shelf) -> dict[str, Any]:
    """What an index holds that is made now, from the journals alone."""
    file = IndexFile(shelf.disk, str(shelf.places.data / "elsewhere"), lambda _: None)
    shelf.disk.make_folder(str(shelf.places.data / "elsewhere"))
    (shelf.places.data / "elsewhere" / "not-empty").touch()
    try:
        freshness = IndexUpdater(shelf.store, lambda _: None)

        def make(database: sqlite3.Connection) -> dict[str, Any]:
            freshness.update_all(database)
            return dump(database)

        return file.run_job(make)
    finally:
        file.close()
        shutil.rmtree(shelf.places.data / "elsewhere")


def read_usage(shelf: Shelf) -> dict[str, Usage]:
    """What each thread's records, read from the first to the last, say that it has used."""
    read: dict[str, Usage] = {}
    for folder in (shelf.threads.parent / "trash", shelf.threads):
        for path in folder.glob("*.jsonl"):
            records = scan_journal(path.read_bytes()).records
            entries = ((one.seq, one.at, decode_entry(one.event)) for one in records)
            used = sum((one.usage for one in list_usage(entries)), Usage())
            read.pop(path.stem, None)
            if used != Usage():
                read[path.stem] = used
    return read


def ids(index: Index, filters: ThreadFilters = ThreadFilters()) -> list[str]:  # noqa: B008  frozen
    return [line.id for line in index.list_threads(filters)]


ENTRIES: tuple[Entry, ...] = (
    Renamed("The loom"),
    Renamed(""),
    Tagged(("red", "blue")),
    Tagged((), ("red",)),
    Pinned(),
    Annotated("ask Ada"),
    GitObserved("main", "c0ffee", True, "host/path", ("a.py",)),
    GitObserved("main", "beef"),
    Trashed(),
    Configured(replace(CONFIG, model_name="model-2"), "scripted"),
    Renamed("Asked", by="model", usage=Usage(3, 1, cost_usd=Decimal("0.1"))),
    Renamed("Asked", by="model", usage=Usage(5, 2, estimated=True), model="model-3"),
    Merged(
        1,
        "0" * 32,
        (
            BranchRecord(
                2, at(2), "1" * 32, {"type": "renamed", "title": "t", "usage": {"input_tokens": 7}}
            ),
        ),
    ),
)

TASK_FIRST: tuple[Entry, ...] = (
    Configured(CONFIG, "scripted"),
    TaskGiven("mend", config=TaskConfig(models={"default": "model-4"})),
)


class World:
    """A store to which things happen."""

    def __init__(self, folder: Path) -> None:
        self.shelf = Shelf(folder)
        self.store = self.shelf.store
        self.index = Index(self.store)
        self.trash = self.shelf.threads.parent / "trash"
        self.old = folder / "old"

    def some(self, number: int, folder: Path | None = None) -> Path | None:
        """A journal."""
        found = sorted((folder or self.shelf.threads).glob("*.jsonl"))
        return found[number % len(found)] if found else None

    def create(self, number: int) -> None:
        if number % 5 == 4:
            self.store.create(CREATOR, workspace="/w", machine=TASK, first=TASK_FIRST).close()
        else:
            self.shelf.create(*TURN[: number % 4])

    def append(self, number: int) -> None:
        path = self.some(number)
        if path is None or scan_journal(path.read_bytes()).condition.value == "corrupt":
            return
        with writing(self.shelf, path.stem) as writer:
            if writer is not None:
                fill(writer, (ENTRIES[number % len(ENTRIES)],))

    def fork(self, number: int) -> None:
        path = self.some(number)
        if path is None or not (records := scan_journal(path.read_bytes()).records):
            return
        version = number // 3 % len(records) + 1
        try:
            self.store.fork(path.stem, version, creator=CREATOR).close()
        except Exception as error:  # noqa: BLE001  what cannot be forked is not
            assert type(error).__module__.startswith("treadle")  # noqa: PT017

    def tear(self, number: int) -> None:
        path = self.some(number)
        if path is not None:
            with path.open("ab") as file:
                file.write(b'{"seq":99,"at'[: 1 + number % 13])

    def damage(self, number: int) -> None:
        path = self.some(number)
        if path is not None and path.stat().st_size:
            data = bytearray(path.read_bytes())
            data[number % len(data)] ^= 1
            self.replace(path, bytes(data))

    def rechain(self, number: int) -> None:
        """As a scrub does."""
        path = self.some(number)
        if path is None or not (records := scan_journal(path.read_bytes()).records):
            return
        events = [bytes(one.event).replace(b"mend", b"****") for one in records]
        self.replace(path, encode_batch(Head(), records[0].at, events)[0])

    def replace(self, path: Path, data: bytes) -> None:
        """With another file; the old one stays somewhere, so that its inode is not used again."""
        self.old.mkdir(exist_ok=True)
        new = path.with_suffix(".new")
        new.write_bytes(data)
        path.with_suffix(".json").unlink(missing_ok=True)
        path.rename(self.old / str(len(list(self.old.iterdir()))))
        new.rename(path)

    def remove(self, number: int) -> None:
        path = self.some(number)
        if path is not None:
            for suffix in (".jsonl", ".json"):
                path.with_suffix(suffix).unlink(missing_ok=True)

    def lose_journal(self, number: int) -> None:
        path = self.some(number)
        if path is not None:
            path.unlink()

    def throw_away(self, number: int) -> None:
        self.move(self.some(number), self.trash)

    def restore(self, number: int) -> None:
        self.move(self.some(number, self.trash), self.shelf.threads)

    def move(self, path: Path | None, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for suffix in (".jsonl", ".json"):
            if path is not None and path.with_suffix(suffix).exists():
                path.with_suffix(suffix).rename(folder / path.with_suffix(suffix).name)

    def touch(self, number: int) -> None:
        path = self.some(number)
        if path is not None:
            os.utime(path, ns=(number, number))

    def look(self, _: int) -> None:
        self.index.update_all()

    def update(self, number: int) -> None:
        path = self.some(number)
        if path is not None:
            assert self.index.update(path.stem)

    def forget(self, number: int) -> None:
        path = self.some(number)
        if path is not None:
            assert self.index.erase(path.stem)

    def die(self, number: int) -> None:
        """In the middle of catching up: after some threads, or in one."""
        self.index.close()
        freshness = IndexUpdater(self.store, lambda _: None)
        file = IndexFile(self.shelf.disk, str(self.shelf.places.data), lambda _: None)
        file.run_job(lambda database: _cut_short(database, freshness, number % 60))
        file.close()
        self.index = Index(self.store)


def _cut_short(database: sqlite3.Connection, freshness: IndexUpdater, count: int) -> None:
    """Let catching up end after so many statements, and nothing be tidied up."""
    left = [count]

    def watch(_: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            database.interrupt()

    database.set_trace_callback(watch)
    try:
        freshness.update_all(database)
    except sqlite3.OperationalError as error:
        assert "interrupted" in str(error)  # noqa: PT017
    finally:
        database.set_trace_callback(None)
        if database.in_transaction:
            database.rollback()


@contextmanager
def writing(shelf: Shelf, thread_id: str) -> Iterator[Any]:
    """The thread's writer; `None` if it cannot be written."""
    from treadle.errors import TreadleError

    try:
        writer = shelf.store.open_including_trash(thread_id)
    except TreadleError:
        yield None
        return
    yield writer
    writer.close()
