"""What threads have used of models, by day and model."""

from __future__ import annotations

from typing import Final

from alembic import op

from treadle.server.data.migrations.column_types import find_column_types

revision: Final = "0018"
down_revision: Final = "0017"

_SUMS: Final = (
    *("requests", "input_tokens", "output_tokens", "cache_read_tokens", "unpriced_tokens"),
    *("estimates", "cost_nanos"),
)


def upgrade() -> None:
    """Threads of before are counted by the server, one by one, once it serves."""
    _, number, text, _ = find_column_types()
    op.execute("ALTER TABLE threads ADD COLUMN is_usage_counted BOOLEAN NOT NULL DEFAULT false")
    sums = ", ".join(f"{name} {number} NOT NULL" for name in _SUMS)
    op.execute(
        f"CREATE TABLE model_usage (thread_id {text} NOT NULL, day {text} NOT NULL, "
        f"model {text} NOT NULL, {sums}, "
        "CONSTRAINT pk_model_usage PRIMARY KEY (thread_id, day, model), "
        "CONSTRAINT fk_model_usage_thread_id_threads FOREIGN KEY (thread_id) "
        "REFERENCES threads (key) ON DELETE CASCADE)"
    )
    op.execute("CREATE INDEX ix_model_usage_day ON model_usage (day)")
