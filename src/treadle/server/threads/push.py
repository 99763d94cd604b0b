"""Records come in: checked, folded and kept in one transaction, if they follow what is here.

Ids are the clients' own, and stand in commits where others read them. So nobody can take one: a
push looks among the caller's own threads, and is never told that somebody else has one of this id.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import Row, bindparam, insert, or_, select, update

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.api.types import ThreadHead
from treadle.server import search
from treadle.server.accounts import access, audit, share_links, support, tokens
from treadle.server.context import Context, Verb
from treadle.server.data.fold_cache import (
    FOLDS,
    Folded,
    base_is_missing,
    begun,
    find_base,
    fold_at,
    has_mark,
    header_of,
    keep_snapshot,
)
from treadle.server.data.round_trips import PreliminaryQuery, execute_later, in_words, insert_later
from treadle.server.data.schema import records, threads
from treadle.server.problems import Refusal
from treadle.server.threads.columns import columns_of_fold
from treadle.server.threads.commits import insert_if_absent, keep_commits, observed, repo_of
from treadle.server.threads.feed import Kind, announce, head_of
from treadle.server.threads.push_validation import Batch, read_batch
from treadle.thread.codec import Entry, encode_entry
from treadle.thread.facts import Fact, ThreadCreated
from treadle.thread.fold import ThreadFold
from treadle.thread.ids import is_thread_id
from treadle.thread.model import GitFields
from treadle.thread.record import Head, encode_batch

RECORDS: Final = "records"
"""The kind of a thread whose truth is its chain."""

# Made once: every push executes them, and making them costs more than executing them. What is set
# by `_MOVE` is what it is executed with.
_MOVE: Final = (
    update(threads)
    .where(threads.c.key == bindparam("its_key"), threads.c.purged_at.is_(None))
    .where(threads.c.version == bindparam("its_version"))
    .where(threads.c.hash == bindparam("its_hash"))
)
_KEEP_RECORDS: Final = insert(records)
_RECORDS_SQL: Final = (
    "records (thread_id, seq, hash, at, line)",
    "(%(thread_id)s, %(seq)s, %(hash)s, %(at)s, %(line)s)",
)


@cache
def _move_sql(columns: tuple[str, ...]) -> str:
    """`_MOVE` in the words of PostgreSQL, with the places of its values."""
    return in_words(_MOVE, [*columns, "its_key", "its_version", "its_hash"])


def push(context: Context, thread_id: str, base: Mark, body: bytes) -> ThreadHead:
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
    check_id(thread_id)
    row = access.own(context, thread_id, for_update=True)
    batch = read_batch(base, body)
    if row is None or row.purged_at is not None:
        if base != Mark():
            raise conflict(Mark(), base)
        return _create(context, thread_id, row, batch)
    stands_at = Mark(row.version, row.hash)
    if row.kind != RECORDS:
        raise conflict(stands_at, base)
    if stands_at != base:
        if batch.mark.seq <= row.version and has_mark(context.db, row.key, batch.mark):
            return head_of(row)  # its answer was lost: the chain says that all of it is here
        raise conflict(stands_at, base)
    folded = fold_at(context.db, row.key, base)
    return append(context, row, folded, batch, RECORDS)


def questions_of_push(bearer: str | None, thread_id: str) -> tuple[PreliminaryQuery, ...]:
    """What a push over HTTP asks first: who it is, and his own thread, which is held from then on.

    Both are asked again in words of their own where they were not asked as the transaction began.
    """
    if bearer is None or not tokens.is_well_formed(bearer, tokens.TokenKind.ACCESS):
        return ()
    if not is_thread_id(thread_id):
        return ()
    hashed = tokens.digest(bearer)
    return tokens.question(hashed), access.question(hashed, thread_id)


def append_facts(context: Context, row: Row[Any], facts: Sequence[Fact], kind: Kind) -> ThreadHead:
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
    folded = fold_at(context.db, row.key, base)
    head = Head(base.seq, base.hash, folded.fold.updated_at)
    data, _ = encode_batch(head, context.now, [encode_entry(fact)[1] for fact in facts])
    return append(context, row, folded, read_batch(base, data), kind)


def append(context: Context, row: Row[Any], folded: Folded, batch: Batch, kind: Kind) -> ThreadHead:
    """Keep records that follow what is here.

    Args:
        context: a transaction that writes.
        row: the thread's, as it stands, held until the transaction ends.
        folded: the fold at the base; it is taken over.
        batch: what follows.
        kind: as watchers are told.

    Raises:
        Refusal: as `push`.
    """
    before = FoldBeforePush(folded.fold)
    entries = take_all(folded, batch)
    values = values_of(context, folded, row)
    where = {"its_key": row.key, "its_version": row.version, "its_hash": row.hash}
    if context.db.dialect.name == "postgresql":
        # The row is held since it was read: it is where it was.
        execute_later(context.db, _move_sql(tuple(values)), {**values, **where})
    else:
        changed = context.db.execute(_MOVE, {**values, **where})
        assert changed.rowcount == 1, "SQLite has one writer at a time"
    keep(context, folded, batch, entries, before)
    head = announce(context, row.key, batch.mark, kind)
    FOLDS.put(folded)
    return head


def _create(context: Context, thread_id: str, purged: Row[Any] | None, batch: Batch) -> ThreadHead:
    """Make a thread from its first records, or make one again that was purged."""
    header, below = check_header(context, thread_id, batch)
    key = new_key(context, thread_id) if purged is None else purged.key
    folded = begun(context.db, key, header, below)
    before = FoldBeforePush(folded.fold)
    entries = take_all(folded, batch)
    if purged is not None:
        before = FoldBeforePush(
            folded.fold
        )  # the purge has shown support out: an old word is none again
    values = {
        **values_of(context, folded, None),
        "kind": RECORDS,
        "change": 0,
        "purged_at": None,
        "is_shared_with_support": False,
    }
    if purged is None:
        if not insert_if_absent(context.db, threads, {**values, **owned(context, key, thread_id)}):
            raise moved(access.own(context, thread_id), Mark())
        audit.note(context, "thread_made", key, folded.fold.visibility)
    else:
        again = update(threads).where(threads.c.key == key, threads.c.purged_at.is_not(None))
        if context.db.execute(again.values(**values)).rowcount != 1:
            raise moved(access.own(context, thread_id), Mark())
    keep_beginning(context, key, header, below, batch)
    keep(context, folded, batch, entries, before, is_new=True)
    head = announce(context, key, batch.mark, RECORDS)
    FOLDS.put(folded)
    return head


def new_key(context: Context, thread_id: str) -> str:
    """What names a new thread of the caller's: its id, unless somebody else has come first."""
    query = select(threads.c.key).where(threads.c.key == thread_id)
    is_taken = context.db.execute(query).one_or_none() is not None
    return f"{thread_id}@{context.caller.user}" if is_taken else thread_id


