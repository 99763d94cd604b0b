"""The tables of the index, and how texts are kept in them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, TypeAlias

from msgspec import Struct

from treadle.core.messages import BlobRef
from treadle.store.index.usage_rows import USAGE_TABLE
from treadle.thread.codec import Entry
from treadle.thread.record import Record
from treadle.thread.search_texts import (
    SearchText,
    SearchTextKind,
    list_entry_texts,
    list_unknown_texts,
)

ReadRecord: TypeAlias = tuple[Record, Entry | None]
"""A record and what it says; `None`: this version does not know it."""

SCHEMA_VERSION: Final = 5
"""Of the tables, and of what summaries and texts are made of records. A file of another one is
made anew."""

PENDING: Final = "trashed = 0 AND (is_unfinished OR questions > 0)"
"""A condition on `threads`: it is not done."""

LATER_INDEXES: Final = (
    "CREATE INDEX IF NOT EXISTS threads_pending "
    f"ON threads (workspace, trashed, updated_at DESC, id DESC) WHERE {PENDING}",
    "CREATE INDEX IF NOT EXISTS threads_damaged ON threads "
    "(trashed, is_pinned DESC, updated_at DESC, id DESC) WHERE problem != ''",
)
"""What is asked for at each start, and with each search, is not looked for in tens of thousands of
rows. Files from before these get them: older versions do not mind."""

# A list reads `threads` in the order of its index, and freshness `journals` alone: it is small.
# `words` is all text; a row's id says where the text stands, so that a hit needs no other table.
# Eight of its segments are merged at a time, not four: to take in all threads is less work so.
TABLES: Final = f"""
CREATE TABLE journals (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    in_trash INTEGER NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    hash TEXT NOT NULL,
    head_size INTEGER NOT NULL,
    stale INTEGER NOT NULL,
    model TEXT NOT NULL,
    task_model TEXT NOT NULL
);
CREATE TABLE threads (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    trashed INTEGER NOT NULL,
    is_pinned INTEGER NOT NULL,
    updated_at TEXT NOT NULL,
    workspace TEXT,
    branch TEXT,
    remote TEXT,
    state TEXT NOT NULL,
    machine TEXT NOT NULL,
    model TEXT,
    provider TEXT,
    parent TEXT,
    base TEXT,
    imported_from TEXT,
    is_unfinished INTEGER NOT NULL,
    questions INTEGER NOT NULL,
    problem TEXT NOT NULL,
    summary BLOB NOT NULL
);
CREATE INDEX threads_in_order ON threads (trashed, is_pinned DESC, updated_at DESC, id DESC);
CREATE INDEX threads_by_id ON threads (id);
CREATE INDEX threads_by_base ON threads (base) WHERE base IS NOT NULL;
CREATE INDEX threads_by_workspace ON threads (workspace, trashed, updated_at DESC);
CREATE TABLE tags (tag TEXT, number INTEGER, PRIMARY KEY (tag, number)) WITHOUT ROWID;
CREATE INDEX tags_by_number ON tags (number);
CREATE TABLE commits (sha TEXT, number INTEGER, PRIMARY KEY (sha, number)) WITHOUT ROWID;
CREATE INDEX commits_by_number ON commits (number);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
{USAGE_TABLE}
CREATE VIRTUAL TABLE words USING fts5(
    text, sha, tokenize = "unicode61 remove_diacritics 2"
);
INSERT INTO words (words, rank) VALUES ('automerge', 8);
"""  # noqa: S608  constants

NUMBER_SHIFT: Final = 39
_SEQ_SHIFT: Final = 12
_KIND_SHIFT: Final = 8
_NTH_MAX: Final = (1 << _KIND_SHIFT) - 1
"""A text's id: 24 bits for the thread's number, 27 for the version, 4 for the kind, 8 to tell
texts of a kind in one record apart. More of them than that are one text."""

_ROW_COUNT: Final = 500
"""So many texts are held in memory at a time."""

_SEQ_MASK: Final = (1 << NUMBER_SHIFT - _SEQ_SHIFT) - 1
_KIND_MASK: Final = (1 << _SEQ_SHIFT - _KIND_SHIFT) - 1


class TextLocation(Struct, frozen=True):
    """Where a text stands: the thread's number in the index, the version, and what it is."""

    number: int
    version: int
    kind: SearchTextKind

    @classmethod
    def from_row(cls, row: int) -> TextLocation:
        """The place that a row of `words` is about."""
        kind = SearchTextKind(row >> _KIND_SHIFT & _KIND_MASK)
        return cls(row >> NUMBER_SHIFT, row >> _SEQ_SHIFT & _SEQ_MASK, kind)


