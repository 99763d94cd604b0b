"""Threads of several owners may have one id: the row gets a key of its own beside it.

What names a thread in other tables stays as it is: whoever came first has the id as the key.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from alembic import op

revision: Final = "0002"
down_revision: Final = "0001"

_COLUMN: Final = MappingProxyType(
    {
        "sqlite": "ALTER TABLE threads ADD COLUMN id TEXT NOT NULL DEFAULT ''",
        "postgresql": """ALTER TABLE threads ADD COLUMN id text COLLATE "C" NOT NULL DEFAULT ''""",
    }
)


def upgrade() -> None:
    """Both databases follow the renamed column with the foreign keys that name it."""
    op.execute("ALTER TABLE threads RENAME COLUMN id TO key")
    op.execute(_COLUMN[op.get_bind().dialect.name])
    op.execute("UPDATE threads SET id = key")
    op.execute("CREATE INDEX ix_threads_id ON threads (id)")
    op.execute("CREATE UNIQUE INDEX ix_threads_owner_id_id ON threads (owner_id, id)")
