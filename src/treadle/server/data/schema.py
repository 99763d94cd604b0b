"""The tables. One description for SQLite and PostgreSQL; search keeps its own beside it.

Times are text in the form of records (UTC, six digits, `Z`), so that the order of text is that of
time on both; JSON is text too, so that what was sent comes back byte for byte.
"""

from __future__ import annotations

from typing import Final

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

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

BytewiseText: Final = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
"""Text that is compared and sorted by its bytes on both."""

Number: Final = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits on both; SQLite counts up by itself in a column of this name only."""

organizations: Final = Table(
    "organizations",
    metadata,
    Column("id", Number, primary_key=True),
    Column("name", BytewiseText, nullable=False, unique=True),
    Column("created_at", BytewiseText, nullable=False),
    # What it may keep here, threads and bytes of them; NULL for any amount.
    Column("threads_max", Number),
    Column("storage_max", Number),
)

users: Final = Table(
    "users",
    metadata,
    Column("id", Number, primary_key=True),
    Column("name", BytewiseText, nullable=False, unique=True),
    Column("organization_id", ForeignKey("organizations.id"), nullable=False, index=True),
    Column("role", BytewiseText, nullable=False),
    Column("is_admin", Boolean, nullable=False),
    Column("is_support", Boolean, nullable=False),
    Column("created_at", BytewiseText, nullable=False),
    Column("disabled_at", BytewiseText),
    Column("threads_max", Number),
    Column("storage_max", Number),
)

tokens: Final = Table(
    "tokens",
    metadata,
    Column("id", Number, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False, index=True),
    Column("name", BytewiseText, nullable=False),
    Column("hash", BytewiseText, nullable=False, unique=True),
    Column("created_at", BytewiseText, nullable=False),
    Column("expires_at", BytewiseText),
    Column("revoked_at", BytewiseText),
    Column("last_used_at", BytewiseText),
    # `access` opens the API, `session` the pages.
    Column("kind", BytewiseText, nullable=False, server_default="access"),
    # Of a session the token that it was begun with, and ends with.
    Column("made_with", Number),
    # Of a session the identity that it was begun with, and ends with.
    Column("identity_id", Number),
    # What it may: `read`, `sync`, or `all`.
    Column("scope", BytewiseText, nullable=False, server_default="all"),
    # What the machine is called that has used it last, as it says.
    Column("machine", BytewiseText),
    # When a machine asked with it last what is asked of it elsewhere.
    Column("listened_at", BytewiseText),
)

identities: Final = Table(
    "identities",
    metadata,
    Column("id", Number, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False, index=True),
    # The provider's name, and what it calls somebody for ever.
    Column("issuer", BytewiseText, nullable=False),
    Column("subject", BytewiseText, nullable=False),
    # What the provider had verified when it was linked: for people to know it by, no more.
    Column("email", BytewiseText, nullable=False),
    Column("created_at", BytewiseText, nullable=False),
    Index(None, "issuer", "subject", unique=True),
)

invitations: Final = Table(
    "invitations",
    metadata,
    Column("id", Number, primary_key=True),
    Column("hash", BytewiseText, nullable=False, unique=True),
    Column("organization_id", ForeignKey("organizations.id"), nullable=False, index=True),
    Column("role", BytewiseText, nullable=False),
    Column("created_by", ForeignKey("users.id")),
    Column("created_at", BytewiseText, nullable=False),
    Column("expires_at", BytewiseText, nullable=False),
    Column("revoked_at", BytewiseText),
    # Each is for one user.
    Column("accepted_at", BytewiseText),
    Column("accepted_by", ForeignKey("users.id")),
)

settings: Final = Table(
    "settings",
    metadata,
    # What the server was started with that who works on the database wants to know.
    Column("name", BytewiseText, primary_key=True),
    Column("value", BytewiseText, nullable=False),
)

webhooks: Final = Table(
    "webhooks",
    metadata,
    Column("id", Number, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False, index=True),
    Column("url", BytewiseText, nullable=False),
    # Signs what is sent, so it is kept as it is.
    Column("secret", BytewiseText, nullable=False),
    # Between commas, one before the first and one behind the last.
    Column("events", BytewiseText, nullable=False),
    # What links to threads begin with.
    Column("origin", BytewiseText, nullable=False),
    Column("created_at", BytewiseText, nullable=False),
    Column("delivered_at", BytewiseText),
    Column("failing_since", BytewiseText),
    Column("problem", BytewiseText),
    Column("disabled_at", BytewiseText),
)

webhook_deliveries: Final = Table(
    "webhook_deliveries",
    metadata,
    Column("id", Number, primary_key=True),
    Column("webhook_id", ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False, index=True),
    # The same however often it is sent.
    Column("message_id", BytewiseText, nullable=False),
    Column("event", BytewiseText, nullable=False),
    # What is said of the thread is made when it is sent: no word of it stands here.
    Column("thread_id", BytewiseText, index=True),
    Column("version", Number, nullable=False),
    Column("created_at", BytewiseText, nullable=False),
    Column("attempt_count", Number, nullable=False),
    # When it is sent, or sent again; what was taken, or given up, is removed.
    Column("next_at", BytewiseText, index=True),
)

repos: Final = Table(
    "repos",
    metadata,
    Column("id", Number, primary_key=True),
    Column("slug", BytewiseText, nullable=False, unique=True),
    Column("created_at", BytewiseText, nullable=False),
)

threads: Final = Table(
    "threads",
    metadata,
    # What other tables name it by, where they say `thread_id`: its id, or `id@owner` for those who
    # came later with an id that somebody else had used.
    Column("key", BytewiseText, primary_key=True),
    # What its owner has named it. Others may have a thread of the same id: ids stand in commits.
    Column("id", BytewiseText, nullable=False),
    Column("owner_id", ForeignKey("users.id"), nullable=False),
    Column("organization_id", ForeignKey("organizations.id"), nullable=False),
    # `records` or `document`: which of the two is the truth of this thread.
    Column("kind", BytewiseText, nullable=False),
    Column("version", Number, nullable=False),
    Column("hash", BytewiseText, nullable=False),
    Column("change", Number, nullable=False),
    Column("created_at", BytewiseText, nullable=False),
    Column("updated_at", BytewiseText, nullable=False),
    Column("last_activity_at", BytewiseText, nullable=False),
    Column("deleted_at", BytewiseText),
    # What was said in it is gone; the row says only that the id was this owner's.
    Column("purged_at", BytewiseText),
    Column("visibility", BytewiseText, nullable=False),
    Column("is_shared_with_support", Boolean, nullable=False),
    Column("title", BytewiseText),
    Column("tags", BytewiseText, nullable=False),
    Column("is_pinned", Boolean, nullable=False),
    Column("machine", BytewiseText, nullable=False),
    Column("agent_state_kind", BytewiseText, nullable=False),
    Column("message_count", Number, nullable=False),
    Column("workspace_root", BytewiseText),
    Column("provider", BytewiseText),
    Column("model", BytewiseText),
    Column("treadle_version", BytewiseText),
    Column("parent", BytewiseText),
    Column("forked_from", BytewiseText),
    Column("repo_id", ForeignKey("repos.id"), index=True),
    Column("git_branch", BytewiseText),
    Column("git_initial_branch", BytewiseText),
    Column("git_initial_commit_sha", BytewiseText, index=True),
    Column("git_current_commit_sha", BytewiseText, index=True),
    Column("git_start_dirty", Boolean),
    Column("git_end_dirty", Boolean),
    # Bytes of its records or documents, as sent, and of its large outputs.
    Column("size", Number, nullable=False, server_default="0"),
    # The `ThreadSummary` as JSON: what lists show.
    Column("summary", BytewiseText, nullable=False),
    # Whether workers append to it: its records may be ahead of this row, and it may be held.
    Column("has_journal", Boolean, nullable=False, server_default=text("false")),
    # Whether `model_usage` has what its records say; it came in before anything was counted.
    Column("is_usage_counted", Boolean, nullable=False, server_default=text("false")),
    # None has a column that each push changes but `change`, which machines ask by.
    Index(None, "id"),
    Index(None, "owner_id", "id", unique=True),
    Index(None, "owner_id", "change"),
    Index(None, "organization_id"),
    Index(None, "visibility"),
    Index(None, "workspace_root"),
    Index(None, "forked_from"),
)

records: Final = Table(
    "records",
    metadata,
    Column("thread_id", ForeignKey("threads.key", ondelete="CASCADE"), primary_key=True),
    Column("seq", Number, primary_key=True, autoincrement=False),
    Column("hash", BytewiseText, nullable=False),
    Column("at", BytewiseText, nullable=False),
    # The line of the journal, byte for byte, without its LF.
    Column("line", BytewiseText, nullable=False),
)

model_usage: Final = Table(
    "model_usage",
    metadata,
    # What the thread's own records say was used of a model on a day of UTC.
    Column("thread_id", ForeignKey("threads.key", ondelete="CASCADE"), primary_key=True),
    Column("day", BytewiseText, primary_key=True, index=True),
    Column("model", BytewiseText, primary_key=True),
    Column("requests", Number, nullable=False),
    Column("input_tokens", Number, nullable=False),
    Column("output_tokens", Number, nullable=False),
    Column("cache_read_tokens", Number, nullable=False),
    # Those whose price nobody knew; what the others cost is in billionths of a dollar.
    Column("unpriced_tokens", Number, nullable=False),
    Column("estimates", Number, nullable=False),
    Column("cost_nanos", Number, nullable=False),
)

documents: Final = Table(
    "documents",
    metadata,
    Column("thread_id", ForeignKey("threads.key", ondelete="CASCADE"), primary_key=True),
    Column("version", Number, primary_key=True, autoincrement=False),
    # Of a thread of records a snapshot, as a cache; of a document thread each version, as sent.
    Column("hash", BytewiseText, nullable=False),
    Column("body", BytewiseText, nullable=False),
)

blobs: Final = Table(
    "blobs",
    metadata,
    Column("thread_id", ForeignKey("threads.key", ondelete="CASCADE"), primary_key=True),
    Column("sha256", BytewiseText, primary_key=True, index=True),
    Column("size", Number, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

thread_commits: Final = Table(
    "thread_commits",
    metadata,
    Column("thread_id", ForeignKey("threads.key", ondelete="CASCADE"), primary_key=True),
    Column("commit_sha", BytewiseText, primary_key=True, index=True),
    Column("repo_id", ForeignKey("repos.id"), index=True),
    Column("branch", BytewiseText),
    Column("is_dirty", Boolean, nullable=False),
    Column("is_initial", Boolean, nullable=False),
    Column("is_final", Boolean, nullable=False),
    Column("observed_at", BytewiseText, nullable=False),
)

shares: Final = Table(
    "shares",
    metadata,
    Column("id", Number, primary_key=True),
    Column("thread_id", ForeignKey("threads.key", ondelete="CASCADE"), nullable=False, index=True),
    Column("hash", BytewiseText, nullable=False, unique=True),
    Column("created_by", ForeignKey("users.id"), nullable=False),
    Column("created_at", BytewiseText, nullable=False),
    Column("expires_at", BytewiseText, nullable=False),
    Column("revoked_at", BytewiseText),
)

support_access: Final = Table(
    "support_access",
    metadata,
    Column("id", Number, primary_key=True),
    Column("thread_id", ForeignKey("threads.key", ondelete="CASCADE"), nullable=False, index=True),
    Column("requested_by", ForeignKey("users.id")),
    Column("requested_at", BytewiseText),
    Column("approved_by", ForeignKey("users.id")),
    Column("approved_at", BytewiseText),
    Column("expires_at", BytewiseText),
    Column("revoked_at", BytewiseText),
)

remote_requests: Final = Table(
    "remote_requests",
    metadata,
    Column("id", BytewiseText, primary_key=True),
    Column("user_id", ForeignKey("users.id"), nullable=False),
    Column("token_id", ForeignKey("tokens.id"), nullable=False),
    Column("thread_id", ForeignKey("threads.key", ondelete="CASCADE"), index=True),
    Column("machine", BytewiseText, nullable=False),
    Column("created_at", BytewiseText, nullable=False),
    Column("expires_at", BytewiseText, nullable=False),
    # `waiting`, `taken`, `done`, `refused`, `withdrawn`; what waits and is too late has expired.
    Column("state", BytewiseText, nullable=False),
    # Why it was refused; of a start that is done, the thread.
    Column("why", BytewiseText, nullable=False),
    # For the machine alone; the server does not look into it.
    Column("body", BytewiseText, nullable=False),
    Index(None, "user_id", "machine", "state"),
)

audit: Final = Table(
    "audit",
    metadata,
    Column("id", Number, primary_key=True),
    Column("at", BytewiseText, nullable=False),
    Column("actor_id", ForeignKey("users.id")),
    Column("action", BytewiseText, nullable=False),
    # No foreign key: what was done to a thread outlives it.
    Column("thread_id", BytewiseText, index=True),
    Column("detail", BytewiseText, nullable=False),
)

thread_reads: Final = Table(
    "thread_reads",
    metadata,
    Column("id", Number, primary_key=True),
    # The key of the thread; no foreign key: that it was read outlives it.
    Column("thread_id", BytewiseText, nullable=False),
    # Who has read; 0 for nobody in particular.
    Column("user_id", Number, nullable=False, index=True),
    # The link by which it was read; 0 for none.
    Column("share_id", Number, nullable=False),
    # The hour, as the beginning of a time: `2026-11-21T08`.
    Column("hour", BytewiseText, nullable=False),
    Column("first_at", BytewiseText, nullable=False),
    # The last time that something new stood in this row; not every read after that.
    Column("last_at", BytewiseText, nullable=False),
    # By which ways and from which addresses, between spaces.
    Column("ways", BytewiseText, nullable=False),
    Column("addresses", BytewiseText, nullable=False),
    Index(None, "thread_id", "hour", "user_id", "share_id", unique=True),
)

legal_holds: Final = Table(
    "legal_holds",
    metadata,
    Column("id", Number, primary_key=True),
    # One of the three is held: a thread by its key, or all threads of a user or an organization.
    Column("thread_id", BytewiseText),
    Column("user_id", ForeignKey("users.id")),
    Column("organization_id", ForeignKey("organizations.id")),
    Column("reason", BytewiseText, nullable=False),
    Column("placed_at", BytewiseText, nullable=False),
    # NULL for who works on the database itself.
    Column("placed_by", ForeignKey("users.id")),
    Column("lifted_at", BytewiseText),
    Column("lifted_by", ForeignKey("users.id")),
)

retention_rules: Final = Table(
    "retention_rules",
    metadata,
    # Of which organization; 0 for the whole server.
    Column("organization_id", Number, primary_key=True, autoincrement=False),
    # Days; 0 for never, NULL for what holds for the whole server.
    Column("idle_days", Number),
    Column("trash_days", Number),
    Column("changed_at", BytewiseText, nullable=False),
)

counters: Final = Table(
    "counters",
    metadata,
    # On PostgreSQL one row, `change`. Taking its next value locks it until the commit. SQLite,
    # where nobody else writes meanwhile, takes the number that follows the largest, and has none.
    Column("name", BytewiseText, primary_key=True),
    Column("value", Number, nullable=False),
)

IS_REWRITTEN: Final = text("kind = 'rewritten'")
"""As the index has it: with the value in another place SQLite does not see that it fits."""

changes: Final = Table(
    "changes",
    metadata,
    # Taking the next one keeps others from it until the commit, so that changes become visible in
    # the order of their numbers: who has seen number n has seen all before it.
    Column("change", Number, primary_key=True, autoincrement=False),
    Column("thread_id", BytewiseText, nullable=False),
    Column("version", Number, nullable=False),
    Column("hash", BytewiseText, nullable=False),
    # `records`, `document`, `deleted`, `restored`, `visibility`, `purged`, `rewritten`, and
    # `request`: something is asked of a machine that has the thread.
    Column("kind", BytewiseText, nullable=False),
    Column("at", BytewiseText, nullable=False),
    Index(None, "thread_id", sqlite_where=IS_REWRITTEN, postgresql_where=IS_REWRITTEN),
)

_IS_AHEAD: Final = text("ahead_at IS NOT NULL AND problem = ''")

writers: Final = Table(
    "writers",
    metadata,
    # A process that holds threads: one lease for all of them, however many they are.
    Column("id", Number, primary_key=True),
    # The machine and the process, for people.
    Column("name", BytewiseText, nullable=False),
    # Milliseconds since 1970 by the clock of the database; no other clock is asked.
    Column("lease_until", Number, nullable=False),
)

journals: Final = Table(
    "journals",
    metadata,
    Column("owner_id", ForeignKey("users.id"), primary_key=True),
    Column("id", BytewiseText, primary_key=True),
    # That of `threads`; NULL where the bytes are no records (`journal_pieces` has them).
    Column("thread_key", BytewiseText),
    # The program's own name for it, as UTF-8: PostgreSQL takes no NUL in a text.
    Column("key", LargeBinary),
    # Counts those who have held it: who was given it earlier appends nothing any more.
    Column("epoch", Number, nullable=False),
    # NULL: nobody holds it. One whose row is gone, or whose lease is over, holds it no longer.
    Column("writer_id", Number),
    Column("seq", Number, nullable=False),
    Column("size", Number, nullable=False),
    # Since when it has records that the thread's row, its commits and the search know nothing of.
    Column("ahead_at", Number),
    # Why these cannot be taken in; empty if nobody has failed.
    Column("problem", BytewiseText, nullable=False, server_default=""),
    Index(None, "owner_id", "key", unique=True),
    Index(None, "ahead_at", sqlite_where=_IS_AHEAD, postgresql_where=_IS_AHEAD),
)

journal_pieces: Final = Table(
    "journal_pieces",
    metadata,
    Column("owner_id", Number, primary_key=True, autoincrement=False),
    Column("id", BytewiseText, primary_key=True),
    Column("start", Number, primary_key=True, autoincrement=False),
    Column("body", LargeBinary, nullable=False),
)

journal_blobs: Final = Table(
    "journal_blobs",
    metadata,
    # Large outputs as workers keep them, before a record names them; `blobs` gets them with it.
    Column("owner_id", Number, primary_key=True, autoincrement=False),
    Column("sha256", BytewiseText, primary_key=True),
    # The last time that a worker had it kept.
    Column("kept_at", Number, nullable=False),
    Column("body", LargeBinary, nullable=False),
)
