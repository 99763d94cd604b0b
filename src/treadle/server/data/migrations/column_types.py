"""What the types of columns are called by the database that is migrated."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple

from alembic import op


class ColumnTypes(NamedTuple):
    """In words of SQL."""

    key: str
    """Numbers that the database gives to rows."""
    number: str
    text: str
    """Compared byte by byte."""
    blob: str


_TYPES: Final = MappingProxyType(
    {
        "sqlite": ColumnTypes("INTEGER NOT NULL PRIMARY KEY", "INTEGER", "TEXT", "BLOB"),
        "postgresql": ColumnTypes(
            "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "bigint", 'text COLLATE "C"', "bytea"
        ),
    }
)


def find_column_types() -> ColumnTypes:
    """Those of the migration that is under way."""
    return _TYPES[op.get_bind().dialect.name]
