"""Who at a provider of OpenID Connect is which user."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from alembic import op

revision: Final = "0009"
down_revision: Final = "0008"

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
    """Everybody has signed in with a token up to now."""
    key, number, text = _TYPES[op.get_bind().dialect.name]
    op.execute(f"ALTER TABLE tokens ADD COLUMN identity_id {number}")
    op.execute(
        f"CREATE TABLE identities (id {key}, user_id {number} NOT NULL REFERENCES users (id), "
        f"issuer {text} NOT NULL, subject {text} NOT NULL, email {text} NOT NULL, "
        f"created_at {text} NOT NULL)"
    )
    op.execute("CREATE INDEX ix_identities_user_id ON identities (user_id)")
    op.execute("CREATE UNIQUE INDEX ix_identities_issuer_subject ON identities (issuer, subject)")
