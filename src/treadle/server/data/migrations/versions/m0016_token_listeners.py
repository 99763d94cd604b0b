"""When a machine asked last, with a token, what is asked of it elsewhere."""

from __future__ import annotations

from typing import Final

from alembic import op

from treadle.server.data.migrations.column_types import find_column_types

revision: Final = "0016"
down_revision: Final = "0015"


def upgrade() -> None:
    """Whoever listens says so within a minute."""
    text = find_column_types().text
    op.execute(f"ALTER TABLE tokens ADD COLUMN listened_at {text}")
