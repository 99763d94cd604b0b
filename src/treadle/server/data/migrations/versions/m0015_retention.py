"""For how long threads are kept."""

from __future__ import annotations

from typing import Final

from alembic import op

from treadle.server.data.migrations.column_types import find_column_types

revision: Final = "0015"
down_revision: Final = "0014"


def upgrade() -> None:
    """All is kept for ever, as before."""
    _, number, text, _ = find_column_types()
    op.execute(
        f"CREATE TABLE retention_rules (organization_id {number} NOT NULL PRIMARY KEY, "
        f"idle_days {number}, trash_days {number}, changed_at {text} NOT NULL)"
    )
