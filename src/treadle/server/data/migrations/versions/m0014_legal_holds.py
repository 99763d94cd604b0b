"""What nobody may remove as long as a hold stands."""

from __future__ import annotations

from typing import Final

from alembic import op

from treadle.server.data.migrations.column_types import find_column_types

revision: Final = "0014"
down_revision: Final = "0013"


def upgrade() -> None:
    """Nothing is held."""
    key, number, text, _ = find_column_types()
    op.execute(
        f"CREATE TABLE legal_holds (id {key}, thread_id {text}, "
        f"user_id {number} REFERENCES users (id), "
        f"organization_id {number} REFERENCES organizations (id), "
        f"reason {text} NOT NULL, placed_at {text} NOT NULL, "
        f"placed_by {number} REFERENCES users (id), lifted_at {text}, "
        f"lifted_by {number} REFERENCES users (id))"
    )
