"""What nobody may remove as long as a hold stands."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from alembic import op

revision: Final = "0014"
down_revision: Final = "0013"

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
    """Nothing is held."""
    key, number, text = _TYPES[op.get_bind().dialect.name]
    op.execute(
        f"CREATE TABLE legal_holds (id {key}, thread_id {text}, "
        f"user_id {number} REFERENCES users (id), "
        f"organization_id {number} REFERENCES organizations (id), "
        f"reason {text} NOT NULL, placed_at {text} NOT NULL, "
        f"placed_by {number} REFERENCES users (id), lifted_at {text}, "
        f"lifted_by {number} REFERENCES users (id))"
    )
