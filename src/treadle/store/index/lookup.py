"""The index: lists and searches threads without reading them. A cache; the journals are the truth.

Before its first answer an index looks at the file of each thread, and takes in what has changed, by
this process or another; its other answers are as threads stood then. So all that a command asks is
of one moment, and costs one look at the folder when nothing has changed.

A fork's own records are searched, and the history that it shares under the thread it has it from.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from treadle.store.index.filters import ThreadFilters, make_condition
from treadle.store.index.index_file import IndexFile
from treadle.store.index.index_update import IndexUpdater
from treadle.store.index.schema import NUMBER_SHIFT, PENDING, TextLocation, make_weight_sql
from treadle.store.index.search import (
    MARK_END,
    MARK_START,
    SNIPPET_WORDS,
    WEIGHTS,
    Hit,
    IndexQuery,
    extract_marks,
    parse_query,
)
from treadle.store.index.usage_rows import DayUsage, list_day_usage
from treadle.store.local_store import LocalStore
from treadle.thread.document import ThreadSummary
from treadle.thread.fold import ThreadFold
from treadle.thread.ids import PREFIX

T = TypeVar("T")

ALL_THREADS: Final = ThreadFilters()

_decode: Final = msgspec.json.Decoder(ThreadSummary).decode


class Index:
    """The index of a store's threads.

    Only who asks for everything (`is_trashed`) sees the trash. Methods that read raise `DiskError`
    if the folder of the threads cannot be read, and no error of the index itself: what cannot be
    written or read of it is made from the threads, in memory if need be.

    Args:
        store: the threads.
        tell: gets sentences for people: that it takes long, or why it does each time.
    """

    def __init__(self, store: LocalStore, tell: Callable[[str], None] = lambda _: None) -> None:
        self._file = IndexFile(store.folders.disk, str(store.places.data), tell)
        self._freshness = IndexUpdater(store, tell)
        self._looked_in: sqlite3.Connection | None = None
        """The database that threads were taken into: another one may be open by now."""

    def close(self) -> None:
        """Give the file back."""
        self._looked_in = None
        self._file.close()

    def update_all(self) -> None:
        """Look at all threads once more, and take in what has changed."""
        self._looked_in = None
        self._answer(lambda _: None)

    def _answer(self, read: Callable[[sqlite3.Connection], T]) -> T:
        def look_and_read(database: sqlite3.Connection) -> T:
            if self._looked_in is not database:
                self._freshness.update_all(database)
                self._looked_in = database
            return read(database)

        return self._file.run_job(look_and_read)

    def update(self, thread_id: str, fold: ThreadFold | None = None) -> bool:
        """Take in what has changed of one thread, so that the next reader need not.

        Args:
            thread_id: the thread; it may be gone.
            fold: how it stands, if that is known; saves reading it.

        Returns:
            Whether that was possible. If not, nothing is lost: the next reader does it.
        """

        def update(database: sqlite3.Connection) -> bool:
            self._freshness.update(database, thread_id, fold)
            return True

        self._looked_in = None
        return bool(self._file.run_job_on_file(update))

    def mark_stale(self, thread_id: str) -> bool:
        """Have a thread read again from its first record by whoever reads next.

        A file that damage has changed in its middle may look as it did: only who reads all of it
        finds out, and says so here.

        Returns:
            Whether that was possible.
        """

        def mark(database: sqlite3.Connection) -> bool:
            self._freshness.mark_stale(database, thread_id)
            return True

        self._looked_in = None
        return bool(self._file.run_job_on_file(mark))

    def erase(self, *thread_ids: str) -> bool:
        """Remove all that is known of threads, so that no byte of the file holds it.

        They are taken in again, as their journals stand then, by whoever reads next. If others read
        the index, that is told, and for a few seconds they are waited for.

        Returns:
            Whether nothing is left. If not, another process is reading the index, or it cannot be
            written; every later reader tries it again.
        """
        self._looked_in = None
        return bool(
            self._file.run_job_on_file(lambda database: self._freshness.erase(database, thread_ids))
        )

    # ---- lists -----------------------------------------------------------------------------------

    def list_threads(
        self, filters: ThreadFilters = ALL_THREADS, limit: int | None = None
    ) -> list[ThreadSummary]:
        """The threads, pinned ones first, then those that changed last."""
        return self.list_with_count(filters, limit)[0]

    def list_with_count(
        self, filters: ThreadFilters = ALL_THREADS, limit: int | None = None
    ) -> tuple[list[ThreadSummary], int]:
        """The first `limit` threads, and how many there are in all."""

        def read(database: sqlite3.Connection) -> tuple[list[ThreadSummary], int]:
            rows = _select_summaries(database, filters, limit)
            if limit is None or len(rows) < limit:
                return rows, len(rows)
            return rows, _count_threads(database, filters)

        return self._answer(read)

    def count(self, filters: ThreadFilters = ALL_THREADS) -> int:
        """How many threads there are."""
        return self._answer(lambda database: _count_threads(database, filters))

    def list_day_usage(self, since: str = "") -> list[DayUsage]:
        """What all threads have used by day and model, from a day on, the newest first."""
        return self._answer(lambda database: list_day_usage(database, since))

    def find_latest(self, workspace: str, machine: str | None = None) -> str | None:
        """The thread of exactly this workspace that changed last, if there is one.

        One in which nothing was said comes behind all others: its process died at the beginning.

        Args:
            workspace: the folder.
            machine: which machine it must be of; `None` for any.
        """

        def read(database: sqlite3.Connection) -> str | None:
            row = database.execute(
                "SELECT id FROM threads WHERE workspace = ? AND NOT trashed AND ? IN ('', machine) "
                "ORDER BY json_extract(summary, '$.message_count') > 0 DESC, updated_at DESC, "
                "id DESC LIMIT 1",
                (workspace, machine or ""),
            ).fetchone()
            return None if row is None else str(row[0])

        return self._answer(read)

    def list_pending(self, workspace: str) -> list[ThreadSummary]:
        """Threads of exactly this workspace that are not done, newest first.

        Work on them stopped in the middle, or a call waits for a yes. Sub-agents are not among
        them: they go on with the thread they work for. Whether another process is at work on one
        just now, its lock says.

        Asked at each start, so it does not look at all threads: one is missing if the index has not
        heard that it was gone on with, and a thousand others of the folder changed later.
        """

        def read(database: sqlite3.Connection) -> list[ThreadSummary]:
            self._freshness.update_folder(database, workspace)
            rows = database.execute(
                f"SELECT summary FROM threads WHERE workspace = ? AND {PENDING} "  # noqa: S608
                "AND parent IS NULL AND problem = '' ORDER BY updated_at DESC, id DESC",
                (workspace,),
            )
            return [_decode(row[0]) for row in rows]

        return self._file.run_job(read)

    def complete_id(
        self, beginning: str, workspace: str, *, is_trashed: bool, limit: int
    ) -> list[ThreadSummary]:
        """Threads whose id, whole or short, begins so: those of a folder first, then the newest.

        A person waits: only those that are new and those of the folder are looked at.
        """

        def read(database: sqlite3.Connection) -> list[ThreadSummary]:
            self._freshness.update_folder(database, workspace)
            found: list[ThreadSummary] = []
            # Two queries, of which each reads the index that suits it, and no thread that is not
            # asked for: all of them may begin so.
            for threads in (
                "threads INDEXED BY threads_by_workspace WHERE workspace = ?",
                "threads WHERE workspace IS NOT ?",
            ):
                rows = database.execute(
                    f"SELECT summary FROM {threads} AND trashed = ? AND {_BEGINS} "  # noqa: S608
                    "ORDER BY is_pinned DESC, updated_at DESC, id DESC LIMIT ?",
                    (workspace, is_trashed, beginning, *[len(beginning)] * 3, limit - len(found)),
                )
                found += [_decode(row[0]) for row in rows]
            return found

        return self._file.run_job(read)

    # ---- search ----------------------------------------------------------------------------------

    def search(
        self, text: str, filters: ThreadFilters = ALL_THREADS, limit: int | None = None
    ) -> list[Hit]:
        """The threads in which something is found, best first.

        Args:
            text: as `parse_query` has it.
            filters: which threads are searched.
            limit: how many hits at most.

        Raises:
            UsageError: there is nothing to look for.
        """
        query = parse_query(text)

        def read(database: sqlite3.Connection) -> list[Hit]:
            hits = [
                *_find_by_id(database, query, filters),
                *_find_by_text(database, query, filters, limit),
            ]
            first = {hit.thread.id: hit for hit in reversed(hits)}
            ordered = [hit for hit in hits if first[hit.thread.id] is hit]
            return ordered[:limit]

        return self._answer(read)


_WEIGHT: Final = make_weight_sql(WEIGHTS, "rowid")
_BEGINS: Final = "? IN (substr(id, 1, ?), substr(id, 3, ?), substr(id, -8, ?))"
"""Whether an id begins with a text: whole, without its `T-`, or as people are shown it."""


def _select_summaries(
    database: sqlite3.Connection, filters: ThreadFilters, limit: int | None
) -> list[ThreadSummary]:
    condition, parameters = make_condition(filters)
    rows = database.execute(
        f"SELECT summary FROM threads WHERE {condition} "  # noqa: S608  constants, no values
        "ORDER BY is_pinned DESC, updated_at DESC, id DESC LIMIT ?",
        (*parameters, -1 if limit is None else limit),
    )
    return [_decode(row[0]) for row in rows]


def _count_threads(database: sqlite3.Connection, filters: ThreadFilters) -> int:
    condition, parameters = make_condition(filters)
    text = f"SELECT count(*) FROM threads WHERE {condition}"  # noqa: S608  constants, no values
    return int(database.execute(text, parameters).fetchone()[0])


def _find_by_id(
    database: sqlite3.Connection, query: IndexQuery, filters: ThreadFilters
) -> list[Hit]:
    """The threads whose id begins or ends as what is looked for."""
    if not query.thread:
        return []
    condition, parameters = make_condition(filters)
    rows = database.execute(
        f"SELECT summary FROM threads WHERE (id GLOB ? OR id GLOB ?) AND {condition} "  # noqa: S608
        "ORDER BY updated_at DESC, id DESC",
        (query.thread + "*", "*" + query.thread.removeprefix(PREFIX), *parameters),
    )
    return [
        Hit(line, line.version, "id", line.id, (_find_range(line.id, query.thread),), 1, 0.0)
        for line in (_decode(row[0]) for row in rows)
    ]


def _find_range(thread_id: str, looked_for: str) -> tuple[int, int]:
    if thread_id.startswith(looked_for):
        return 0, len(looked_for)
    return len(thread_id) - len(looked_for.removeprefix(PREFIX)), len(thread_id)


def _find_by_text(
    database: sqlite3.Connection, query: IndexQuery, filters: ThreadFilters, limit: int | None
) -> list[Hit]:
    """The best place of each thread. `bm25` is the lower the better; equals are newest first."""
    condition, parameters = make_condition(filters)
    rows = database.execute(
        f"""
        WITH found AS MATERIALIZED (
            SELECT rowid AS place, bm25(words) * {_WEIGHT} AS score
            FROM words WHERE words MATCH ?
        ), best AS (
            SELECT place >> {NUMBER_SHIFT} AS found_in, place, min(score) AS score, count(*) AS hits
            FROM found GROUP BY found_in
        )
        SELECT threads.summary, best.place, best.score, best.hits
        FROM best JOIN threads ON threads.number = best.found_in WHERE {condition}
        ORDER BY best.score, updated_at DESC, id DESC LIMIT ?
        """,  # noqa: S608  constants, no values
        (query.expression, *parameters, -1 if limit is None else limit),
    ).fetchall()
    snippets = _read_snippets(database, query, [row[1] for row in rows])
    hits: list[Hit] = []
    for summary, row, score, count in rows:
        place = TextLocation.from_row(row)
        snippet, ranges = extract_marks(snippets.get(row, ""))  # gone meanwhile
        kind = place.kind.name.lower()
        hits.append(Hit(_decode(summary), place.version, kind, snippet, ranges, count, -score))
    return hits


def _read_snippets(
    database: sqlite3.Connection, query: IndexQuery, rows: list[int]
) -> dict[int, str]:
    """The snippets of these rows, in one pass over all that match: to find one takes as long."""
    found = database.execute(
        "SELECT rowid, snippet(words, -1, ?, ?, '…', ?) FROM words WHERE words MATCH ? "
        "AND +rowid IN (SELECT value FROM json_each(?))",
        (MARK_START, MARK_END, SNIPPET_WORDS, query.expression, str(rows)),
    )
    return dict(found.fetchall())
