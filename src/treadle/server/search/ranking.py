"""A search: which threads fit, in which order, and what is shown of each.

The order is the same on every database: first by what the best text is (what people say counts for
more than what tools print), then by how many texts of the thread fit, then by its last activity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    distinct,
    func,
    literal_column,
    not_,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError

from treadle.api.error_codes import ErrorCode
from treadle.api.types import SearchHit, SearchResult
from treadle.server.accounts import access
from treadle.server.context import Context, ThreadRead, Verb
from treadle.server.data.schema import threads
from treadle.server.refusals import Refusal
from treadle.server.search.query import Query, parse_query, to_fts5, to_tsquery
from treadle.server.search.snippets import make_snippet
from treadle.server.search.text_index import PLACE_SHIFT, search_texts
from treadle.server.search.thread_lists import (
    check_page,
    list_threads_by_id,
    match_workspace,
    read_listed_threads,
)
from treadle.store.index.search import WEIGHTS
from treadle.thread.search_texts import SearchTextKind

STEP_COUNT: Final = 10_000
STEP_ROUNDS_MAX: Final = 10_000
"""A search of SQLite ends after so many rounds of so many steps of its machine: seconds."""
TIMEOUT_MS: Final = 5000
"""A search of PostgreSQL ends after this time."""

OUTPUT_WEIGHT: Final = 1.0
COUNT_WEIGHT: Final = 0.1
"""What the number of texts adds to a score at most: less than any two weights differ by."""

_WEIGHTS: Final = MappingProxyType(dict.fromkeys(SearchTextKind, OUTPUT_WEIGHT) | dict(WEIGHTS))
_RANKS: Final = MappingProxyType(
    {kind.value: sorted({*_WEIGHTS.values()}).index(weight) for kind, weight in _WEIGHTS.items()}
)
_ID_BITS: Final = 44
"""A text's rank and id in one number: the greatest is the newest text of the best kind."""


class RankedThread(Struct, frozen=True):
    """A thread that fits, by its key: its best part, and how many of its texts fit."""

    key: str
    part: int
    count: int


def search_threads(
    context: Context, query: str, limit: int = 50, offset: int = 0, workspace: str | None = None
) -> SearchResult:
    """The threads that the caller may see in which something is found, best first.

    Args:
        context: the request; its transaction may be one that only reads.
        query: what the caller typed, as `parse_query` has it; an id, or its beginning, too.
        limit: how many hits at most, 1 to 200.
        offset: how many hits to pass over, 0 to 10,000.
        workspace: only threads that work in this folder or below it.

    Raises:
        Refusal: `bad_request`; there is nothing to look for, a bound is passed, or the search is
            for so much that it takes too long.
    """
    check_page(limit, offset)
    parsed = parse_query(query)
    may = and_(
        access.make_visibility_condition(context.caller, context.now, verb=Verb.SEARCH),
        *([match_workspace(workspace)] if workspace is not None else ()),
    )
    named: list[str] = []
    named_count = 0
    if parsed.thread:
        named, named_count = list_threads_by_id(context.db, parsed.thread, may, limit, offset)
        may = and_(may, not_(threads.c.id.startswith(parsed.thread, autoescape=True)))
    room = limit - len(named)
    found = (
        _find_ranked(context.db, parsed, may, room, max(0, offset - named_count)) if room else []
    )
    hits = (*_make_id_hits(context.db, parsed, named), *_make_hits(context, parsed, found))
    return SearchResult(hits, limit, offset)


