"""How the texts of threads are kept, so that their words are found.

A text is kept in parts of bounded size; those of one text overlap, so that a phrase is found where
one ends. Each part has its words beside it, as a row of FTS5 or as a `tsvector`; both are made of
the words as they are, and take nothing apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from sqlalchemy import Column, Connection, Integer, MetaData, Table, func, select, text

from treadle.server.data.round_trips import insert_later
from treadle.server.data.schema import BytewiseText, Number
from treadle.server.search.query import PHRASE_LENGTH_MAX
from treadle.server.search.tokenizer import (
    COMMIT_SIGN,
    Word,
    clean_text,
    split_plain_words,
    split_words,
)
from treadle.thread.document import Thread
from treadle.thread.record import Record
from treadle.thread.search_texts import SearchText, SearchTextKind, list_message_texts, list_texts

PART_WORDS_MAX: Final = 3000
"""PostgreSQL takes a megabyte of words in a row; one of ours has at most 256 bytes."""
PART_LENGTH_MAX: Final = 65_536
"""Characters of a part: so much is read to show where something was found."""
REPEATS_MAX: Final = 255
"""PostgreSQL keeps so many places of one word in a row; a phrase is not found beyond."""

PLACE_SHIFT: Final = 12
_NTH_MAX: Final = (1 << PLACE_SHIFT) - 1
"""A text's place: the record's number, and which of its texts it is. Beyond so many they count as
one."""

_ROW_COUNT: Final = 500
"""So many parts are held in memory at a time."""

search_texts: Final = Table(
    "search_texts",
    MetaData(),
    Column("id", Number, primary_key=True),
    Column("thread_id", BytewiseText, nullable=False),
    Column("place", Number, nullable=False),
    Column("kind", Integer, nullable=False),
    Column("text", BytewiseText, nullable=False),
)
"""Each part of each text. Within a thread ids grow with the version. PostgreSQL has one more
column, `words`; beside SQLite's stands the table `search_words`, row by row."""


search_pending: Final = Table(
    "search_pending",
    MetaData(),
    Column("id", Number, primary_key=True),
    Column("thread_id", BytewiseText, nullable=False),
    Column("first", Number, nullable=False),
    Column("last", Number, nullable=False),
    Column("size", Number, nullable=False),
)
"""Records of a thread, by their numbers, whose texts are not taken in yet. Within a thread ids grow
with the version: whoever pushes holds its row."""


class SearchTextPart(Struct, frozen=True):
    """A part of a text as it is kept: its words in order, separated by spaces."""

    place: int
    kind: int
    text: str
    words: tuple[str, ...]


def index_records(db: Connection, key: str, records: Sequence[Record]) -> None:
    """Take in the texts of records that follow those that were taken in before.

    Costs time in proportion to these records alone. What a large output has beside the journal is
    not read.

    Args:
        db: a transaction that writes.
        key: of the thread whose records they are.
        records: in order; none of them was taken in already.
    """
    _store_texts(db, key, ((record.seq, list_texts(record.event)) for record in records))


def index_document(db: Connection, key: str, document: Thread) -> None:
    """Take in the texts of a document in place of those of the thread's earlier ones.

    Args:
        db: a transaction that writes.
        key: of the thread whose document it is.
        document: what is to be found of the thread from now on.
    """
    _delete_texts(db, key)
    _store_texts(db, key, [(0, _list_document_texts(document))])


def erase_texts(db: Connection, key: str, *, rewrites_words: bool = True) -> None:
    """Remove all texts of a thread, so that no byte of the database's tables holds them.

    On SQLite the lists of words are written anew, which takes time in proportion to all of them:
    a removed word stays in the file otherwise.

    Args:
        db: a transaction that writes.
        key: of the thread; there may be nothing of it.
        rewrites_words: whether it is done at once; else the caller does it for several threads.
    """
    _delete_texts(db, key)
    if rewrites_words:
        rewrite_words(db)


def rewrite_words(db: Connection) -> None:
    """Leave no byte of words that were removed."""
    # Also if nothing of it is left: a text that was replaced before has left its words.
    if db.dialect.name == "sqlite":
        db.execute(text("INSERT INTO search_words (search_words) VALUES ('optimize')"))


def _delete_texts(db: Connection, key: str) -> None:
    # First: it waits for who is taking in texts of the thread, and these go with the others then.
    db.execute(search_pending.delete().where(search_pending.c.thread_id == key))
    mine = {"thread": key}
    if db.dialect.name == "sqlite":
        db.execute(
            text(
                "DELETE FROM search_words WHERE rowid IN "
                "(SELECT id FROM search_texts WHERE thread_id = :thread)"
            ),
            mine,
        )
    db.execute(search_texts.delete().where(search_texts.c.thread_id == key))


def _list_document_texts(document: Thread) -> Iterator[SearchText]:
    metadata = document.metadata
    yield SearchTextKind.TITLE, metadata.title or ""
    yield SearchTextKind.TAG, "\n".join(metadata.tags)
    for note in metadata.annotations:
        yield SearchTextKind.NOTE, note.text
    folders = (document.workspace_root, document.cwd, document.project_name)
    branches = (document.git_branch, document.git_remote_url)
    yield SearchTextKind.PLACE, "\n".join(dict.fromkeys(filter(None, (*folders, *branches))))
    known = (document.git_initial_commit_sha, document.git_current_commit_sha)
    for commit in dict.fromkeys(filter(None, (*document.git_commits, *known))):
        yield SearchTextKind.COMMIT, commit
    for message in document.conversation.messages:
        yield from list_message_texts(message)


