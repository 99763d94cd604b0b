"""The first tables, as they were when there were no others.

A copy on purpose: what the schema becomes later is for later steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from alembic import op
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects import postgresql

revision: Final = "0001"
down_revision: Final = None

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

Plain: Final = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")

Number: Final = BigInteger().with_variant(Integer(), "sqlite")

organizations: Final = Table(
    "organizations",
    metadata,
    Column("id", Number, primary_key=True),
    Column("name", Plain, nullable=False, unique=True),
    Column("created_at", Plain, nullable=False),
)

users: Final = Table(
    "users",
    metadata,
    Column("id", Number, primary_key=True),
    Column("name", Plain, nullable=False, unique=True),
    Column("organization_id", ForeignKey("organizations.id"), nullable=False, index=True),
    Column("role", Plain, nullable=False),
    Column("is_admin", Boolean, nullable=False),
    Column("is_support", Boolean, nullable=False),
    Column("created_at", Plain, nullable=False),
    Column("disabled_at", Plain),
)

tokens: Final = Table(
    "tokens",
    metadata,
    Column("id", Number, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False, index=True),
    Column("name", Plain, nullable=False),
    Column("hash", Plain, nullable=False, unique=True),
    Column("created_at", Plain, nullable=False),
    Column("expires_at", Plain),
    Column("revoked_at", Plain),
    Column("last_used_at", Plain),
)

repos: Final = Table(
    "repos",
    metadata,
    Column("id", Number, primary_key=True),
    Column("slug", Plain, nullable=False, unique=True),
    Column("created_at", Plain, nullable=False),
)

threads: Final = Table(
    "threads",
    metadata,
    Column("id", Plain, primary_key=True),
    Column("owner_id", ForeignKey("users.id"), nullable=False),
    Column("organization_id", ForeignKey("organizations.id"), nullable=False),
    Column("kind", Plain, nullable=False),
    Column("version", Number, nullable=False),
    Column("hash", Plain, nullable=False),
    Column("change", Number, nullable=False),
    Column("created_at", Plain, nullable=False),
    Column("updated_at", Plain, nullable=False),
    Column("last_activity_at", Plain, nullable=False),
    Column("deleted_at", Plain),
    Column("purged_at", Plain),
    Column("visibility", Plain, nullable=False),
    Column("is_shared_with_support", Boolean, nullable=False),
    Column("title", Plain),
    Column("tags", Plain, nullable=False),
    Column("is_pinned", Boolean, nullable=False),
    Column("machine", Plain, nullable=False),
    Column("agent_state_kind", Plain, nullable=False),
    Column("message_count", Number, nullable=False),
    Column("workspace_root", Plain),
    Column("provider", Plain),
    Column("model", Plain),
    Column("treadle_version", Plain),
    Column("parent", Plain),
    Column("forked_from", Plain),
    Column("repo_id", ForeignKey("repos.id"), index=True),
    Column("git_branch", Plain),
    Column("git_initial_branch", Plain),
    Column("git_initial_commit_sha", Plain, index=True),
    Column("git_current_commit_sha", Plain, index=True),
    Column("git_start_dirty", Boolean),
    Column("git_end_dirty", Boolean),
    Column("summary", Plain, nullable=False),
    Index(None, "owner_id", "change"),
    Index(None, "organization_id", "last_activity_at"),
    Index(None, "visibility", "last_activity_at"),
    Index(None, "workspace_root", "last_activity_at"),
    Index(None, "forked_from"),
)

records: Final = Table(
    "records",
    metadata,
    Column("thread_id", ForeignKey("threads.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", Number, primary_key=True, autoincrement=False),
    Column("hash", Plain, nullable=False),
    Column("at", Plain, nullable=False),
    Column("line", Plain, nullable=False),
)

documents: Final = Table(
    "documents",
    metadata,
    Column("thread_id", ForeignKey("threads.id", ondelete="CASCADE"), primary_key=True),
    Column("version", Number, primary_key=True, autoincrement=False),
    Column("hash", Plain, nullable=False),
    Column("body", Plain, nullable=False),
)

blobs: Final = Table(
    "blobs",
    metadata,
    Column("thread_id", ForeignKey("threads.id", ondelete="CASCADE"), primary_key=True),
    Column("sha256", Plain, primary_key=True),
    Column("size", Number, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

thread_commits: Final = Table(
    "thread_commits",
    metadata,
    Column("thread_id", ForeignKey("threads.id", ondelete="CASCADE"), primary_key=True),
    Column("commit_sha", Plain, primary_key=True, index=True),
    Column("repo_id", ForeignKey("repos.id"), index=True),
    Column("branch", Plain),
    Column("is_dirty", Boolean, nullable=False),
    Column("is_initial", Boolean, nullable=False),
    Column("is_final", Boolean, nullable=False),
    Column("observed_at", Plain, nullable=False),
)

shares: Final = Table(
    "shares",
    metadata,
    Column("id", Number, primary_key=True),
    Column("thread_id", ForeignKey("threads.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("hash", Plain, nullable=False, unique=True),
    Column("created_by", ForeignKey("users.id"), nullable=False),
    Column("created_at", Plain, nullable=False),
    Column("expires_at", Plain, nullable=False),
    Column("revoked_at", Plain),
)

support_access: Final = Table(
    "support_access",
    metadata,
    Column("id", Number, primary_key=True),
    Column("thread_id", ForeignKey("threads.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("requested_by", ForeignKey("users.id")),
    Column("requested_at", Plain),
    Column("approved_by", ForeignKey("users.id")),
    Column("approved_at", Plain),
    Column("expires_at", Plain),
    Column("revoked_at", Plain),
)

audit: Final = Table(
    "audit",
    metadata,
    Column("id", Number, primary_key=True),
    Column("at", Plain, nullable=False),
    Column("actor_id", ForeignKey("users.id")),
    Column("action", Plain, nullable=False),
    Column("thread_id", Plain, index=True),
    Column("detail", Plain, nullable=False),
)

counters: Final = Table(
    "counters",
    metadata,
    Column("name", Plain, primary_key=True),
    Column("value", Number, nullable=False),
)

changes: Final = Table(
    "changes",
    metadata,
    Column("change", Number, primary_key=True, autoincrement=False),
    Column("thread_id", Plain, nullable=False, index=True),
    Column("version", Number, nullable=False),
    Column("hash", Plain, nullable=False),
    Column("kind", Plain, nullable=False),
    Column("at", Plain, nullable=False),
)


_SEARCH: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "sqlite": (
            "CREATE TABLE search_texts (id INTEGER PRIMARY KEY, thread_id TEXT NOT NULL, "
            "place INTEGER NOT NULL, kind INTEGER NOT NULL, text TEXT NOT NULL)",
            "CREATE INDEX ix_search_texts_thread_id ON search_texts (thread_id)",
            "CREATE VIRTUAL TABLE search_words USING fts5"
            "(words, tokenize = 'ascii', prefix = '2 4', columnsize = 0)",
        ),
        "postgresql": (
            "CREATE TABLE search_texts (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            'thread_id text COLLATE "C" NOT NULL, place bigint NOT NULL, kind integer NOT NULL, '
            "text text NOT NULL, words tsvector NOT NULL)",
            "CREATE INDEX ix_search_texts_thread_id ON search_texts (thread_id)",
            "CREATE INDEX ix_search_texts_words ON search_texts USING gin (words)",
        ),
    }
)


def upgrade() -> None:
    """Make all tables, the counter of changes, and what the search keeps beside them."""
    bind = op.get_bind()
    metadata.create_all(bind)
    bind.execute(counters.insert().values(name="change", value=0))
    for statement in _SEARCH[bind.dialect.name]:
        bind.execute(text(statement))
