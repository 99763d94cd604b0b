"""Sessions of browsers are tokens of another kind, made with a token or by a sign-in elsewhere."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from alembic import op

revision: Final = "0004"
down_revision: Final = "0003"

_COLUMNS: Final = MappingProxyType(
    {
        "sqlite": (
            "ALTER TABLE tokens ADD COLUMN kind TEXT NOT NULL DEFAULT 'access'",
            "ALTER TABLE tokens ADD COLUMN made_with INTEGER",
        ),
        "postgresql": (
            """ALTER TABLE tokens ADD COLUMN kind text COLLATE "C" NOT NULL DEFAULT 'access'""",
            "ALTER TABLE tokens ADD COLUMN made_with bigint",
        ),
    }
)


def upgrade() -> None:
    """All that there are open the API."""
    for statement in _COLUMNS[op.get_bind().dialect.name]:
        op.execute(statement)
