"""One thread in the index: its texts, its line in lists, and how its journal stood."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from treadle.core.messages import BlobRef
from treadle.errors import TreadleError, UnknownThreadError
from treadle.store.blobs import Blobs
from treadle.store.disk import FileStat
from treadle.store.folders import JOURNAL_SUFFIX, SNAPSHOT_SUFFIX, StoreFolders
from treadle.store.index.schema import ReadRecord, add_texts, find_row_range
from treadle.store.index.usage_rows import UsageCounter, add_usage, delete_usage
from treadle.store.journal import JournalReader, convert_os_errors, journal_has_head
from treadle.store.local_store import LocalStore
from treadle.thread.codec import Entry, UnknownEntryError, decode_entry
from treadle.thread.document import ThreadSummary
from treadle.thread.facts import ThreadCreated
from treadle.thread.fold import ThreadFold
from treadle.thread.record import GENESIS, Head, JournalCondition, Record
from treadle.thread.usage import NOT_SAID, AskedModel, find_asked_model

WHOLE_SIZE_MAX: Final = 16 * 1024 * 1024
"""Of a longer output, in bytes, only what its message has is searched: beginning and end."""

STALE_SUMMARY: Final = 1
"""Stale is a thread whose summary may change though its journal does not: looked at each time."""
STALE_RECORDS: Final = 2
"""Stale is one whose records must be read again from the first: a fork's among them, whose base
cannot be read or is not what it was, for whom it asks stands there."""

MISSING_FILE: Final = FileStat(-1, 0, 0)
"""Of a thread that has only a snapshot."""

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
    model: str
    task_model: str

    def stamp(self) -> tuple[int, int, int, int]:
        return self.in_trash, self.size, self.mtime_ns, self.inode


Stamp = tuple[int, int, int, int]
"""Whether it is in the trash, size in bytes, time of the last change, inode."""


class _JournalFolder:
    """Folds the records of a thread that is no fork, as they are read for something else.

    `fold` is `None` where it takes more than these records to know how the thread stands, or where
    this version cannot read one: loading the thread says then what is wrong.
    """

    def __init__(self, thread_id: str) -> None:
        self._thread_id = thread_id
        self.fold: ThreadFold | None = None

    def add(self, record: Record, entry: Entry | None) -> None:
        """Take in the next record, from the first on, and what it says."""
        if entry is None:
            self.fold = None
            return
        try:
            if record.seq == 1 and isinstance(entry, ThreadCreated):
                is_plain = entry.thread == self._thread_id and entry.base is None
                self.fold = ThreadFold(entry) if is_plain else None
            if self.fold is not None:
                self.fold.apply(record.seq, record.at, entry)
        except UnknownEntryError:
            self.fold = None


class ThreadIndexer:
    """Takes threads into an index, each within a transaction that its caller has begun.

    Args:
        store: the threads.
    """

    def __init__(self, store: LocalStore) -> None:
        self._store = store
        self._folders: StoreFolders = store.folders
        self._disk = store.folders.disk
        self._blobs = Blobs(store.folders)

    def update(
        self, database: sqlite3.Connection, thread_id: str, fold: ThreadFold | None = None
    ) -> None:
        """Take in a thread as it stands, wherever it is, or that it is gone."""
        try:
            path, in_trash = self._folders.find(thread_id)
        except UnknownThreadError:
            self.delete_if_gone(database, thread_id)
            return
        with convert_os_errors("read", path):
            found = self._disk.stat(path)
        stamp = make_stamp(found or MISSING_FILE, in_trash=in_trash)
        self.index(database, thread_id, stamp, fold)

    def index(
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
        if after is None and known is not None:
            _delete_texts(database, number)
        folder = None
        if fold is None and known is None and not self._has_snapshot(thread_id, stamp):
            folder = _JournalFolder(thread_id)
        head, asked, is_clean, has_kept_past, damage = self._index_texts(
            database, number, thread_id, stamp, after, known, folder
        )
        fold = fold if folder is None else folder.fold
        summary, is_settled = self._make_summary(thread_id, fold if is_clean else None, head)
        if damage and summary is not None and not summary.problem:
            # The snapshot covers it: it can be shown as if nothing was wrong, and never continued.
            summary = replace(summary, problem=damage)
        if known is not None:
            _delete_summary(database, number)
        if summary is not None:
            _insert_summary(database, number, summary, in_trash=bool(stamp[0]))
        if known is not None and not has_kept_past:
            request_purge(database)
        # A thread that was not known may have forks that were: synced or imported before it.
        if known is None or not (has_kept_past and is_clean):
            _mark_forks_stale(database, thread_id)
        is_fork = summary is not None and summary.forked_from is not None
        stale = 0 if is_settled else STALE_RECORDS if is_fork else STALE_SUMMARY
        row = (*stamp, head.seq, head.hash, head.size, stale, asked.of_settings, asked.of_task)
        database.execute(_PUT_JOURNAL, (*row, number))

    def _has_snapshot(self, thread_id: str, stamp: Stamp) -> bool:
        path = self._folders.path(thread_id, SNAPSHOT_SUFFIX, in_trash=bool(stamp[0]))
        with convert_os_errors("read", path):
            return self._disk.stat(path) is not None

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
        folder: _JournalFolder | None,
    ) -> tuple[Head, AskedModel, bool, bool, str]:
        """Take in the texts after `after`; `folder` takes the records too, so they are read once.

        Returns:
            The end of what is intact, who is asked there, whether nothing stands behind it, whether
            all records that were known are still there, and what is damaged.
        """
        path = self._folders.path(thread_id, JOURNAL_SUFFIX, in_trash=bool(stamp[0]))
        reading = JournalReader(self._disk, path, after or Head())
        was = Head() if known is None else Head(known.seq, known.hash)
        has_kept_past = after is not None or not was.seq

        asked = NOT_SAID
        if known is not None and after is not None:
            asked = AskedModel(known.model, known.task_model)
        counter = UsageCounter(asked)

        def watched() -> Iterator[ReadRecord]:
            nonlocal has_kept_past, counter
            for record in reading:
                entry = _decode(record)
                if record.seq == 1:
                    counter = UsageCounter(self._find_first_asked(thread_id, entry))
                if folder is not None:
                    folder.add(record, entry)
                if entry is not None:
                    counter.add(record, entry)
                has_kept_past = has_kept_past or (record.seq, record.hash) == (was.seq, was.hash)
                yield record, entry

        try:
            add_texts(database, number, watched(), self._read_whole_output)
        except TreadleError:  # it cannot be read: what was read of it counts, once it is whole
            _delete_texts(database, number)
            return Head(), NOT_SAID, False, has_kept_past, ""
        add_usage(database, number, counter)
        found = reading.found
        is_clean = found.condition is JournalCondition.CLEAN and not reading.is_missing
        damage = found.reason if found.condition is JournalCondition.CORRUPT else ""
        return found.head, counter.asked_model, is_clean, has_kept_past, damage

    def _find_first_asked(self, thread_id: str, first: Entry | None) -> AskedModel:
        """Who is asked before a record of the thread says so: a fork goes on as its base was."""
        if isinstance(first, ThreadCreated) and first.base is not None:
            with suppress(TreadleError):  # nobody can say
                return find_asked_model(self._store.load_initial_fold(thread_id))
        return NOT_SAID

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

    def delete_if_gone(self, database: sqlite3.Connection, thread_id: str) -> None:
        """Remove what is known of a thread, unless it has come back."""
        known = _read_known_journal(database, thread_id)
        if known is None:
            return
        try:
            self._folders.find(thread_id)
        except UnknownThreadError:
            _delete_rows(database, thread_id, known.number)
            request_purge(database)


def _decode(record: Record) -> Entry | None:
    try:
        return decode_entry(record.event)
    except UnknownEntryError:
        return None


_PUT_JOURNAL: Final = (
    "UPDATE journals SET in_trash = ?, size = ?, mtime_ns = ?, inode = ?, seq = ?, hash = ?, "
    "head_size = ?, stale = ?, model = ?, task_model = ? WHERE number = ?"
)
_SELECT_JOURNAL: Final = (
    "SELECT number, in_trash, size, mtime_ns, inode, seq, hash, head_size, stale, model, "
    "task_model FROM journals WHERE id = ?"
)
# A statement that SQLite may have to undo alone (OR REPLACE in a table with an index, RETURNING, a
# change of rows that a query finds) makes the full-text index write what it holds: none is run for
# each thread.
_INSERT_THREAD: Final = (
    "INSERT INTO threads (number, id, trashed, is_pinned, updated_at, workspace, branch, "
    "remote, state, machine, model, provider, parent, base, imported_from, is_unfinished, "
    "questions, problem, summary) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE_FORKS: Final = f"""
