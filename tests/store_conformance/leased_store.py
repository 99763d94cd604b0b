"""A store whose writers hold a lease with an epoch, as on a database that is far away.

A lease is over when its holder is no more at work: dead, or stopped. A real one finds that out by
the time that has passed; here the system is asked, so that no test waits.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from store_conformance.example import SqliteStore
from treadle import StaleWriterError, StoreError, ThreadBusyError

LEASES: Final = "CREATE TABLE IF NOT EXISTS leases (thread TEXT PRIMARY KEY, epoch INT, pid INT)"
APPEND: Final = """INSERT INTO pieces SELECT ?1, ?2, ?3
WHERE ?2 = (SELECT sum(length(data)) FROM pieces WHERE thread = ?1)
AND EXISTS (SELECT 1 FROM leases WHERE thread = ?1 AND epoch = ?4)"""


class LeasedStore(SqliteStore):
    """The store of the example, with other holds."""

    lease_s = 5.0

    def __init__(self, path: str) -> None:
        super().__init__(path)
        with self.open() as db:
            db.execute(LEASES)

    def begin(  # type: ignore[override]  # another journal
        self, thread_id: str, data: bytes, key: str = ""
    ) -> LeasedJournal | None:
        with self.open() as db:
            row = (thread_id, key or None)
            if db.execute("INSERT OR IGNORE INTO threads VALUES (?, ?)", row).rowcount:
                db.execute("INSERT INTO pieces VALUES (?, 0, ?)", (thread_id, data))
                db.execute("INSERT INTO leases VALUES (?, 1, ?)", (thread_id, os.getpid()))
                return LeasedJournal(self, thread_id, 1)
        if thread_id in self.ids():
            raise StoreError(f"there is a thread {thread_id} already")
        return None

    def hold(self, thread_id: str) -> LeasedJournal:  # type: ignore[override]
        self.read(thread_id)
        with self.open() as db:
            db.execute("BEGIN IMMEDIATE")
            found = "SELECT epoch, pid FROM leases WHERE thread = ?"
            epoch, pid = db.execute(found, (thread_id,)).fetchone()
            if is_at_work(pid):
                raise ThreadBusyError(thread_id)
            row = (thread_id, epoch + 1, os.getpid())
            db.execute("REPLACE INTO leases VALUES (?, ?, ?)", row)
        return LeasedJournal(self, thread_id, epoch + 1)


class LeasedJournal:
    """A thread that is held as long as no later epoch has begun."""

    def __init__(self, store: LeasedStore, thread_id: str, epoch: int) -> None:
        self.store, self.thread_id, self.epoch = store, thread_id, epoch

    def append(self, data: bytes, size: int) -> None:
        with self.store.open() as db:
            row = (self.thread_id, size, data, self.epoch)
            if not db.execute(APPEND, row).rowcount:
                raise StaleWriterError(f"{self.thread_id} is somebody else's by now")

    def cut(self, size: int) -> str:
        whole = b"".join(self.store.read(self.thread_id))
        with self.store.open() as db:
            db.execute("DELETE FROM pieces WHERE thread = ?", (self.thread_id,))
            db.execute("INSERT INTO pieces VALUES (?, 0, ?)", (self.thread_id, whole[:size]))
        return ""

    def close(self) -> None:
        with self.store.open() as db:
            over = "UPDATE leases SET epoch = epoch + 1, pid = 0 WHERE thread = ? AND epoch = ?"
            db.execute(over, (self.thread_id, self.epoch))


def is_at_work(pid: int) -> bool:
    """Whether a process is neither stopped nor dead."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return pid > 0 and status.rpartition(") ")[2][0] not in "TtZXx"
