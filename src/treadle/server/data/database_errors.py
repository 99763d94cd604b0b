"""What a database's errors mean to who asked: try again at once, later, or it is our fault."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from psycopg import Error as PostgresError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from treadle.api.error_codes import ErrorCode
from treadle.errors import ConfigError
from treadle.server.refusals import Refusal

RETRY_AFTER_S: Final = 2
"""When a client may ask again."""

_BUSY_CODES: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_SQLITE_FAILURES: Final = {
    sqlite3.SQLITE_CANTOPEN: "its file cannot be opened",
    sqlite3.SQLITE_CORRUPT: "its file is damaged",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk does not work",
    sqlite3.SQLITE_NOMEM: "there is no memory",
    sqlite3.SQLITE_NOTADB: "its file is no database",
    sqlite3.SQLITE_PERM: "its file may not be used",
    sqlite3.SQLITE_READONLY: "its file may not be written",
}
"""What SQLite says, by its code; all others are faults of the program."""

_CONFLICT_STATES: Final = {"40001", "40P01", "55P03"}
"""PostgreSQL ended the transaction because of another one: order, deadlock, a lock not had."""

_POSTGRESQL_FAILURES: Final = {
    "08": "it cannot be reached",
    "25006": "it may only be read",
    "53": "it is out of disk, memory or connections",
    "57": "it is being stopped or started",
    "58": "its disk does not work",
    "XX": "it is damaged",
}
"""What PostgreSQL says, by the beginning of its code."""


class TransactionConflictError(Refusal):
    """The transaction was undone because of others; the same one may well succeed now."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.UNAVAILABLE,
            "too many change this at the same time",
            hint="try again",
            headers={"Retry-After": str(RETRY_AFTER_S)},
        )


def make_unavailable_refusal(why: str) -> Refusal:
    """The answer when the database cannot do its part now; nothing was acknowledged."""
    return Refusal(
        ErrorCode.UNAVAILABLE,
        why,
        hint="nothing was acknowledged; try again",
        headers={"Retry-After": str(RETRY_AFTER_S)},
    )


@contextmanager
def convert_database_errors() -> Iterator[None]:
    """Raises what the errors of a database mean.

    Raises:
        Refusal: unavailable; `TransactionConflictError` where trying again at once makes sense.
    """
    try:
        yield
    except ConfigError as error:
        raise make_unavailable_refusal(
            error.message
        ) from error  # somebody has changed it since the start
    except PoolTimeoutError as error:
        raise make_unavailable_refusal("all connections to the database are in use") from error
    except (DBAPIError, PostgresError) as error:
        meant = _convert_error(error)
        if meant is None:
            raise
        raise meant from error


def _convert_error(error: DBAPIError | PostgresError) -> Refusal | None:
    cause = error.orig if isinstance(error, DBAPIError) else error
    is_invalid = isinstance(error, DBAPIError) and error.connection_invalidated
    if isinstance(cause, sqlite3.Error):
        code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
        if code in _BUSY_CODES:
            return TransactionConflictError()
        why = _SQLITE_FAILURES.get(code)
        return (
            None if why is None else make_unavailable_refusal(f"the database does not work: {why}")
        )
    state = getattr(cause, "sqlstate", None) or ""
    if state in _CONFLICT_STATES:
        return TransactionConflictError()
    for beginning, why in _POSTGRESQL_FAILURES.items():
        if state.startswith(beginning):
            return make_unavailable_refusal(f"the database does not work: {why}")
    if is_invalid or _is_connection_lost(cause, state):
        return make_unavailable_refusal("the database does not work: it cannot be reached")
    return None


def _is_connection_lost(cause: BaseException | None, state: str) -> bool:
    """A connection that breaks, or is never made, has no code."""
    return not state and type(cause).__name__ in ("OperationalError", "ConnectionTimeout")
