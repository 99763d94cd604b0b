"""What who runs a team server does in its database, without a token and without a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from treadle.api.error_codes import ErrorCode
from treadle.app.folders import user_folders
from treadle.app.threads.times import utc_now
from treadle.errors import ConfigError, StoreError, UsageError
from treadle.server.accounts import accounts
from treadle.server.context import Context
from treadle.server.data.database import Database
from treadle.server.refusals import Refusal
from treadle.server.threads.retention_run import RetentionReport, run_retention

Result = TypeVar("Result")


def run_as_operator(
    url: str | None,
    work: Callable[[Context], Result],
    *,
    is_write: bool = True,
    about: tuple[str, str] = ("", ""),
) -> Result:
    """Do something in the database as its operator.

    Args:
        url: the database; `None` for the one `treadle serve` uses.
        work: what is done.
        is_write: whether it changes something.
        about: what it is done to, and the command that lists what there is.

    Raises:
        UsageError: it cannot be done like this; nothing was changed.
        ConfigError: the database is not there, or not of this version.
        StoreError: it cannot be reached.
    """
    return run_on_database(
        url,
        lambda database: database.run(
            lambda db: work(Context(db, accounts.OPERATOR, utc_now())), is_write=is_write
        ),
        about=about,
        is_write=is_write,
    )


def keep_retention(url: str | None) -> RetentionReport:
    """Put away and remove now what the rules of the server say. Raises as `run_as_operator`."""
    return run_on_database(url, lambda database: run_retention(database, utc_now))


def run_on_database(
    url: str | None,
    work: Callable[[Database], Result],
    *,
    about: tuple[str, str] = ("", ""),
    is_write: bool = False,
) -> Result:
    """Do something with the database. Arguments and errors as `run_as_operator` has them.

    The tables of an empty one are made where something is to be written.
    """
    database = Database(find_database_url(url), pool_size=1)
    try:
        if is_write and database.get_schema_state() == "empty":
            database.prepare()
        if not database.has_current_schema():
            raise ConfigError(
                f"{database.name} has not the tables of this version",
                hint="start `treadle serve` once; with --migrate, if they are of an older version",
            )
        return work(database)
    except Refusal as refusal:
        kind = StoreError if refusal.code is ErrorCode.UNAVAILABLE else UsageError
        message, hint = refusal.problem.message, refusal.problem.hint
        if refusal.code is ErrorCode.NOT_FOUND and all(about):
            what, listing = about
            message, hint = f"there is no {what}", f"`{listing}` lists those that there are"
        raise kind(message, hint=hint) from refusal
    finally:
        database.dispose()


def find_database_url(url: str | None) -> str:
    """The URL of a database; a file that is not there is not made by looking for it."""
    url = url or f"sqlite:///{user_folders().server}"
    try:
        parsed = make_url(url)
    except ArgumentError:
        return url  # whoever opens it says so
    is_file = parsed.get_backend_name() == "sqlite" and parsed.database
    if is_file and not Path(parsed.database or "").exists():
        raise ConfigError(
            f"there is no database {parsed.database}",
            hint="`treadle serve` makes it; --database names another one",
        )
    return url
