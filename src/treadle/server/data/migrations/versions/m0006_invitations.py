"""Links by which somebody becomes a user of an organization."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from alembic import op

revision: Final = "0006"
down_revision: Final = "0005"

_TYPES: Final = MappingProxyType(
    {
        "sqlite": ("INTEGER NOT NULL PRIMARY KEY", "INTEGER", "TEXT"),
        "postgresql": (
            "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
            "bigint",
            'text COLLATE "C"',
        ),
    }
)


def upgrade() -> None:
    """Nobody is invited yet."""
    key, number, text = _TYPES[op.get_bind().dialect.name]
    op.execute(
        f"CREATE TABLE invitations (id {key}, hash {text} NOT NULL, "
        f"organization_id {number} NOT NULL REFERENCES organizations (id), role {text} NOT NULL, "
        f"created_by {number} REFERENCES users (id), created_at {text} NOT NULL, "
        f"expires_at {text} NOT NULL, revoked_at {text}, accepted_at {text}, "
        f"accepted_by {number} REFERENCES users (id), "
        "CONSTRAINT uq_invitations_hash UNIQUE (hash))"
    )
    op.execute("CREATE INDEX ix_invitations_organization_id ON invitations (organization_id)")