WITH RECURSIVE forks (id, number) AS (
    SELECT id, number FROM threads WHERE base = ?
    UNION
    SELECT threads.id, threads.number FROM threads JOIN forks ON threads.base = forks.id
)
UPDATE journals SET stale = {STALE_RECORDS} WHERE number IN (SELECT number FROM forks)
"""  # noqa: S608  constants


def make_stamp(found: FileStat, *, in_trash: bool) -> Stamp:
    """How a journal stands."""
    return int(in_trash), found.size, found.mtime_ns, found.inode


def _read_known_journal(database: sqlite3.Connection, thread_id: str) -> _KnownJournal | None:
    row = database.execute(_SELECT_JOURNAL, (thread_id,)).fetchone()
    return None if row is None else _KnownJournal(*row)


def _insert_journal(database: sqlite3.Connection, thread_id: str) -> int:
    made = database.execute(
        "INSERT INTO journals (id, in_trash, size, mtime_ns, inode, seq, hash, head_size, stale, "
        "model, task_model) VALUES (?, 0, 0, 0, 0, 0, ?, 0, ?, '', '')",
        (thread_id, GENESIS, STALE_SUMMARY),
    )
    assert made.lastrowid is not None
    return made.lastrowid


def delete_thread(database: sqlite3.Connection, thread_id: str) -> None:
    """Remove all that is known of a thread."""
    known = _read_known_journal(database, thread_id)
    if known is not None:
        _delete_rows(database, thread_id, known.number)


def request_purge(database: sqlite3.Connection) -> None:
    """Have the next reader remove the traces of removed texts from the file."""
    database.execute("INSERT OR REPLACE INTO meta VALUES (?, '1')", (PURGE_NAME,))


def _mark_forks_stale(database: sqlite3.Connection, thread_id: str) -> None:
    """Forks are folded from their base: what happened to it may have happened to them."""
    if database.execute("SELECT 1 FROM threads WHERE base = ?", (thread_id,)).fetchone():
        database.execute(_UPDATE_FORKS, (thread_id,))


def _delete_summary(database: sqlite3.Connection, number: int) -> None:
    database.execute("DELETE FROM tags WHERE number = ?", (number,))
    database.execute("DELETE FROM threads WHERE number = ?", (number,))


def _insert_summary(
    database: sqlite3.Connection, number: int, line: ThreadSummary, *, in_trash: bool
) -> None:
    if in_trash:
        line = replace(line, is_trashed=True)
    row = (
        *(number, line.id, line.is_trashed, line.is_pinned, line.updated_at, line.workspace_root),
        *(line.git_branch, line.git_remote_url, line.state, line.machine, line.model),
        *(line.provider, line.parent, line.forked_from, line.imported_from, line.is_unfinished),
        *(line.questions, line.problem, msgspec.json.encode(line)),
    )
    database.execute(_INSERT_THREAD, row)
    for tag in line.tags:
        database.execute("INSERT OR IGNORE INTO tags (tag, number) VALUES (?, ?)", (tag, number))


def _delete_texts(database: sqlite3.Connection, number: int) -> None:
    database.execute("DELETE FROM words WHERE rowid BETWEEN ? AND ?", find_row_range(number))
    database.execute("DELETE FROM commits WHERE number = ?", (number,))
    delete_usage(database, number)


def _delete_rows(database: sqlite3.Connection, thread_id: str, number: int) -> None:
    # Whoever looks next does not know that this thread ever was, and what hangs on it.
    _mark_forks_stale(database, thread_id)
    _delete_texts(database, number)
    _delete_summary(database, number)
    database.execute("DELETE FROM journals WHERE number = ?", (number,))
