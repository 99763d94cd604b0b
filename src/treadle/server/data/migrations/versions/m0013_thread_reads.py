"""Who has read threads of others."""

from __future__ import annotations

from typing import Final

from alembic import op

from treadle.server.data.migrations.column_types import find_column_types

revision: Final = "0013"
down_revision: Final = "0012"


def upgrade() -> None:
    """Who read something before is known to nobody."""
    key, number, text, _ = find_column_types()
    op.execute(
        f"CREATE TABLE thread_reads (id {key}, thread_id {text} NOT NULL, "
        f"user_id {number} NOT NULL, share_id {number} NOT NULL, hour {text} NOT NULL, "
        f"first_at {text} NOT NULL, last_at {text} NOT NULL, ways {text} NOT NULL, "
        f"addresses {text} NOT NULL)"
    )
    op.execute("CREATE INDEX ix_thread_reads_user_id ON thread_reads (user_id)")
    op.execute(
        "CREATE UNIQUE INDEX ix_thread_reads_thread_id_hour_user_id_share_id "
        "ON thread_reads (thread_id, hour, user_id, share_id)"
    )
