"""What users and organizations may keep, and how much each thread takes."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from alembic import op

from treadle.server.data.migrations.column_types import find_column_types

revision: Final = "0005"
down_revision: Final = "0004"

_BYTES: Final = MappingProxyType(
    {"sqlite": "length(CAST({} AS BLOB))", "postgresql": "octet_length({})"}
)


def upgrade() -> None:
    """What is here is counted once. Snapshots of a thread of records are not its own."""
    name = op.get_bind().dialect.name
    number = find_column_types().number
    for table in ("organizations", "users"):
        for column in ("threads_max", "storage_max"):
            op.execute(f"ALTER TABLE {table} ADD COLUMN {column} {number}")
    op.execute(f"ALTER TABLE threads ADD COLUMN size {number} NOT NULL DEFAULT 0")
    line, body = (_BYTES[name].format(column) for column in ("line", "body"))
    op.execute(
        "UPDATE threads SET size = "  # noqa: S608  constants
        f"COALESCE((SELECT SUM({line} + 1) FROM records WHERE thread_id = threads.key), 0) + "
        "COALESCE((SELECT SUM(size) FROM blobs WHERE thread_id = threads.key), 0) + "
        f"COALESCE((SELECT SUM({body}) FROM documents WHERE thread_id = threads.key "
        "AND threads.kind = 'document'), 0)"
    )
