"""Keeps the index as the journals are: reads what is new in them, and no more."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.core.messages import BlobRef
from treadle.errors import TreadleError, UnknownThreadError
from treadle.store.blobs import Blobs
from treadle.store.disk import FileStat
from treadle.store.folders import JOURNAL_SUFFIX, StoreFolders
from treadle.store.index.schema import add_texts, find_row_range
from treadle.store.journal import JournalReader, convert_os_errors, journal_has_head
from treadle.store.local_store import LocalStore
from treadle.thread.codec import VOCABULARY
from treadle.thread.document import ThreadSummary
from treadle.thread.fold import ThreadFold
from treadle.thread.record import GENESIS, Head, JournalCondition, Record

NOTICE_COUNT: Final = 500
"""That more threads than this are read is said before: it takes seconds."""

_CHUNK_COUNT: Final = 100
"""So many threads are taken in at a time; then others may write, and a kill loses no more."""

WHOLE_SIZE_MAX: Final = 16 * 1024 * 1024
"""Of a longer output, in bytes, only what its message has is searched: beginning and end."""

STALE_SUMMARY: Final = 1
"""Stale is a thread whose summary may change though its journal does not: looked at each time."""
STALE_RECORDS: Final = 2
"""Stale is one whose records must be read again from the first."""

_MISSING_FILE: Final = FileStat(-1, 0, 0)
"""Of a thread that has only a snapshot."""

PURGE_WAIT_S: Final = 5
"""So long a scrub waits for others that read the index."""

PURGE_NAME: Final = "purge"
"""Set while removed texts may still be in the file."""


class _KnownJournal(Struct, frozen=True, gc=False):
    """What the index knows of a journal: how its file was, and where its intact part ended."""

    number: int
    in_trash: int
    size: int
    mtime_ns: int
    inode: int
    seq: int
    hash: str
    head_size: int
    stale: int

    def stamp(self) -> tuple[int, int, int, int]:
        return self.in_trash, self.size, self.mtime_ns, self.inode


Stamp = tuple[int, int, int, int]
"""Whether it is in the trash, size in bytes, time of the last change, inode."""


class IndexUpdater:
    """Brings an index up to date.

    Args:
        store: the threads.
        tell: gets a sentence when it takes long.
    """

    def __init__(self, store: LocalStore, tell: Callable[[str], None]) -> None:
        self._store = store
        self._folders: StoreFolders = store.folders
        self._disk = store.folders.disk
        self._blobs = Blobs(store.folders)
        self._tell = tell

    def update_all(self, database: sqlite3.Connection) -> None:
        """Take in everything that has changed since, whoever changed it.

        Raises:
            DiskError: the folders cannot be listed.
            sqlite3.Error: the index cannot be read or written; what was committed stays.
        """
        _handle_new_vocabulary(database)
        seen = self._list_stamps()
        known = {row[0]: row[1:] for row in database.execute(_SELECT_STAMPS)}
        gone = [one for one in known if one not in seen]
        left = {one for one, stamp in seen.items() if known.get(one) != (*stamp, 0)}
        if len(left) > NOTICE_COUNT:
            self._tell(f"indexing {len(left)} threads; this is done once")
        for some in _split_chunks(gone):
            with _transaction(database):
                for thread_id in some:
                    self._delete_if_gone(database, thread_id)
        taken: set[str] = set()
        while left or (gone and not taken):
            # Bases come before their forks, because ids begin with their time.
            for some in _split_chunks(sorted(left)):
                with _transaction(database):
                    for thread_id in some:
                        self._index_thread(database, thread_id, seen[thread_id])
            taken |= left
            stale = {row[0] for row in database.execute("SELECT id FROM journals WHERE stale")}
            left = (stale & seen.keys()) - taken
            gone = []
        self.purge(database)

    def update(
        self, database: sqlite3.Connection, thread_id: str, fold: ThreadFold | None = None
    ) -> None:
        """Take in what has changed of one thread. Raises as `catch_up`."""
        _handle_new_vocabulary(database)
        with _transaction(database):
            try:
                path, in_trash = self._folders.find(thread_id)
            except UnknownThreadError:
                self._delete_if_gone(database, thread_id)
            else:
                with convert_os_errors("read", path):
                    found = self._disk.stat(path)
                self._index_thread(
                    database, thread_id, _make_stamp(found or _MISSING_FILE, in_trash), fold
                )
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
                known = _read_known_journal(database, thread_id)
                if known is not None:
                    _delete_thread(database, known.number)
            _request_purge(database)
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

    def _list_stamps(self) -> dict[str, Stamp]:
        """Every thread there is, and how its journal stands; the trash comes second, as to all."""
        seen: dict[str, Stamp] = {}
        for in_trash in (True, False):
            folder = self._folders.trash if in_trash else self._folders.threads
            with convert_os_errors("list", folder):
                stats = self._disk.stats(folder, JOURNAL_SUFFIX)
            for thread_id in self._folders.ids(in_trash=in_trash):
                seen[thread_id] = _make_stamp(
                    stats.get(thread_id + JOURNAL_SUFFIX, _MISSING_FILE), in_trash
                )
        return seen

    # ---- one thread ----------------------------------------------------------------------------

    def _index_thread(
        self,
        database: sqlite3.Connection,
        thread_id: str,
        stamp: Stamp,
        fold: ThreadFold | None = None,
    ) -> None:
        """Take in a thread whose file was like this before it is read here.

        If it changes meanwhile, it is not as it was taken to be, and is read again the next time.
        """
        known = _read_known_journal(database, thread_id)
        if known is not None and (known.stamp(), known.stale) == (stamp, 0):
            return  # another process has done it
        number = _insert_journal(database, thread_id) if known is None else known.number
        after = None if known is None else self._find_resume_point(thread_id, known, stamp)
        if after is None:
            _delete_texts(database, number)
        head, is_clean, has_kept_past, damage = self._index_texts(
            database, number, thread_id, stamp, after, known
        )
        summary, is_settled = self._make_summary(thread_id, fold if is_clean else None, head)
        if damage and summary is not None and not summary.problem:
            # The snapshot covers it: it can be shown as if nothing was wrong, and never continued.
            summary = replace(summary, problem=damage)
        _write_summary(database, number, summary, in_trash=bool(stamp[0]))
        if known is not None and not has_kept_past:
            _request_purge(database)
        if known is not None and not (has_kept_past and is_clean):
            _mark_forks_stale(database, thread_id)
        stale = 0 if is_settled else STALE_SUMMARY
        database.execute(_PUT_JOURNAL, (*stamp, head.seq, head.hash, head.size, stale, number))

    def _find_resume_point(self, thread_id: str, known: _KnownJournal, stamp: Stamp) -> Head | None:
        """Where to go on reading; `None` if the journal is not what it was, as far as is seen.

        A file that was changed without growing is read again: nothing but growth is usual.
        """
        in_trash, size, mtime_ns, inode = stamp
        is_other = inode != known.inode or size < known.size
        is_touched = size == known.size and mtime_ns != known.mtime_ns
        head = Head(known.seq, known.hash, "", known.head_size)
        if known.stale == STALE_RECORDS or is_other or is_touched or not head.seq:
            return None
        path = self._folders.path(thread_id, JOURNAL_SUFFIX, in_trash=bool(in_trash))
        return head if journal_has_head(self._disk, path, head) else None

    def _index_texts(
        self,
        database: sqlite3.Connection,
        number: int,
        thread_id: str,
        stamp: Stamp,
        after: Head | None,
        known: _KnownJournal | None,
    ) -> tuple[Head, bool, bool, str]:
        """Take in the texts after `after`.

        Returns:
            The end of what is intact, whether nothing stands behind it, whether all records that
            were known are still there, and what is damaged.
        """
        path = self._folders.path(thread_id, JOURNAL_SUFFIX, in_trash=bool(stamp[0]))
        reading = JournalReader(self._disk, path, after or Head())
        was = Head() if known is None else Head(known.seq, known.hash)
        has_kept_past = after is not None or not was.seq

        def watched() -> Iterator[Record]:
            nonlocal has_kept_past
            for record in reading:
                has_kept_past = has_kept_past or (record.seq, record.hash) == (was.seq, was.hash)
                yield record

        try:
            add_texts(database, number, watched(), self._read_whole_output)
        except TreadleError:  # it cannot be read: what was read of it counts, once it is whole
            _delete_texts(database, number)
            return Head(), False, has_kept_past, ""
        found = reading.found
        is_clean = found.condition is JournalCondition.CLEAN and not reading.is_missing
        damage = found.reason if found.condition is JournalCondition.CORRUPT else ""
        return found.head, is_clean, has_kept_past, damage

    def _read_whole_output(self, ref: BlobRef) -> str | None:
        """An output that is kept beside the thread, if it is there and not too long."""
        if ref.size > WHOLE_SIZE_MAX:
            return None
        try:
            return self._blobs.read(ref).decode("utf-8", "replace")
        except TreadleError:
            return None

    def _make_summary(
        self, thread_id: str, fold: ThreadFold | None, head: Head
    ) -> tuple[ThreadSummary | None, bool]:
        """The thread's line, and whether it stays so for as long as its journal does."""
        if fold is not None and fold.version == head.seq:
            return fold.summary(), fold.header.base is None
        try:
            loaded = self._store.load(thread_id)
        except TreadleError:
            return self._store.summary(thread_id), False
        summary = replace(loaded.fold.summary(loaded.problem), id=thread_id)
        is_problem_elsewhere = bool(loaded.problem) and loaded.fold.header.base is not None
        return summary, not is_problem_elsewhere

    def _delete_if_gone(self, database: sqlite3.Connection, thread_id: str) -> None:
        known = _read_known_journal(database, thread_id)
        if known is None:
            return
        try:
            self._folders.find(thread_id)
        except UnknownThreadError:
            _mark_forks_stale(database, thread_id)
            _delete_thread(database, known.number)
            _request_purge(database)


