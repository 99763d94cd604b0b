"""Records come in: checked, folded and kept in one transaction, if they follow what is here.

Ids are the clients' own, and stand in commits where others read them. So nobody can take one: a
push looks among the caller's own threads, and is never told that somebody else has one of this id.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, Row, insert, or_, select, update

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.api.types import ThreadHead
from treadle.server import search
from treadle.server.accounts import access, audit, quotas, share_links, support, tokens
from treadle.server.context import Context, Verb
from treadle.server.data.fold_cache import (
    FOLD_CACHE,
    CachedFold,
    decode_header,
    find_base_key,
    find_owner,
    has_mark,
    load_fold,
    make_initial_fold,
    make_missing_base_refusal,
    store_snapshot,
)
from treadle.server.data.round_trips import (
    PreliminaryQuery,
    compile_postgresql,
    execute_later,
    insert_later,
)
from treadle.server.data.schema import records, threads
from treadle.server.refusals import Refusal
from treadle.server.threads.change_feed import ChangeKind, make_head, publish_change
from treadle.server.threads.columns import make_fold_columns
from treadle.server.threads.commits import (
    collect_observations,
    ensure_repo,
    insert_if_absent,
    update_commits,
)
from treadle.server.threads.journal_holds import note_taken_in, take_from_workers
from treadle.server.threads.push_validation import Batch, read_batch
from treadle.server.threads.usage_counts import add_usage, count_usage
from treadle.server.webhooks.webhook_events import queue_event, read_standing
from treadle.thread.codec import Entry, encode_entry
from treadle.thread.document import GitFields
from treadle.thread.facts import Fact, ThreadCreated
from treadle.thread.fold import ThreadFold
from treadle.thread.ids import is_thread_id
from treadle.thread.record import Head, encode_batch
from treadle.thread.usage import find_asked_model

RECORDS_KIND: Final = "records"
"""The kind of a thread whose truth is its chain."""

# Made once: every push executes it, and making it costs more than executing it.
_INSERT_RECORDS: Final = insert(records)
_RECORDS_SQL: Final = (
    "records (thread_id, seq, hash, at, line)",
    "(%(thread_id)s, %(seq)s, %(hash)s, %(at)s, %(line)s)",
)


@cache
def _make_insert_sql(columns: tuple[str, ...]) -> str:
    """What makes a thread's row in the words of PostgreSQL, with the places of its values."""
    return compile_postgresql(insert(threads), columns)


def push_records(context: Context, thread_id: str, base: Mark, body: bytes) -> ThreadHead:
    """Append records to a thread, or make it.

    Asking again is safe: who sends what is here already hears where the thread is.

    Args:
        context: a transaction that writes; nothing is kept if this raises.
        thread_id: the thread; a new one of the caller's if nobody has it.
        base: the last record that the caller knows to be here; `Mark()` for none.
        body: the journal's lines after the base, byte for byte; at least one.

    Returns:
        Where the thread is now.

    Raises:
        Refusal: conflict, if the thread is somewhere else; broken chain; unfoldable; it says that
            it is private; bad request; or this may not be done by the caller.
    """
    access.check_creator(context.caller)
    check_thread_id(thread_id)
    row = access.find_own_thread(context, thread_id, for_update=True)
    batch = read_batch(base, body)
    if row is None or row.purged_at is not None:
        if base != Mark():
            raise make_conflict_refusal(Mark(), base)
        return create_thread(context, thread_id, row, batch)
    stands_at = Mark(row.version, row.hash)
    if row.kind != RECORDS_KIND:
        raise make_conflict_refusal(stands_at, base)
    if stands_at != base:
        if batch.mark.seq <= row.version and has_mark(context.db, row.key, batch.mark):
            return make_head(row)  # its answer was lost: the chain says that all of it is here
        raise make_conflict_refusal(stands_at, base)
    folded = load_fold(context.db, row.key, base)
    return append_records(context, row, folded, batch, RECORDS_KIND)