def owned(context: Context, key: str, thread_id: str) -> dict[str, Any]:
    """The columns that say whose a new thread is."""
    return {
        "key": key,
        "id": thread_id,
        "owner_id": context.caller.user_id,
        "organization_id": context.caller.organization_id,
    }


def keep_beginning(
    context: Context, key: str, header: ThreadCreated, below: str | None, batch: Batch
) -> None:
    """Keep what a fork begins with, so that it stands by itself if its base is removed."""
    if header.base is not None:
        first = begun(context.db, key, header, below)
        first.add_record(batch.records[0], len(batch.lines[0]) + 1)
        keep_snapshot(context.db, first)


class FoldBeforePush:
    """What of a fold decides what else is to be done, before records were applied to it."""

    __slots__ = ("git", "is_shared_with_support", "is_trashed", "visibility")

    def __init__(self, fold: ThreadFold) -> None:
        self.git: GitFields = fold.git
        self.visibility = fold.visibility
        self.is_trashed = fold.is_trashed
        self.is_shared_with_support = fold.is_shared_with_support


def take_all(folded: Folded, batch: Batch) -> list[Entry]:
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


def values_of(context: Context, folded: Folded, row: Row[Any] | None) -> dict[str, Any]:
    """The columns of a thread's row that follow from its fold.

    Whether support is let in is not among them: it ends by itself, so `support` keeps it.
    """
    fold = folded.fold
    deleted_at = None
    if fold.is_trashed:
        deleted_at = context.now if row is None else row.deleted_at or context.now
    return {
        **columns_of_fold(fold),
        "hash": folded.mark.hash,
        "deleted_at": deleted_at,
        "repo_id": repo_of(context.db, fold.git.git_remote_url, context.now),
    }