_SELECT_STAMPS: Final = "SELECT id, in_trash, size, mtime_ns, inode, stale FROM journals"
_PUT_JOURNAL: Final = (
    "UPDATE journals SET in_trash = ?, size = ?, mtime_ns = ?, inode = ?, seq = ?, hash = ?, "
    "head_size = ?, stale = ? WHERE number = ?"
)
_SELECT_JOURNAL: Final = (
    "SELECT number, in_trash, size, mtime_ns, inode, seq, hash, head_size, stale FROM journals "
    "WHERE id = ?"
)
_PUT_THREAD: Final = (
    "INSERT OR REPLACE INTO threads (number, id, trashed, is_pinned, updated_at, workspace, branch,"
    " remote, state, machine, model, provider, parent, base, imported_from, is_unfinished, "
    "questions, problem, summary) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE_FORKS: Final = """
WITH RECURSIVE forks (id, number) AS (
    SELECT id, number FROM threads WHERE base = ?
    UNION
    SELECT threads.id, threads.number FROM threads JOIN forks ON threads.base = forks.id
)
UPDATE journals SET stale = max(stale, 1) WHERE number IN (SELECT number FROM forks)
"""


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


def _split_chunks(ids: Iterable[str]) -> Iterator[list[str]]:
    left = iter(ids)
    while some := list(islice(left, _CHUNK_COUNT)):
        yield some


def _make_stamp(found: FileStat, in_trash: bool) -> Stamp:
    return int(in_trash), found.size, found.mtime_ns, found.inode


def _read_known_journal(database: sqlite3.Connection, thread_id: str) -> _KnownJournal | None:
    row = database.execute(_SELECT_JOURNAL, (thread_id,)).fetchone()
    return None if row is None else _KnownJournal(*row)


def _insert_journal(database: sqlite3.Connection, thread_id: str) -> int:
    made = database.execute(
        "INSERT INTO journals (id, in_trash, size, mtime_ns, inode, seq, hash, head_size, stale) "
        "VALUES (?, 0, 0, 0, 0, 0, ?, 0, ?) RETURNING number",
        (thread_id, GENESIS, STALE_SUMMARY),
    ).fetchone()
    number: int = made[0]
    return number


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


def _request_purge(database: sqlite3.Connection) -> None:
    database.execute("INSERT OR REPLACE INTO meta VALUES (?, '1')", (PURGE_NAME,))


def _mark_forks_stale(database: sqlite3.Connection, thread_id: str) -> None:
    """Forks are folded from their base: what happened to it may have happened to them."""
    database.execute(_UPDATE_FORKS, (thread_id,))


def _write_summary(
    database: sqlite3.Connection, number: int, line: ThreadSummary | None, *, in_trash: bool
) -> None:
    database.execute("DELETE FROM tags WHERE number = ?", (number,))
    if line is None:
        database.execute("DELETE FROM threads WHERE number = ?", (number,))
        return
    line = replace(line, is_trashed=line.is_trashed or in_trash)
    row = (
        *(number, line.id, line.is_trashed, line.is_pinned, line.updated_at, line.workspace_root),
        *(line.git_branch, line.git_remote_url, line.state, line.machine, line.model),
        *(line.provider, line.parent, line.forked_from, line.imported_from, line.is_unfinished),
        *(line.questions, line.problem, msgspec.json.encode(line)),
    )
    database.execute(_PUT_THREAD, row)
    database.executemany(
        "INSERT OR IGNORE INTO tags (tag, number) VALUES (?, ?)",
        [(tag, number) for tag in line.tags],
    )


def _delete_texts(database: sqlite3.Connection, number: int) -> None:
    database.execute("DELETE FROM words WHERE rowid BETWEEN ? AND ?", find_row_range(number))
    database.execute("DELETE FROM commits WHERE number = ?", (number,))


def _delete_thread(database: sqlite3.Connection, number: int) -> None:
    _delete_texts(database, number)
    for table in ("tags", "threads", "journals"):
        database.execute(f"DELETE FROM {table} WHERE number = ?", (number,))  # noqa: S608  constant


def _truncate_log(database: sqlite3.Connection, wait_s: int) -> bool:
    """Put the log into the file and cut it to nothing; `False` if somebody is reading it."""
    before = database.execute("PRAGMA busy_timeout").fetchone()[0]
    database.execute(f"PRAGMA busy_timeout = {wait_s * 1000}")
    try:
        busy: int = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    finally:
        database.execute(f"PRAGMA busy_timeout = {before}")
    return not busy