def _find_ranked(
    db: Connection, query: Query, condition: ColumnElement[bool], limit: int, offset: int
) -> list[RankedThread]:
    rank = case(dict(_RANKS), value=search_texts.c.kind)
    best = func.max(rank * literal_column(str(1 << _ID_BITS)) + search_texts.c.id)
    count = func.count(distinct(search_texts.c.place))
    asked = (
        _SELECT_MATCHES[db.dialect.name](query)
        .add_columns(threads.c.key, best, count)
        .join(threads, threads.c.key == search_texts.c.thread_id)
        .where(condition)
        .group_by(threads.c.key, threads.c.last_activity_at)
        .order_by(
            func.max(rank).desc(),
            count.desc(),
            threads.c.last_activity_at.desc(),
            threads.c.key.desc(),
        )
        .limit(limit)
        .offset(offset)
    )
    try:
        with _LIMIT_SEARCH[db.dialect.name](db):
            rows = db.execute(asked).all()
    except DBAPIError as error:
        if not _is_limit_error(error):
            raise
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            "too much fits: the search took too long",
            hint="use rarer words, longer beginnings of words, or a workspace",
        ) from error
    return [RankedThread(row[0], row[1] & (1 << _ID_BITS) - 1, row[2]) for row in rows]


def _select_in_sqlite(query: Query) -> Select[Any]:
    return (
        select()
        .select_from(search_texts)
        .join(text("search_words"), text("search_words.rowid = search_texts.id"))
        .where(text("search_words MATCH :query").bindparams(query=to_fts5(query)))
    )


def _select_in_postgresql(query: Query) -> Select[Any]:
    match = text("search_texts.words @@ CAST(:query AS tsquery)")
    return select().select_from(search_texts).where(match.bindparams(query=to_tsquery(query)))


@contextmanager
def _limit_sqlite_steps(db: Connection) -> Iterator[None]:
    """SQLite stops by itself when it has done too much. That needs no clock."""
    raw: Any = db.connection.driver_connection
    rounds = 0

    def is_enough() -> bool:
        nonlocal rounds
        rounds += 1
        return rounds > STEP_ROUNDS_MAX

    raw.set_progress_handler(is_enough, STEP_COUNT)
    try:
        yield
    finally:
        raw.set_progress_handler(None, 0)


@contextmanager
def _limit_postgresql_time(db: Connection) -> Iterator[None]:
    """PostgreSQL stops by itself when too much time has passed; until the transaction's end."""
    db.execute(text(f"SET LOCAL statement_timeout = {TIMEOUT_MS}"))
    yield


def _is_limit_error(error: DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None)  # of PostgreSQL: query_canceled
    return state == "57014" or str(error.orig) == "interrupted"


_SELECT_MATCHES: Final[Mapping[str, Callable[[Query], Select[Any]]]] = MappingProxyType(
    {"sqlite": _select_in_sqlite, "postgresql": _select_in_postgresql}
)
_LIMIT_SEARCH: Final[Mapping[str, Callable[[Connection], AbstractContextManager[None]]]] = (
    MappingProxyType({"sqlite": _limit_sqlite_steps, "postgresql": _limit_postgresql_time})
)


def _make_hits(
    context: Context, query: Query, ranked_threads: Sequence[RankedThread]
) -> Iterator[SearchHit]:
    """What is shown; one part is held in memory at a time. Its words were said in the thread."""
    shown = read_listed_threads(context.db, [one.key for one in ranked_threads])
    for one in ranked_threads:
        line, document_version = shown[one.key]
        if line.owner != context.caller.user:
            context.reads.append(ThreadRead(one.key, context.caller.user_id or 0))
        part = context.db.execute(
            select(search_texts.c.place, search_texts.c.kind, search_texts.c.text).where(
                search_texts.c.id == one.part
            )
        ).one()
        kind = SearchTextKind(part.kind)
        snippet, ranges = make_snippet(part.text, query)
        version = document_version or part.place >> PLACE_SHIFT
        yield SearchHit(
            line,
            version,
            kind.name.lower(),
            snippet,
            ranges,
            one.count,
            compute_score(kind, one.count),
        )


def compute_score(kind: SearchTextKind, count: int) -> float:
    """A number that is higher for a better hit of any search."""
    return round(_WEIGHTS[kind] + COUNT_WEIGHT * count / (count + 10), 6)


def _make_id_hits(db: Connection, query: Query, keys: Sequence[str]) -> Iterator[SearchHit]:
    shown = read_listed_threads(db, keys)
    ranges = ((0, len(query.thread)),)
    for key in keys:
        line, _ = shown[key]
        yield SearchHit(line, line.summary.version, "id", line.summary.id, ranges, 1, 0.0)
