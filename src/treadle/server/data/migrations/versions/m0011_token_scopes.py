"""What a token may, and which machine has used it last."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from alembic import op

revision: Final = "0011"
down_revision: Final = "0010"

_TEXT: Final = MappingProxyType({"sqlite": "TEXT", "postgresql": 'text COLLATE "C"'})


def upgrade() -> None:
    """Tokens of before may all that their users may."""
    text = _TEXT[op.get_bind().dialect.name]
    op.execute(f"ALTER TABLE tokens ADD COLUMN scope {text} NOT NULL DEFAULT 'all'")
    op.execute(f"ALTER TABLE tokens ADD COLUMN machine {text}")
