"""What tests of stores on PostgreSQL share."""

from __future__ import annotations

from typing import Final

import psycopg

from server.people import at
from treadle import HeldJournal, PostgresStore
from treadle.server import search
from treadle.server.data.database import Database
from treadle.server.threads.journal_uptake import take_in_oldest_journal
from treadle.store.id_beginnings import make_thread_id
from treadle.thread.codec import encode_entry
from treadle.thread.facts import FORMAT_VERSION, Tagged, ThreadCreated
from treadle.thread.fold import CHAT
from treadle.thread.record import Head, encode_batch

OWNER: Final = "owner"

LEASE_S: Final = 2.0
"""Long enough for a process that is starved of processor time, short enough to be waited for."""


def take_in_all(database: Database) -> int:
    """What a server does in the background, until there is nothing left; in how many steps."""
    count = 0
    while database.run(lambda db: take_in_oldest_journal(db, at(9e8)), is_write=True):
        count += 1
    while database.run(search.index_oldest_pending, is_write=True):
        pass
    return count


def make_beginning() -> tuple[str, bytes, Head]:
    """A new thread: its id, its first record, and where that ends."""
    header = ThreadCreated(FORMAT_VERSION, make_thread_id(), CHAT, "test")
    return header.thread, *encode_batch(Head(), at(), [encode_entry(header)[1]])


class Writing:
    """A thread of records that is written to: what was acknowledged stands in `data`."""

    def __init__(self, store: PostgresStore, key: str = "") -> None:
        self.thread_id, self.data, self.head = make_beginning()
        held = store.begin(self.thread_id, self.data, key)
        assert held is not None
        self.held: HeldJournal = held

    def make_batch(self, *tags: str) -> tuple[bytes, Head]:
        """The next records, which are not appended."""
        events = [encode_entry(Tagged(added=(tag,)))[1] for tag in tags]
        return encode_batch(self.head, at(), events)

    def append(self, *tags: str) -> None:
        """Append the next records."""
        data, head = self.make_batch(*tags)
        self.held.append(data, self.head.size)
        self.data, self.head = self.data + data, head


def run_sql(url: str, statement: str) -> None:
    """Execute SQL beside a store, as an operator would."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())
