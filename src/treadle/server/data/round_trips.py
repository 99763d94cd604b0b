"""Statements that PostgreSQL is sent together: each way to it and back costs as much as they do.

A transaction begins with what it asks first, and ends with what it writes last. What is to be sent
later is sent before any other statement of the transaction, so nothing changes its order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from psycopg import ClientCursor
from psycopg.rows import namedtuple_row
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.sql import ClauseElement

_QUEUED_KEY: Final = "treadle_queued"
_ANSWERS_KEY: Final = "treadle_asked"


class PreliminaryQuery(Struct, frozen=True):
    """What a transaction asks first.

    `name` and `of` are what `answer` finds the rows by, `statement` has the places of `values`.
    """

    name: str
    of: str
    statement: str
    values: Mapping[str, object]


def compile_postgresql(statement: ClauseElement, columns: Sequence[str] | None = None) -> str:
    """A statement in the words of PostgreSQL, with the places of its values; of these columns."""
    dialect = PGDialect_psycopg()  # type: ignore[no-untyped-call]
    return str(statement.compile(dialect=dialect, column_keys=columns))


def begin_transaction(
    connection: Connection, first: str, queries: Sequence[PreliminaryQuery]
) -> None:
    """Begin a transaction with `first`, statements without values, and ask these questions."""
    with _make_cursor(connection) as cursor:
        texts = [cursor.mogrify(one.statement, one.values) for one in queries]
        cursor.execute("; ".join([first, *texts]).encode())
        found: dict[tuple[str, str], list[Any]] = {}
        for _ in range(first.count(";")):
            cursor.nextset()
        for one in queries:
            cursor.nextset()
            found[one.name, one.of] = cursor.fetchall()
    connection.info[_ANSWERS_KEY] = found


def pop_query_rows(connection: Connection, name: str, key: str) -> list[Any] | None:
    """The rows that a question got as the transaction began, once; `None` if it was not asked."""
    asked: dict[tuple[str, str], list[Any]] = connection.info.get(_ANSWERS_KEY, {})
    return asked.pop((name, key), None)


def insert_later(
    connection: Connection, into: str, places: str, rows: Sequence[Mapping[str, object]]
) -> None:
    """Insert rows with what the transaction sends next: `into` names columns, `places` values."""
    with _make_cursor(connection) as cursor:
        values = ", ".join(cursor.mogrify(places, row) for row in rows)
    _queue_statement(connection, f"INSERT INTO {into} VALUES {values}")  # noqa: S608  ours; values quoted


def execute_later(connection: Connection, statement: str, values: Mapping[str, object]) -> None:
    """Execute a statement, which answers nothing, with what the transaction sends next."""
    with _make_cursor(connection) as cursor:
        _queue_statement(connection, cursor.mogrify(statement, values))


def send_queued(connection: Connection) -> None:
    """Send what was to be sent later, if there is something."""
    if queued := connection.info.pop(_QUEUED_KEY, None):
        with _make_cursor(connection) as cursor:
            cursor.execute("; ".join(queued).encode())


def clear_state(connection: Connection) -> None:
    """The transaction is over: nothing of it is left for the next one of this connection."""
    connection.info.pop(_QUEUED_KEY, None)
    connection.info.pop(_ANSWERS_KEY, None)


def execute_and_commit(connection: Connection, statement: str, values: Mapping[str, object]) -> Any:
    """Execute the last statement of a transaction of PostgreSQL and commit it, all at once.

    What the statement locks is given back as soon as it can be: no round trip and no flush of the
    disk comes between. Right after it something empty is committed as the session says, which waits
    until all before it is durable; one flush serves all who wait. Others may see for a moment what
    a crash could still undo: nobody was told that it is kept, and a sync bears a server that has
    lost something.

    Returns:
        The only row that the statement gives.
    """
    queued = connection.info.pop(_QUEUED_KEY, [])
    with _make_cursor(connection) as cursor:
        texts = [
            "SET LOCAL synchronous_commit = off",
            *queued,
            cursor.mogrify(statement, values),
            "COMMIT",
            "SELECT pg_logical_emit_message(true, 'treadle', '')",
        ]
        cursor.execute("; ".join(texts).encode())
        for _ in range(len(queued) + 1):
            cursor.nextset()
        return cursor.fetchone()


def _queue_statement(connection: Connection, text: str) -> None:
    connection.info.setdefault(_QUEUED_KEY, []).append(text)


def _make_cursor(connection: Connection) -> ClientCursor[Any]:
    """The one kind of cursor that sends several statements as one."""
    raw: Any = connection.connection.dbapi_connection
    return ClientCursor(raw, row_factory=namedtuple_row)
