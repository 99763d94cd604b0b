"""The counter of changes for PostgreSQL again: those who wait for a row overtake each other."""

from __future__ import annotations

from typing import Final

from alembic import op

from treadle.server.data.migrations.column_types import find_column_types

revision: Final = "0020"
down_revision: Final = "0019"


def upgrade() -> None:
    """It goes on from the largest change. SQLite, with one writer at a time, counts without it."""
    name = op.get_bind().dialect.name
    _, number, text, _ = find_column_types()
    op.execute(
        f"CREATE TABLE counters (name {text} NOT NULL, value {number} NOT NULL, "
        "CONSTRAINT pk_counters PRIMARY KEY (name))"
    )
    if name == "postgresql":
        op.execute(
            "INSERT INTO counters (name, value) SELECT 'change', coalesce(max(change), 0) "
            "FROM changes"
        )
