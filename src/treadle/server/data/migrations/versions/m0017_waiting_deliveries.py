"""Deliveries of webhooks are those that wait, and no others."""

from __future__ import annotations

from typing import Final

from alembic import op

revision: Final = "0017"
down_revision: Final = "0016"


def upgrade() -> None:
    """Forget what was taken, or given up."""
    op.execute("DELETE FROM webhook_deliveries WHERE next_at IS NULL")
    op.execute("ALTER TABLE webhook_deliveries DROP COLUMN delivered_at")
