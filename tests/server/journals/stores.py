"""What tests of stores on PostgreSQL share."""

from __future__ import annotations

from typing import Final

from server.people import at
from treadle.server import search
from treadle.server.data.database import Database
from treadle.server.threads.journal_uptake import take_in_oldest_journal

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
