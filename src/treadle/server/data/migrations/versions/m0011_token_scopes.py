"""What a token may, and which machine has used it last."""

from __future__ import annotations

from typing import Final

from alembic import op

from treadle.server.data.migrations.column_types import find_column_types

revision: Final = "0011"
down_revision: Final = "0010"


def upgrade() -> None:
    """Tokens of before may all that their users may."""
    text = find_column_types().text
    op.execute(f"ALTER TABLE tokens ADD COLUMN scope {text} NOT NULL DEFAULT 'all'")
    op.execute(f"ALTER TABLE tokens ADD COLUMN machine {text}")
