"""What the server was started with, for who works on the database."""

from __future__ import annotations

from typing import Final

from alembic import op

from treadle.server.data.migrations.column_types import find_column_types

revision: Final = "0007"
down_revision: Final = "0006"


def upgrade() -> None:
    """The next start notes it."""
    text = find_column_types().text
    op.execute(
        f"CREATE TABLE settings (name {text} NOT NULL, value {text} NOT NULL, "
        "CONSTRAINT pk_settings PRIMARY KEY (name))"
    )
