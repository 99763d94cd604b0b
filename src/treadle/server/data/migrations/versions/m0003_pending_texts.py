"""Records whose texts the search has not taken in yet: a push leaves a row and does not wait."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from alembic import op

revision: Final = "0003"
down_revision: Final = "0002"

_PENDING: Final = MappingProxyType(
    {
        "sqlite": "CREATE TABLE search_pending (id INTEGER PRIMARY KEY, thread_id TEXT NOT NULL, "
        "first INTEGER NOT NULL, last INTEGER NOT NULL, size INTEGER NOT NULL)",
        "postgresql": "CREATE TABLE search_pending (id bigint GENERATED ALWAYS AS IDENTITY "
        'PRIMARY KEY, thread_id text COLLATE "C" NOT NULL, first bigint NOT NULL, '
        "last bigint NOT NULL, size bigint NOT NULL)",
    }
)


def upgrade() -> None:
    """Nothing is pending yet: older versions took in texts with the push."""
    op.execute(_PENDING[op.get_bind().dialect.name])
    op.execute("CREATE INDEX ix_search_pending_thread_id ON search_pending (thread_id)")