def make_push_queries(bearer: str | None, thread_id: str) -> tuple[PreliminaryQuery, ...]:
    """What a push over HTTP asks first: who it is, and his own thread, which is held from then on.

    Both are asked again in words of their own where they were not asked as the transaction began.
    """
    if bearer is None or not tokens.is_well_formed(bearer, tokens.TokenKind.ACCESS):
        return ()
    if not is_thread_id(thread_id):
        return ()
    hashed = tokens.hash_token(bearer)
    return tokens.make_identity_query(hashed), access.make_own_thread_query(hashed, thread_id)


def append_facts(
    context: Context, row: Row[Any], facts: Sequence[Fact], kind: ChangeKind
) -> ThreadHead:
    """Append what the server itself says about a thread, as a writer of it would.

    Args:
        context: a transaction that writes.
        row: the thread's, found for this.
        facts: what is said.
        kind: as watchers are told.

    Raises:
        Refusal: conflict, if somebody else was faster.
    """
    base = Mark(row.version, row.hash)
    folded = load_fold(context.db, row.key, base)
    head = Head(base.seq, base.hash, folded.fold.updated_at)
    data, _ = encode_batch(head, context.now, [encode_entry(fact)[1] for fact in facts])
    return append_records(context, row, folded, read_batch(base, data), kind)


def append_records(
    context: Context,
    row: Row[Any],
    folded: CachedFold,
    batch: Batch,
    kind: ChangeKind,
    *,
    is_kept: bool = False,
) -> ThreadHead:
    """Keep records that follow what is here.

    Args:
        context: a transaction that writes.
        row: the thread's, as it stands, held until the transaction ends.
        folded: the fold at the base; it is taken over.
        batch: what follows.
        kind: as watchers are told.
        is_kept: whether a worker has put the records themselves here.

    Raises:
        Refusal: as `push`; a worker is at work on the thread.
    """
    before, asked = FoldBeforePush(folded.fold), find_asked_model(folded.fold)
    entries = apply_records(folded, batch)
    if row.has_journal and not is_kept:
        take_from_workers(context, row, batch.mark.seq)
    if is_kept:
        pass  # a worker cannot be refused what it has done
    elif kind == RECORDS_KIND and not folded.fold.is_trashed:  # to go into the trash is always free
        quotas.check_quota(context, batch.size)
    repo_id = row.repo_id if folded.fold.git == before.git else None
    values = make_thread_values(context, folded, row, repo_id=repo_id)
    values["size"] = row.size + batch.size
    store_records(context, folded, batch, entries, before, is_kept=is_kept)
    if row.is_usage_counted:  # else all of it is counted before long
        used = count_usage(asked, batch.records, entries, context.now)
        add_usage(context.db, row.key, used, is_new=False)
    if is_kept:
        note_taken_in(context, row, batch.mark.seq)
    if kind == RECORDS_KIND:
        queue_event(context, row.key, row.owner_id, before.standing, folded.fold, entries)
    # SQLite writes the pages of each index whose column is named, also for an equal value.
    news = {name: value for name, value in values.items() if getattr(row, name) != value}
    head = publish_change(context, row.key, batch.mark, kind, news)
    FOLD_CACHE.put(folded)
    return head