def find_row_range(number: int) -> tuple[int, int]:
    """The first row of a thread in `words`, and the last it can have."""
    return number << NUMBER_SHIFT, (number + 1 << NUMBER_SHIFT) - 1


def make_weight_sql(weights: Iterable[tuple[SearchTextKind, float]], row: str) -> str:
    """SQL: the weight of the text in a row."""
    cases = " ".join(f"WHEN {kind.value} THEN {weight}" for kind, weight in weights)
    return f"CASE {row} >> {_KIND_SHIFT} & {_KIND_MASK} {cases} ELSE 1.0 END"


def add_texts(
    database: sqlite3.Connection,
    number: int,
    records: Iterable[ReadRecord],
    whole: Callable[[BlobRef], str | None],
) -> None:
    """Add the texts and commits of records that are not there yet, of the thread of this number.

    `whole` is what `list_entry_texts` reads outputs with.
    """
    rows = (row for read in records for row in _make_rows(number, read, whole))
    while some := list(islice(rows, _ROW_COUNT)):
        database.executemany("INSERT INTO words (rowid, text, sha) VALUES (?, ?, ?)", some)
        if commits := [(sha.lower(), number) for _, _, sha in some if sha]:
            database.executemany(
                "INSERT OR IGNORE INTO commits (sha, number) VALUES (?, ?)", commits
            )


def _make_rows(
    number: int, read: ReadRecord, whole: Callable[[BlobRef], str | None]
) -> list[tuple[int, str, str]]:
    record, entry = read
    found = list_unknown_texts(record.event) if entry is None else list_entry_texts(entry, whole)
    if len(found) > _NTH_MAX:
        found = _join_last_texts(found)
    rows: list[tuple[int, str, str]] = []
    first = number << NUMBER_SHIFT | record.seq << _SEQ_SHIFT
    counts: dict[SearchTextKind, int] = {}
    for kind, text in found:
        nth = counts[kind] = counts.get(kind, -1) + 1
        row, said = first | kind << _KIND_SHIFT | nth, make_searchable(text)
        rows.append((row, "", said) if kind is SearchTextKind.COMMIT else (row, said, ""))
    return rows


def _join_last_texts(found: Iterable[SearchText]) -> list[SearchText]:
    """The same, with those of a kind that have no number left in the last that has one."""
    texts: dict[SearchTextKind, list[str]] = {}
    for kind, text in found:
        texts.setdefault(kind, []).append(text)
    for of_kind in texts.values():
        if rest := of_kind[_NTH_MAX:]:
            of_kind[_NTH_MAX:] = ["\n".join(rest)]
    return [(kind, text) for kind, of_kind in texts.items() for text in of_kind]


SEPARATOR: Final = "\u200b"
"""A space that nobody sees."""

# Scripts that are written without spaces: Han, Hiragana, Katakana, Bopomofo, and Hangul, whose
# words have endings. Each character is a word to the index, so that any part is found as a phrase.
UNSPACED: Final = (
    "[\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u309f\u30a1-\u30fa"
    "\u30fc-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97c\uac00-\ud7fb\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""As a class of a regular expression."""

_CONTROL: Final = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
_ASCII_CONTROL: Final = dict.fromkeys(({*range(0x20)} | {0x7F}) - set(map(ord, "\t\n\r")), " ")


def make_searchable(text: str) -> str:
    """The text as the index holds it: without control characters, unspaced scripts spaced."""
    if text.isascii():  # nothing to space, and no surrogate
        return text.translate(_ASCII_CONTROL)
    text = text.encode("utf-8", "replace").decode()
    # Here a translation is five times as slow. To compile takes a tenth of a start: not before.
    return re.sub(UNSPACED, rf"{SEPARATOR}\g<0>{SEPARATOR}", re.sub(_CONTROL, " ", text))
