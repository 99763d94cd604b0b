"""Who at a provider of OpenID Connect is which user."""

from __future__ import annotations

from typing import Final

from alembic import op

from treadle.server.data.migrations.column_types import find_column_types

revision: Final = "0009"
down_revision: Final = "0008"


def upgrade() -> None:
    """Everybody has signed in with a token up to now."""
    key, number, text, _ = find_column_types()
    op.execute(f"ALTER TABLE tokens ADD COLUMN identity_id {number}")
    op.execute(
        f"CREATE TABLE identities (id {key}, user_id {number} NOT NULL REFERENCES users (id), "
        f"issuer {text} NOT NULL, subject {text} NOT NULL, email {text} NOT NULL, "
        f"created_at {text} NOT NULL)"
    )
    op.execute("CREATE INDEX ix_identities_user_id ON identities (user_id)")
    op.execute("CREATE UNIQUE INDEX ix_identities_issuer_subject ON identities (issuer, subject)")
