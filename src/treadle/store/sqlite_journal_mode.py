"""Switch an SQLite file to another journal mode while others may be doing the same."""

from __future__ import annotations

import sqlite3
import time
from typing import Final

POLL_S: Final = 0.01
"""How long a switch takes, about: one write to the file, and its sync."""


def set_journal_mode(database: sqlite3.Connection, mode: str, *, wait_s: float) -> str:
    """Set the journal mode, and wait for others who are at it.

    SQLite itself does not wait: a switch needs the file for itself, and where two ask for that at
    once it ends one of them with SQLITE_BUSY at once, whatever the busy timeout says, lest both
    wait for each other (https://sqlite.org/c3ref/busy_handler.html).

    Args:
        database: outside any transaction.
        mode: as in `PRAGMA journal_mode`; letters and digits only.
        wait_s: how long it tries anew, besides the busy timeout of the last try.

    Returns:
        The mode it has now, in lower case; not the wanted one where the place cannot have it.

    Raises:
        sqlite3.Error: as of any statement; busy, once the time is up.
    """
    until = time.monotonic() + wait_s
    while True:
        try:
            (now,) = database.execute(f"PRAGMA journal_mode = {mode}").fetchone()
        except sqlite3.OperationalError as error:
            is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() >= until:
                raise
            time.sleep(POLL_S)  # SQLite tells nobody when a lock is free
        else:
            return str(now)
