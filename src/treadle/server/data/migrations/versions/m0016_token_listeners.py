"""When a machine asked last, with a token, what is asked of it elsewhere."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from alembic import op

revision: Final = "0016"
down_revision: Final = "0015"

_TEXT: Final = MappingProxyType({"sqlite": "TEXT", "postgresql": 'text COLLATE "C"'})


def upgrade() -> None:
    """Whoever listens says so within a minute."""
    text = _TEXT[op.get_bind().dialect.name]
    op.execute(f"ALTER TABLE tokens ADD COLUMN listened_at {text}")
