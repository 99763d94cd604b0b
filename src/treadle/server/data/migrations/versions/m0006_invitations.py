"""Links by which somebody becomes a user of an organization."""

from __future__ import annotations

from typing import Final

from alembic import op

from treadle.server.data.migrations.column_types import find_column_types

revision: Final = "0006"
down_revision: Final = "0005"


def upgrade() -> None:
    """Nobody is invited yet."""
    key, number, text, _ = find_column_types()
    op.execute(
        f"CREATE TABLE invitations (id {key}, hash {text} NOT NULL, "
        f"organization_id {number} NOT NULL REFERENCES organizations (id), role {text} NOT NULL, "
        f"created_by {number} REFERENCES users (id), created_at {text} NOT NULL, "
        f"expires_at {text} NOT NULL, revoked_at {text}, accepted_at {text}, "
        f"accepted_by {number} REFERENCES users (id), "
        "CONSTRAINT uq_invitations_hash UNIQUE (hash))"
    )
    op.execute("CREATE INDEX ix_invitations_organization_id ON invitations (organization_id)")