def _store_texts(
    db: Connection, key: str, texts_by_seq: Iterable[tuple[int, Iterable[SearchText]]]
) -> None:
    parts = (
        part
        for seq, found in texts_by_seq
        for nth, (kind, content) in enumerate(found)
        for part in split_text(seq << PLACE_SHIFT | min(nth, _NTH_MAX), kind, content)
    )
    while some := list(islice(parts, _ROW_COUNT)):
        _INSERT_PARTS[db.dialect.name](db, key, some)


def split_text(place: int, kind: SearchTextKind, content: str) -> Iterator[SearchTextPart]:
    """A text in parts; a commit's hash under its sign, so that it is found as nothing else."""
    content = clean_text(content)
    if kind is SearchTextKind.COMMIT:
        sha = "".join(content.lower().split())[:PHRASE_LENGTH_MAX]
        if sha.isalnum():
            yield SearchTextPart(place, kind, sha, (COMMIT_SIGN + sha,))
        return
    plain = split_plain_words(content) if len(content) <= PART_LENGTH_MAX else None
    if plain is not None and _fit_in_a_part(plain[0]):
        words, start, end = plain
        if words:
            yield SearchTextPart(place, kind, content[start:end], tuple(words))
        return
    some: list[Word] = []
    repeats: dict[str, int] = {}
    for word in split_words(content):
        is_full = len(some) == PART_WORDS_MAX or repeats.get(word[0], 0) == REPEATS_MAX
        if some and (is_full or word[2] - some[0][1] > PART_LENGTH_MAX):
            yield _make_part(place, kind, content, some)
            some = _select_overlap(some, word)
            repeats = {}
            for kept, _, _ in some:
                repeats[kept] = repeats.get(kept, 0) + 1
        some.append(word)
        repeats[word[0]] = repeats.get(word[0], 0) + 1
    if some:
        yield _make_part(place, kind, content, some)


def _fit_in_a_part(words: Sequence[str]) -> bool:
    if len(words) <= REPEATS_MAX:
        return True
    return len(words) <= PART_WORDS_MAX and max(Counter(words).values()) <= REPEATS_MAX


def _select_overlap(words: Sequence[Word], following: Word) -> list[Word]:
    """The end of a part that the next one begins with, as far as it has room for it."""
    end = words[1 - PHRASE_LENGTH_MAX :]
    return [word for word in end if following[2] - word[1] <= PART_LENGTH_MAX]


def _make_part(
    place: int, kind: SearchTextKind, content: str, words: Sequence[Word]
) -> SearchTextPart:
    return SearchTextPart(
        place, kind, content[words[0][1] : words[-1][2]], tuple(word for word, _, _ in words)
    )


# Made once: every push executes them, and making them costs more than executing them.
_SELECT_LAST_ID: Final = select(func.coalesce(func.max(search_texts.c.id), 0))
_INSERT_TEXTS: Final = search_texts.insert()
_INSERT_WORDS: Final = text("INSERT INTO search_words (rowid, words) VALUES (:id, :words)")
_INSERT_BOTH_SQL: Final = (
    "search_texts (thread_id, place, kind, text, words)",
    "(%(thread)s, %(place)s, %(kind)s, %(text)s, CAST(%(words)s AS tsvector))",
)


def _insert_into_sqlite(db: Connection, key: str, parts: Sequence[SearchTextPart]) -> None:
    """SQLite has one writer at a time: the next ids are ours."""
    last: int = db.execute(_SELECT_LAST_ID).scalar_one()
    _insert_texts(db, key, parts, last)
    db.execute(
        _INSERT_WORDS,
        [
            {"id": last + number, "words": " ".join(part.words)}
            for number, part in enumerate(parts, 1)
        ],
    )


def _insert_texts(db: Connection, key: str, parts: Sequence[SearchTextPart], last: int) -> None:
    rows = [
        {
            "id": last + number,
            "thread_id": key,
            "place": part.place,
            "kind": part.kind,
            "text": part.text,
        }
        for number, part in enumerate(parts, 1)
    ]
    db.execute(_INSERT_TEXTS, rows)


def _insert_into_postgresql(db: Connection, key: str, parts: Sequence[SearchTextPart]) -> None:
    """In one statement: ids grow in the order of the rows."""
    insert_later(
        db,
        *_INSERT_BOTH_SQL,
        [
            {
                "thread": key,
                "place": part.place,
                "kind": part.kind,
                "text": part.text,
                "words": format_tsvector(part.words),
            }
            for part in parts
        ],
    )


def format_tsvector(words: Sequence[str]) -> str:
    """Words as a `tsvector` is written, each with the places where it stands."""
    places: dict[str, list[str]] = {}
    for number, word in enumerate(words, 1):
        places.setdefault(word, []).append(str(number))
    return " ".join(f"'{word}':{','.join(numbers)}" for word, numbers in places.items())


_INSERT_PARTS: Final[Mapping[str, Callable[[Connection, str, Sequence[SearchTextPart]], None]]] = (
    MappingProxyType({"sqlite": _insert_into_sqlite, "postgresql": _insert_into_postgresql})
)

# The tokenizer `ascii` takes letters, digits and all that is not ASCII for words, and nothing
# apart. Ids are not used again on PostgreSQL; on SQLite only after their words are removed.
