"""Journals to which workers append: who holds them, and since how many holders."""

from __future__ import annotations

from typing import Final

from alembic import op

from treadle.server.data.migrations.column_types import find_column_types

revision: Final = "0008"
down_revision: Final = "0007"


def upgrade() -> None:
    """No thread has a journal yet: the row of each says all that its records do."""
    dialect = op.get_bind().dialect.name
    identity, number, text, data = find_column_types()
    op.execute("ALTER TABLE threads ADD COLUMN has_journal BOOLEAN NOT NULL DEFAULT false")
    op.execute(
        f"CREATE TABLE writers (id {identity}, name {text} NOT NULL, lease_until {number} NOT NULL)"
    )
    # Each append writes a row anew: room for that on its page leaves the indexes alone.
    room = " WITH (fillfactor = 60)" if dialect == "postgresql" else ""
    op.execute(
        f"CREATE TABLE journals (owner_id {number} NOT NULL REFERENCES users (id), "
        f"id {text} NOT NULL, thread_key {text}, key {data}, epoch {number} NOT NULL, "
        f"writer_id {number}, seq {number} NOT NULL, size {number} NOT NULL, "
        f"ahead_at {number}, problem {text} NOT NULL DEFAULT '', "
        f"CONSTRAINT pk_journals PRIMARY KEY (owner_id, id)){room}"
    )
    op.execute("CREATE UNIQUE INDEX ix_journals_owner_id_key ON journals (owner_id, key)")
    op.execute(
        "CREATE INDEX ix_journals_ahead_at ON journals (ahead_at) "
        "WHERE ahead_at IS NOT NULL AND problem = ''"
    )
    op.execute("CREATE INDEX ix_blobs_sha256 ON blobs (sha256)")
    op.execute(
        f"CREATE TABLE journal_pieces (owner_id {number} NOT NULL, id {text} NOT NULL, "
        f"start {number} NOT NULL, body {data} NOT NULL, "
        "CONSTRAINT pk_journal_pieces PRIMARY KEY (owner_id, id, start))"
    )
    op.execute(
        f"CREATE TABLE journal_blobs (owner_id {number} NOT NULL, sha256 {text} NOT NULL, "
        f"kept_at {number} NOT NULL, body {data} NOT NULL, "
        "CONSTRAINT pk_journal_blobs PRIMARY KEY (owner_id, sha256))"
    )
