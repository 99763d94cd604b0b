"""What people ask of their own machines by way of the server."""

from __future__ import annotations

from typing import Final

from alembic import op

from treadle.server.data.migrations.column_types import find_column_types

revision: Final = "0010"
down_revision: Final = "0009"


def upgrade() -> None:
    """Nothing was asked yet."""
    _, number, text, _ = find_column_types()
    op.execute(
        "CREATE TABLE remote_requests ("
        f"id {text} NOT NULL, user_id {number} NOT NULL, token_id {number} NOT NULL, "
        f"thread_id {text}, machine {text} NOT NULL, created_at {text} NOT NULL, "
        f"expires_at {text} NOT NULL, state {text} NOT NULL, why {text} NOT NULL, "
        f"body {text} NOT NULL, "
        "CONSTRAINT pk_remote_requests PRIMARY KEY (id), "
        "CONSTRAINT fk_remote_requests_user_id FOREIGN KEY(user_id) REFERENCES users (id), "
        "CONSTRAINT fk_remote_requests_token_id FOREIGN KEY(token_id) REFERENCES tokens (id), "
        "CONSTRAINT fk_remote_requests_thread_id FOREIGN KEY(thread_id) "
        "REFERENCES threads (key) ON DELETE CASCADE)"
    )
    for columns in ("thread_id", "user_id, machine, state"):
        name = f"ix_remote_requests_{columns.replace(', ', '_')}"
        op.execute(f"CREATE INDEX {name} ON remote_requests ({columns})")