def keep(
    context: Context,
    folded: Folded,
    batch: Batch,
    entries: Sequence[Entry],
    before: FoldBeforePush,
    *,
    is_new: bool = False,
) -> None:
    """Everything of a batch besides the thread's row."""
    db, fold, key = context.db, folded.fold, folded.key
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
        db.execute(_KEEP_RECORDS, rows)
    if folded.wants_snapshot:
        keep_snapshot(db, folded)
    if fold.git != before.git or is_new:
        times = ((record.at, entry) for record, entry in zip(batch.records, entries, strict=True))
        slug = fold.git.git_remote_url
        repo_id = repo_of(db, slug, context.now)
        keep_commits(db, key, fold.git, repo_id, observed(times), fold.updated_at)
    search.index_later(db, key, batch.records, sum(map(len, batch.lines)))
    if not is_new:
        share_links.follow_visibility(context, key, before.visibility, fold.visibility)
        if fold.is_trashed != before.is_trashed:
            said: audit.Action = "thread_deleted" if fold.is_trashed else "thread_restored"
            audit.note(context, said, key)
    if fold.is_shared_with_support != before.is_shared_with_support:
        support.follow(context, key, is_shared=fold.is_shared_with_support)


def check_header(
    context: Context, thread_id: str, batch: Batch
) -> tuple[ThreadCreated, str | None]:
    """What record 1 of a whole journal says, if the caller may have such a thread.

    Returns:
        The header, and the key of the thread that it goes on from.

    Raises:
        Refusal: it is another thread's; it goes on from a base the caller may not see.
    """
    header = header_of(batch.records[0])
    if header.thread != thread_id:
        raise Refusal(ErrorCode.BAD_REQUEST, "the records are those of another thread")
    if header.base is None:
        return header, None
    is_own = threads.c.owner_id == context.caller.user_id
    may_see = or_(is_own, access.visible(context.caller, context.now, verb=Verb.PULL))
    not_purged = threads.c.purged_at.is_(None)
    below = find_base(context.db, header.base, context.caller.user_id, may_see, not_purged)
    if below is None:
        raise base_is_missing()
    return header, below


def check_id(thread_id: str) -> None:
    """That the text can be a thread's id.

    Raises:
        Refusal: it cannot.
    """
    if not is_thread_id(thread_id):
        raise Refusal(ErrorCode.BAD_REQUEST, "that is no id of a thread")


def conflict(stands_at: Mark, base: Mark | int) -> Refusal:
    """The answer to who takes the thread to be where it is not."""
    return Refusal(
        ErrorCode.CONFLICT,
        f"the thread is at version {stands_at.seq}",
        hint="fetch what is new, merge, and try again",
        stands_at=stands_at,
        client_version=base if isinstance(base, int) else base.seq,
    )


def moved(row: Row[Any] | None, base: Mark | int) -> Refusal:
    """What is said when somebody was faster, between the look and the write."""
    return conflict(Mark() if row is None else Mark(row.version, row.hash), base)
