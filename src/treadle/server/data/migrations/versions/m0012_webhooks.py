"""Addresses that people want to be told at, and what is to be told there."""

from __future__ import annotations

from typing import Final

from alembic import op

from treadle.server.data.migrations.column_types import find_column_types

revision: Final = "0012"
down_revision: Final = "0011"


def upgrade() -> None:
    """Nobody wants to be told of anything yet."""
    key, number, text, _ = find_column_types()
    op.execute(
        f"CREATE TABLE webhooks (id {key}, user_id {number} NOT NULL REFERENCES users (id), "
        f"url {text} NOT NULL, secret {text} NOT NULL, events {text} NOT NULL, "
        f"origin {text} NOT NULL, created_at {text} NOT NULL, delivered_at {text}, "
        f"failing_since {text}, problem {text}, disabled_at {text})"
    )
    op.execute("CREATE INDEX ix_webhooks_user_id ON webhooks (user_id)")
    op.execute(
        f"CREATE TABLE webhook_deliveries (id {key}, webhook_id {number} NOT NULL, "
        f"message_id {text} NOT NULL, "
        f"event {text} NOT NULL, thread_id {text}, version {number} NOT NULL, "
        f"created_at {text} NOT NULL, attempt_count {number} NOT NULL, next_at {text}, "
        f"delivered_at {text}, CONSTRAINT fk_webhook_deliveries_webhook_id "
        "FOREIGN KEY (webhook_id) REFERENCES webhooks (id) ON DELETE CASCADE)"
    )
    for name in ("webhook_id", "thread_id", "next_at"):
        op.execute(f"CREATE INDEX ix_webhook_deliveries_{name} ON webhook_deliveries ({name})")
