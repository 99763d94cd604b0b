"""What the server was started with, for who works on the database."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from alembic import op

revision: Final = "0007"
down_revision: Final = "0006"

_TEXT: Final = MappingProxyType({"sqlite": "TEXT", "postgresql": 'text COLLATE "C"'})


def upgrade() -> None:
    """The next start notes it."""
    text = _TEXT[op.get_bind().dialect.name]
    op.execute(
        f"CREATE TABLE settings (name {text} NOT NULL, value {text} NOT NULL, "
        "CONSTRAINT pk_settings PRIMARY KEY (name))"
    )
