"""Keeps the index as the journals are: reads what is new in them, and no more."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Final

from treadle.store.folders import JOURNAL_SUFFIX, SNAPSHOT_SUFFIX, StoreFolders
from treadle.store.index.indexed_thread import (
    MISSING_FILE,
    PURGE_NAME,
    STALE_RECORDS,
    Stamp,
    ThreadIndexer,
    delete_thread,
    make_stamp,
    request_purge,
)
from treadle.store.index.schema import PENDING
from treadle.store.journal import convert_os_errors
from treadle.store.local_store import LocalStore
from treadle.thread.codec import VOCABULARY
from treadle.thread.fold import ThreadFold
from treadle.thread.ids import is_thread_id

NOTICE_COUNT: Final = 500
"""That more threads than this are read is said before: it takes seconds."""

_CACHE_KB: Final = 16 * 1024
"""So much of the file is held in memory meanwhile."""

_CHUNK_COUNT: Final = 400
"""So many threads are taken in at a time; then others may write, and a kill loses no more."""
_CHUNK_S: Final = 2.0
_PAUSE_S: Final = 0.11
"""After so long no more are, and others may write, who ask each tenth of a second for `BUSY_S`."""

FOLDER_COUNT_MAX: Final = 1_000
"""Of a folder whose unfinished threads are told, so many threads are looked at."""

PURGE_WAIT_S: Final = 5
"""So long a scrub waits for others that read the index."""


class IndexUpdater:
    """Brings an index up to date.

    Args:
        store: the threads.
        tell: gets a sentence when it takes long.
    """

    def __init__(self, store: LocalStore, tell: Callable[[str], None]) -> None:
        self._folders: StoreFolders = store.folders
        self._disk = store.folders.disk
        self._threads = ThreadIndexer(store)
        self._tell = tell

    def update_all(self, database: sqlite3.Connection) -> None:
        """Take in everything that has changed since, whoever changed it.

        Raises:
            DiskError: the folders cannot be listed.
            sqlite3.Error: the index cannot be read or written; what was committed stays.
        """
        _handle_new_vocabulary(database)
        known = {row[0]: row for row in database.execute(_SELECT_STAMPS)}
        seen = self._list_stamps(known)
        gone = known.keys() - seen.keys()
        left = {one for one, stamp in seen.items() if known.get(one) != (one, *stamp, 0)}
        if len(left) > NOTICE_COUNT:
            self._tell(_NOTICE.format(len(left)))
            # Words are merged without being read again; who reads only is slower with so much.
            database.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
        _change_some(database, sorted(gone), self._threads.delete_if_gone)
        taken: set[str] = set()
        while left or (gone and not taken):
            # Bases come before their forks, because ids begin with their time.
            _change_some(
                database, sorted(left), lambda db, one: self._threads.index(db, one, seen[one])
            )
            taken |= left
            stale = {row[0] for row in database.execute("SELECT id FROM journals WHERE stale")}
            left = (stale & seen.keys()) - taken
            gone.clear()
        self.purge(database)

    def update_folder(self, database: sqlite3.Connection, workspace: str) -> None:
        """Take in threads that are new, and what has changed of the newest of one folder.

        Of the others the index says what it knew. It takes a fifth of `update_all`. Raises as that.

        Args:
            database: the index.
            workspace: the folder. `FOLDER_COUNT_MAX` of its threads are looked at, those that
                changed last as far as the index knows, and those that are not done.
        """
        _handle_new_vocabulary(database)
        folder = self._folders.threads
        with convert_os_errors("list", folder):
            names = self._disk.list(folder, JOURNAL_SUFFIX)
        known = {row[0] for row in database.execute(_SELECT_NAMES)}
        ids = [name.removesuffix(JOURNAL_SUFFIX) for name in names if name not in known]
        new = list(filter(is_thread_id, ids))
        if len(new) > NOTICE_COUNT:
            self._tell(_NOTICE.format(len(new)))
        _change_some(database, new, self._threads.update)
        taken = set(new)
        while left := self._list_changed(database, workspace, taken):
            _change_some(database, left, self._threads.update)
            taken.update(left)
        self.purge(database)

    def update(
        self, database: sqlite3.Connection, thread_id: str, fold: ThreadFold | None = None
    ) -> None:
        """Take in what has changed of one thread. Raises as `update_all`."""
        _handle_new_vocabulary(database)
        with _transaction(database):
            self._threads.update(database, thread_id, fold)
        self.purge(database)

    def mark_stale(self, database: sqlite3.Connection, thread_id: str) -> None:
        """Have a thread read again from its first record, although its file is as it was."""
        with _transaction(database):
            database.execute(
                "UPDATE journals SET stale = ? WHERE id = ?", (STALE_RECORDS, thread_id)
            )

    def erase(self, database: sqlite3.Connection, thread_ids: Iterable[str]) -> bool:
        """Remove all that is known of threads, out of the file too.

        Returns:
            Whether nothing of it is left in the file; if not, the next one who catches up tries it
            again.
        """
        with _transaction(database):
            for thread_id in thread_ids:
                delete_thread(database, thread_id)
            request_purge(database)
        if self.purge(database):
            return True
        self._tell(f"waiting up to {PURGE_WAIT_S} s for another process that reads the index")
        if self.purge(database, wait_s=PURGE_WAIT_S):
            return True
        self._tell("it still reads: the index is cleaned by whoever reads it next")
        return False

    def purge(self, database: sqlite3.Connection, wait_s: int = 0) -> bool:
        """Remove the traces of removed texts from the file, if there are any.

        Args:
            database: the file.
            wait_s: how long to wait for others that read it.
        """
        if not database.execute("SELECT 1 FROM meta WHERE name = ?", (PURGE_NAME,)).fetchone():
            return True
        # Removed words stay in the segments of a full-text index until these are merged.
        database.execute("INSERT INTO words (words) VALUES ('optimize')")
        if not _truncate_log(database, wait_s):
            return False
        database.execute("DELETE FROM meta WHERE name = ?", (PURGE_NAME,))
        return True

    # ---- what there is -------------------------------------------------------------------------

    def _list_stamps(self, known: Container[str]) -> dict[str, Stamp]:
        """Every thread there is, and how its journal stands; the trash comes second, as to all."""
        seen: dict[str, Stamp] = {}
        for in_trash in (True, False):
            folder = self._folders.trash if in_trash else self._folders.threads
            with convert_os_errors("list", folder):
                # A snapshot's name sorts before that of its journal, which says more.
                for name in self._disk.list(folder):
                    is_journal = name.endswith(JOURNAL_SUFFIX)
                    if not is_journal and not name.endswith(SNAPSHOT_SUFFIX):
                        continue
                    thread_id = name[: -len(JOURNAL_SUFFIX if is_journal else SNAPSHOT_SUFFIX)]
                    if thread_id not in known and not is_thread_id(thread_id):
                        continue
                    found = self._disk.stat(f"{folder}/{name}") if is_journal else None
                    seen[thread_id] = make_stamp(found or MISSING_FILE, in_trash=in_trash)
        return seen

    def _list_changed(
        self, database: sqlite3.Connection, workspace: str, taken: Container[str]
    ) -> list[str]:
        """Threads of a folder, but for `taken`, whose file is not as it was."""
        changed: list[str] = []
        rows = database.execute(_SELECT_FOLDER, {"workspace": workspace, "count": FOLDER_COUNT_MAX})
        for thread_id, *known in (row for row in rows if row[0] not in taken):
            path = self._folders.path(thread_id, JOURNAL_SUFFIX)
            with convert_os_errors("read", path):
                found = self._disk.stat(path) or MISSING_FILE
            if [*make_stamp(found, in_trash=False), 0] != known:
                changed.append(thread_id)
        return sorted(changed)


_NOTICE: Final = "indexing {} threads; this is done once"
_SELECT_STAMPS: Final = "SELECT id, in_trash, size, mtime_ns, inode, stale FROM journals"
_SELECT_NAMES: Final = f"SELECT id || '{JOURNAL_SUFFIX}' FROM journals WHERE NOT in_trash"  # noqa: S608  constant
_SELECT_FOLDER: Final = f"""
SELECT id, in_trash, size, mtime_ns, inode, stale FROM journals WHERE number IN (
    SELECT number FROM threads WHERE workspace = :workspace AND {PENDING}
    UNION SELECT number FROM threads WHERE workspace IS NULL AND problem != '' AND trashed = 0
    UNION SELECT number FROM journals WHERE NOT in_trash
        AND number IN (SELECT number FROM threads WHERE workspace = :workspace AND trashed = 1)
    UNION SELECT number FROM (
        SELECT number FROM threads WHERE workspace = :workspace AND trashed = 0
        ORDER BY updated_at DESC LIMIT :count
    )
)
"""  # noqa: S608  constants
"""Those too that a process which died has marked as trashed and not moved: what says so may go."""


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing; nobody else writes meanwhile."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        database.rollback()
        raise
    database.execute("COMMIT")


def _change_some(
    database: sqlite3.Connection,
    thread_ids: Iterable[str],
    change: Callable[[sqlite3.Connection, str], object],
) -> None:
    """Change what the index has of these threads, many in each transaction."""
    left = deque(thread_ids)
    while left:
        with _transaction(database):
            ends_s = monotonic() + _CHUNK_S
            for _ in range(min(len(left), _CHUNK_COUNT)):
                change(database, left.popleft())
                if is_long := monotonic() >= ends_s:
                    break
        if left and is_long:
            sleep(_PAUSE_S)


def _handle_new_vocabulary(database: sqlite3.Connection) -> None:
    """What another version of the program could not read, this one may.

    Versions differ here by the kinds of entries that they know.
    """
    row = database.execute("SELECT value FROM meta WHERE name = 'program'").fetchone()
    if row is not None and row[0] == VOCABULARY:
        return
    with _transaction(database):
        database.execute(
            "UPDATE journals SET stale = ? WHERE number IN "
            "(SELECT number FROM threads WHERE problem != '')",
            (STALE_RECORDS,),
        )
        database.execute("INSERT OR REPLACE INTO meta VALUES ('program', ?)", (VOCABULARY,))


def _truncate_log(database: sqlite3.Connection, wait_s: int) -> bool:
    """Put the log into the file and cut it to nothing; `False` if somebody is reading it."""
    before = database.execute("PRAGMA busy_timeout").fetchone()[0]
    database.execute(f"PRAGMA busy_timeout = {wait_s * 1000}")
    try:
        busy: int = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    finally:
        database.execute(f"PRAGMA busy_timeout = {before}")
    return not busy