def create_thread(
    context: Context,
    thread_id: str,
    purged: Row[Any] | None,
    batch: Batch,
    *,
    journal_key: str | None = None,
) -> ThreadHead:
    """Make a thread from its first records, or make one again that was purged.

    Args:
        context: a transaction that writes; nothing is kept if this raises.
        thread_id: the thread.
        purged: the row of one of the caller's that had this id.
        batch: its first records.
        journal_key: what names it, if workers append to it.

    Raises:
        Refusal: as `push_records`.
    """
    header, below = check_header(context, thread_id, batch)
    if below is not None:  # what was said in it is the caller's to read from now on
        context.note_read(below, find_owner(context.db, below))
    quotas.check_quota(context, batch.size, is_new=True)
    key = journal_key or (choose_key(context, thread_id) if purged is None else purged.key)
    folded = make_initial_fold(context.db, key, header, below)
    before, asked = FoldBeforePush(folded.fold), find_asked_model(folded.fold)
    entries = apply_records(folded, batch)
    if purged is not None:
        before = FoldBeforePush(
            folded.fold
        )  # the purge has shown support out: an old word is none again
    values = {
        **make_thread_values(context, folded, None),
        "kind": RECORDS_KIND,
        "change": 0,
        "size": batch.size,
        "purged_at": None,
        "is_shared_with_support": False,
        "has_journal": journal_key is not None,
        "is_usage_counted": True,
    }
    if purged is None:
        values |= make_owner_columns(context, key, thread_id)
        if journal_key is not None:  # who has the row of the journal is alone
            execute_later(context.db, _make_insert_sql(tuple(values)), values)
        elif not insert_if_absent(context.db, threads, values):
            raise make_race_refusal(access.find_own_thread(context, thread_id), Mark())
        audit.log_action(context, "thread_made", key, folded.fold.visibility)
    else:
        again = update(threads).where(threads.c.key == key, threads.c.purged_at.is_not(None))
        if context.db.execute(again.values(**values)).rowcount != 1:
            raise make_race_refusal(access.find_own_thread(context, thread_id), Mark())
    store_initial_snapshot(context, key, header, below, batch)
    store_records(context, folded, batch, entries, before, is_new=True)
    used = count_usage(asked, batch.records, entries, context.now)
    add_usage(context.db, key, used, is_new=True)
    owner_id = context.caller.user_id
    queue_event(context, key, owner_id, before.standing, folded.fold, entries)
    head = publish_change(context, key, batch.mark, RECORDS_KIND)
    FOLD_CACHE.put(folded)
    return head


def choose_key(context: Context, thread_id: str) -> str:
    """What names a new thread of the caller's: its id, unless somebody else has come first."""
    query = select(threads.c.key).where(threads.c.key == thread_id)
    is_taken = context.db.execute(query).one_or_none() is not None
    return f"{thread_id}@{context.caller.user}" if is_taken else thread_id


def make_owner_columns(context: Context, key: str, thread_id: str) -> dict[str, Any]:
    """The columns that say whose a new thread is."""
    return {
        "key": key,
        "id": thread_id,
        "owner_id": context.caller.user_id,
        "organization_id": context.caller.organization_id,
    }


def store_initial_snapshot(
    context: Context, key: str, header: ThreadCreated, base_key: str | None, batch: Batch
) -> None:
    """Keep what a fork begins with, so that it stands by itself if its base is removed."""
    if header.base is not None:
        first = make_initial_fold(context.db, key, header, base_key)
        first.add_record(batch.records[0], len(batch.lines[0]) + 1)
        store_snapshot(context.db, first)


class FoldBeforePush:
    """What of a fold decides what else is to be done, before records were applied to it."""

    __slots__ = ("git", "is_shared_with_support", "is_trashed", "standing", "visibility")

    def __init__(self, fold: ThreadFold) -> None:
        self.git: GitFields = fold.git
        self.visibility = fold.visibility
        self.is_trashed = fold.is_trashed
        self.is_shared_with_support = fold.is_shared_with_support
        self.standing = read_standing(fold)


def apply_records(folded: CachedFold, batch: Batch) -> list[Entry]:
    """Apply all records.

    Raises:
        Refusal: unfoldable, or the thread is private with them.
    """
    entries = [
        folded.add_record(record, len(line) + 1)
        for record, line in zip(batch.records, batch.lines, strict=True)
    ]
    if folded.fold.is_private:
        raise Refusal(
            ErrorCode.REFUSED_PRIVATE,
            "this thread says that it is private; nothing of it was kept",
            hint="it should not have left its machine: look at what has sent it",
        )
    return entries


def make_thread_values(
    context: Context, folded: CachedFold, row: Row[Any] | None, *, repo_id: int | None = None
) -> dict[str, Any]:
    """The columns of a thread's row that follow from its fold.

    Whether support is let in is not among them: it ends by itself, so `support` keeps it.

    Args:
        context: a transaction that writes.
        folded: the fold.
        row: the thread's, if there is one.
        repo_id: the number of its repository, where that is known.
    """
    fold = folded.fold
    deleted_at = None
    if fold.is_trashed:
        deleted_at = context.now if row is None else row.deleted_at or context.now
    return {
        **make_fold_columns(fold),
        "hash": folded.mark.hash,
        "deleted_at": deleted_at,
        "repo_id": repo_id or ensure_repo(context.db, fold.git.git_remote_url, context.now),
    }


