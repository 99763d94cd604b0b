"""The tables of a database, from whichever version they are to this one."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from treadle.errors import ConfigError

_LOCK_NUMBER: Final = 0x74726561646C65
"""The number that processes lock in PostgreSQL while they migrate."""


def get_schema_state(connection: Connection) -> Literal["empty", "older", "current"]:
    """What the tables are to this version.

    Raises:
        ConfigError: a newer Treadle has made them, or another program.
    """
    scripts = ScriptDirectory.from_config(_make_config(connection))
    found = MigrationContext.configure(connection).get_current_heads()
    newest = scripts.get_current_head()
    if found == (newest,):
        return "current"
    if not found:
        if inspect(connection).has_table("threads"):
            raise ConfigError(
                "the database has tables of another program",
                hint="give the server a database of its own",
            )
        return "empty"
    known = {script.revision for script in scripts.walk_revisions()}
    if not known.issuperset(found):
        raise ConfigError(
            f"the tables are of a newer Treadle: {', '.join(sorted(found))}",
            hint="use that version, or a newer one",
        )
    return "older"


def migrate(connection: Connection, revision: str = "head") -> None:
    """Bring the tables up to a revision, in the transaction of this connection.

    Others that try the same wait for its end, and find the work done.

    Args:
        connection: a transaction that writes.
        revision: that of this version, or an earlier one.

    Raises:
        ConfigError: as `get_schema_state`.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK_NUMBER})")
    if get_schema_state(connection) != "current":
        command.upgrade(_make_config(connection), revision)


def _make_config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
