"""What each push wrote and nobody needs: a counter beside the changes, entries of five indexes."""

from __future__ import annotations

from typing import Final

from alembic import op

revision: Final = "0019"
down_revision: Final = "0018"


def upgrade() -> None:
    """The largest change is where the counter stood."""
    op.execute("DROP TABLE counters")
    op.execute("DROP INDEX ix_search_pending_thread_id")
    op.execute("DROP INDEX ix_changes_thread_id")
    op.execute("CREATE INDEX ix_changes_thread_id ON changes (thread_id) WHERE kind = 'rewritten'")
    for column in ("organization_id", "visibility", "workspace_root"):
        op.execute(f"DROP INDEX ix_threads_{column}_last_activity_at")
        op.execute(f"CREATE INDEX ix_threads_{column} ON threads ({column})")