def store_records(
    context: Context,
    folded: CachedFold,
    batch: Batch,
    entries: Sequence[Entry],
    before: FoldBeforePush,
    *,
    is_new: bool = False,
    is_kept: bool = False,
) -> None:
    """Everything of a batch besides the thread's row; without the records if they are kept."""
    db, fold, key = context.db, folded.fold, folded.key
    if not is_kept:
        _insert_records(db, key, batch)
    if folded.is_snapshot_due:
        store_snapshot(db, folded)
    if fold.git != before.git or (is_new and fold.git.git_commits):
        times = ((record.at, entry) for record, entry in zip(batch.records, entries, strict=True))
        slug = fold.git.git_remote_url
        repo_id = ensure_repo(db, slug, context.now)
        update_commits(db, key, fold.git, repo_id, collect_observations(times), fold.updated_at)
    search.add_pending_records(db, key, batch.records, sum(map(len, batch.lines)))
    if not is_new:
        share_links.apply_visibility_change(context, key, before.visibility, fold.visibility)
        if fold.is_trashed != before.is_trashed:
            said: audit.Action = "thread_deleted" if fold.is_trashed else "thread_restored"
            audit.log_action(context, said, key)
    if fold.is_shared_with_support != before.is_shared_with_support:
        support.apply_sharing_change(context, key, is_shared=fold.is_shared_with_support)


def _insert_records(db: Connection, key: str, batch: Batch) -> None:
    rows = [
        {
            "thread_id": key,
            "seq": record.seq,
            "hash": record.hash,
            "at": record.at,
            "line": line.decode(),
        }
        for record, line in zip(batch.records, batch.lines, strict=True)
    ]
    if db.dialect.name == "postgresql":
        insert_later(db, *_RECORDS_SQL, rows)
    else:
        db.execute(_INSERT_RECORDS, rows)


def check_header(
    context: Context, thread_id: str, batch: Batch
) -> tuple[ThreadCreated, str | None]:
    """What record 1 of a whole journal says, if the caller may have such a thread.

    Returns:
        The header, and the key of the thread that it goes on from.

    Raises:
        Refusal: it is another thread's; it goes on from a base the caller may not see.
    """
    header = decode_header(batch.records[0])
    if header.thread != thread_id:
        raise Refusal(ErrorCode.BAD_REQUEST, "the records are those of another thread")
    if header.base is None:
        return header, None
    is_own = threads.c.owner_id == context.caller.user_id
    may_see = or_(
        is_own, access.make_visibility_condition(context.caller, context.now, verb=Verb.PULL)
    )
    not_purged = threads.c.purged_at.is_(None)
    below = find_base_key(context.db, header.base, context.caller.user_id, may_see, not_purged)
    if below is None:
        raise make_missing_base_refusal()
    return header, below


def check_thread_id(thread_id: str) -> None:
    """That the text can be a thread's id.

    Raises:
        Refusal: it cannot.
    """
    if not is_thread_id(thread_id):
        raise Refusal(ErrorCode.BAD_REQUEST, "that is no id of a thread")


def make_conflict_refusal(stands_at: Mark, base: Mark | int) -> Refusal:
    """The answer to who takes the thread to be where it is not."""
    return Refusal(
        ErrorCode.CONFLICT,
        f"the thread is at version {stands_at.seq}",
        hint="fetch what is new, merge, and try again",
        stands_at=stands_at,
        client_version=base if isinstance(base, int) else base.seq,
    )


def make_race_refusal(row: Row[Any] | None, base: Mark | int) -> Refusal:
    """What is said when somebody was faster, between the look and the write."""
    return make_conflict_refusal(Mark() if row is None else Mark(row.version, row.hash), base)
