"""For how long threads are kept."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from alembic import op

revision: Final = "0015"
down_revision: Final = "0014"

_TYPES: Final = MappingProxyType(
    {"sqlite": ("INTEGER", "TEXT"), "postgresql": ("bigint", 'text COLLATE "C"')}
)


def upgrade() -> None:
    """All is kept for ever, as before."""
    number, text = _TYPES[op.get_bind().dialect.name]
    op.execute(
        f"CREATE TABLE retention_rules (organization_id {number} NOT NULL PRIMARY KEY, "
        f"idle_days {number}, trash_days {number}, changed_at {text} NOT NULL)"
    )
