"""Agents on a store of one's own: threads in a database of SQLite, which any process may share.

python examples/sqlite_store.py threads.db ann "Hello"
"""

import asyncio
import fcntl
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime

from treadle import (
    Agent,
    ScriptedModel,
    StaleWriterError,
    StoreError,
    ThreadBusyError,
    Threads,
    UnknownThreadError,
)

TABLES = """
CREATE TABLE IF NOT EXISTS threads (id TEXT PRIMARY KEY, key TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS pieces (thread TEXT, start INT, data BLOB, PRIMARY KEY (thread, start));
CREATE TABLE IF NOT EXISTS blobs (name TEXT PRIMARY KEY, data BLOB);
"""
APPEND = """INSERT INTO pieces SELECT ?1, ?2, ?3 WHERE ?2 = (
SELECT start + length(data) FROM pieces WHERE thread = ?1 ORDER BY start DESC LIMIT 1)"""
READ = "SELECT start, data FROM pieces WHERE thread = ? AND start + length(data) > ? ORDER BY start"


class SqliteStore:
    """The methods of `treadle.Store`, which says what each promises."""

    def __init__(self, path: str) -> None:
        self.path = path
        with self.open() as db:
            db.executescript(TABLES)

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """A connection for one transaction, which SQLite syncs when it is committed."""
        try:
            with closing(sqlite3.connect(self.path, timeout=60)) as db, db:
                yield db
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {error}") from error

    def now(self) -> str:
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def begin(self, thread_id: str, data: bytes, key: str = "") -> "SqliteJournal | None":
        held = SqliteJournal(self, thread_id)
        with self.open() as db:
            row = (thread_id, key or None)
            if db.execute("INSERT OR IGNORE INTO threads VALUES (?, ?)", row).rowcount:
                db.execute("INSERT INTO pieces VALUES (?, 0, ?)", (thread_id, data))
                return held
        held.close()
        if thread_id in self.ids():
            raise StoreError(f"there is a thread {thread_id} already")
        return None

    def hold(self, thread_id: str) -> "SqliteJournal":
        self.read(thread_id)
        return SqliteJournal(self, thread_id)

    def read(self, thread_id: str, start: int = 0) -> list[bytes]:
        with self.open() as db:
            if not db.execute("SELECT 1 FROM threads WHERE id = ?", (thread_id,)).fetchone():
                raise UnknownThreadError(f"there is no thread {thread_id}")
            return [data[max(0, start - at) :] for at, data in db.execute(READ, (thread_id, start))]

    def ids(self) -> list[str]:
        with self.open() as db:
            return [thread_id for (thread_id,) in db.execute("SELECT id FROM threads")]

    def find_key(self, key: str) -> str | None:
        with self.open() as db:
            found = db.execute("SELECT id FROM threads WHERE key = ?", (key,)).fetchone()
            return found[0] if found else None

    def keep_blob(self, name: str, data: bytes) -> None:
        with self.open() as db:
            db.execute("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (name, data))

    def load_blob(self, name: str) -> bytes | None:
        with self.open() as db:
            found = db.execute("SELECT data FROM blobs WHERE name = ?", (name,)).fetchone()
            return found[0] if found else None


class SqliteJournal:
    """A thread that is held by the lock of a file, which the system frees with the process."""

    def __init__(self, store: SqliteStore, thread_id: str) -> None:
        self.store, self.thread_id = store, thread_id
        self.lock = os.open(f"{store.path}.{thread_id}.lock", os.O_CREAT | os.O_WRONLY)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise ThreadBusyError(thread_id) from None

    def append(self, data: bytes, size: int) -> None:
        with self.store.open() as db:
            row = (self.thread_id, size, data)
            if self.lock < 0 or not db.execute(APPEND, row).rowcount:
                raise StaleWriterError(f"{self.thread_id} was given free, or is not as it was left")

    def cut(self, size: int) -> str:
        whole = b"".join(self.store.read(self.thread_id))
        with self.store.open() as db:
            db.execute("DELETE FROM pieces WHERE thread = ?", (self.thread_id,))
            db.execute("INSERT INTO pieces VALUES (?, 0, ?)", (self.thread_id, whole[:size]))
        return ""

    def close(self) -> None:
        if self.lock >= 0:
            os.close(self.lock)
        self.lock = -1


async def main(path: str, customer: str, prompt: str) -> None:
    store = SqliteStore(path)
    model = ScriptedModel.of({"text": "Hello! What can I do?"}, {"text": "As I said."})
    async with Agent("bot", model=model, store=store).thread(customer) as thread:
        print((await thread.send(prompt)).output, f"({len(thread.messages)} messages)")
    for line in Threads(store).list(key=customer):
        print(line.title, line.key)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
