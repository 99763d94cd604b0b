"""What Alembic runs: the steps that are missing, in the transaction it is given."""

from __future__ import annotations

from alembic import context

from treadle.server.data.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite alters a table by making it anew
)
context.run_migrations()
