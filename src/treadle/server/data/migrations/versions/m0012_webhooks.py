"""Addresses that people want to be told at, and what is to be told there."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from alembic import op

revision: Final = "0012"
down_revision: Final = "0011"

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
    """Nobody wants to be told of anything yet."""
    key, number, text = _TYPES[op.get_bind().dialect.name]
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
