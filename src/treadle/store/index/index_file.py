"""The file of the index: opened, made anew when it is of no use, copied when it cannot be written.

The index is a cache. Whatever is wrong with its file, an answer is given, and no thread is touched.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from threading import Lock
from typing import Final, TypeVar
from urllib.parse import quote

from treadle.store.disk import Disk
from treadle.store.index.schema import LATER_INDEXES, SCHEMA_VERSION, TABLES
from treadle.store.sqlite_journal_mode import set_journal_mode

INDEX_NAME: Final = "index.sqlite"
LOCK_NAME: Final = "index.lock"
BUSY_S: Final = 30.0
"""How long another process may write the index at a time; it does so in small pieces."""

T = TypeVar("T")

_CREATION_LOCK: Final = Lock()
"""Held while a file is made: no thread opens it before whoever made it has closed it, with which
go the locks that SQLite holds on that file for this process."""

_DAMAGE_CODES: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
"""Errors (their low byte) that a new file mends: damage, and tables that are not as they were."""


class _NewerIndexError(sqlite3.Error):
    """A newer version of Treadle has made the file: it is whole, and not to be touched."""


class _OlderIndexError(sqlite3.DatabaseError):
    """An older version of Treadle has made the file."""


class IndexStorage(IntEnum):
    """What is worked with; each is what remains when the one before it fails."""

    FILE = 1
    NEW_FILE = 2
    COPY = 3
    """In memory, of what could be read of the file."""
    MEMORY = 4
    """In memory, made from the threads."""


class IndexFile:
    """The database, in the best form that can be had.

    Args:
        disk: how the store's files are reached; SQLite reaches its own.
        folder: the data folder.
        tell: gets sentences for people.
    """

    def __init__(self, disk: Disk, folder: str, tell: Callable[[str], None]) -> None:
        self.path = os.path.join(folder, INDEX_NAME)
        self._disk = disk
        self._folder = folder
        self._tell = tell
        self._stage = IndexStorage.FILE
        self._database: sqlite3.Connection | None = None
        self._is_for_now = False

    def close(self) -> None:
        """Give it back. What was not committed is not there."""
        database, self._database = self._database, None
        if database is not None:
            database.close()

    def run_job(self, job: Callable[[sqlite3.Connection], T]) -> T:
        """Do something with the database; where that fails, with what remains.

        The job may be done again from its beginning, so it changes nothing but the database.
        """
        while True:
            try:
                return job(self._open())
            except (sqlite3.Error, OSError) as error:
                self.close()
                if self._stage is IndexStorage.MEMORY:
                    raise
                self._use_next_storage(error)

    def run_job_on_file(self, job: Callable[[sqlite3.Connection], T]) -> T | None:
        """The same with the file only; `None` if that cannot be done now."""
        try:
            return job(self._open()) if self._stage <= IndexStorage.NEW_FILE else None
        except (sqlite3.Error, OSError):
            self.close()
            return None

    def _open(self) -> sqlite3.Connection:
        if self._is_for_now:
            self.close()
        if self._database is None:
            # Who looks for threads where there is nothing at all makes nothing there.
            self._is_for_now = not self._disk.list(self._folder)
            if self._is_for_now:
                self._database = _open_in_memory()
            elif self._stage <= IndexStorage.NEW_FILE:
                self._database = self._open_file()
            elif self._stage is IndexStorage.COPY:
                self._database = self._open_copy()
            else:
                self._database = _open_in_memory()
        return self._database

    def _use_next_storage(self, error: Exception) -> None:
        """Go on with what remains."""
        if isinstance(error, _NewerIndexError):
            self._stage = IndexStorage.MEMORY
            self._tell(
                f"{self.path} is a newer Treadle's and is left alone; working in memory, which "
                "takes longer"
            )
            return
        is_damage = (
            isinstance(error, sqlite3.DatabaseError)
            and getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in _DAMAGE_CODES
        )
        if is_damage and self._stage is IndexStorage.FILE and self._remove_file():
            self._stage = IndexStorage.NEW_FILE
            what = "an older Treadle's" if isinstance(error, _OlderIndexError) else "damaged"
            self._tell(f"{self.path} is {what}; it is made anew from the threads")
            return
        if self._stage < IndexStorage.COPY and not is_damage:
            self._stage = IndexStorage.COPY
            self._tell(
                f"{self.path} cannot be written ({error}); working with a copy in memory, which "
                "takes longer"
            )
            return
        self._stage = IndexStorage.MEMORY

    def _open_file(self) -> sqlite3.Connection:
        """Raises `sqlite3.Error`, or `OSError` where there is no place for a file."""
        self._make_file()
        database = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        try:
            if _read_version(database) > SCHEMA_VERSION:
                raise _NewerIndexError("it is of a newer version")
            _enable_secure_delete(database)
            # Damage by a power cut is ruled out; that the newest entries are lost is not.
            database.execute("PRAGMA synchronous = NORMAL")
            if set_journal_mode(database, "WAL", wait_s=BUSY_S) != "wal":
                raise sqlite3.OperationalError("no write-ahead log here")
            if _read_version(database) == 0:
                database.execute("BEGIN IMMEDIATE")
                if _read_version(database) == 0:
                    _create_tables(database)
                database.execute("COMMIT")
            if _read_version(database) != SCHEMA_VERSION:
                raise _OlderIndexError("it is of an older version")
            for statement in LATER_INDEXES:  # each changes nothing where it is there
                database.execute(statement)
        except BaseException:
            database.close()
            raise
        return database

    def _make_file(self) -> None:
        """See that there is a plain file that nobody else can read."""
        with _CREATION_LOCK:
            if self._disk.stat(self.path) is not None:
                return
            self._disk.make_folder(self._folder)
            with suppress(FileExistsError):
                self._disk.close(self._disk.create(self.path))
        if self._disk.stat(self.path) is None:  # SQLite would wait for a FIFO for ever
            raise OSError("it is no plain file")

    def _remove_file(self) -> bool:
        """Remove the file, unless another process is doing so."""
        with suppress(OSError):
            lock = self._disk.lock(os.path.join(self._folder, LOCK_NAME))
            if lock is None:
                return False
            try:
                # The log first: a file without its log is old, a log without its file is poison.
                for ending in ("-wal", "-shm", ""):
                    with suppress(FileNotFoundError):
                        self._disk.unlink(self.path + ending)
            finally:
                self._disk.close(lock)
            return True
        return False

    def _open_copy(self) -> sqlite3.Connection:
        """A copy of as much of the file as can be read; what is too old is mended by whoever asks.

        Without a folder that can be written, SQLite reads no file that has a log, unless it is told
        that nobody writes; then it does not look at the log.
        """
        if self._disk.stat(self.path) is None:
            raise OSError("it is no plain file")
        for how in ("mode=ro", "immutable=1"):
            copy = sqlite3.connect(":memory:", isolation_level=None)
            try:
                source = sqlite3.connect(f"file:{quote(self.path)}?{how}", uri=True, timeout=1.0)
                try:
                    source.backup(copy)
                finally:
                    source.close()
                if _read_version(copy) == SCHEMA_VERSION:
                    return copy
            except sqlite3.Error:
                pass
            copy.close()
        raise sqlite3.OperationalError("it cannot be read")


def _open_in_memory() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", isolation_level=None)
    _create_tables(database)
    return database


def _create_tables(database: sqlite3.Connection) -> None:
    for statement in TABLES.split(";\n"):
        database.execute(statement)
    database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _read_version(database: sqlite3.Connection) -> int:
    found: int = database.execute("PRAGMA user_version").fetchone()[0]
    return found


def _enable_secure_delete(database: sqlite3.Connection) -> None:
    """What is removed is overwritten: a secret that was scrubbed must not stay in free pages."""
    database.execute("PRAGMA secure_delete = ON")
