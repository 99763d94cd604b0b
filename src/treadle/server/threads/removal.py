"""What takes something away for good: a scrubbed chain in place of the old one, and a purge.

Forks keep the records that are theirs. What a scrub has taken out of a thread goes with it out of
what is made of them; a purge leaves them what they need to stand by themselves.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, Row, Table, delete, func, select, update

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import SEQ_MAX, Mark
from treadle.api.types import ThreadHead
from treadle.server import search
from treadle.server.accounts import access, audit, share_links, support
from treadle.server.context import Context, Verb
from treadle.server.data.database import request_log_truncation
from treadle.server.data.fold_cache import (
    FOLD_CACHE,
    decode_record,
    has_mark,
    make_initial_fold,
    read_lines,
)
from treadle.server.data.schema import (
    blobs,
    documents,
    records,
    remote_requests,
    shares,
    support_access,
    thread_commits,
    threads,
    webhook_deliveries,
)
from treadle.server.refusals import Refusal
from treadle.server.threads.change_feed import make_head, publish_change
from treadle.server.threads.columns import PURGED_COLUMNS
from treadle.server.threads.forks import find_forks, rebuild_fork
from treadle.server.threads.journal_holds import remove_journal, take_from_workers
from treadle.server.threads.legal_holds import check_not_held
from treadle.server.threads.push import (
    RECORDS_KIND,
    FoldBeforePush,
    apply_records,
    check_header,
    check_thread_id,
    make_conflict_refusal,
    make_thread_values,
    store_initial_snapshot,
    store_records,
)
from treadle.server.threads.push_validation import read_batch
from treadle.server.threads.usage_counts import add_usage, count_usage
from treadle.thread.facts import Scrubbed
from treadle.thread.output_references import list_output_references
from treadle.thread.usage import find_asked_model

_TEXT_TABLES: Final = (records, documents, thread_commits, remote_requests)
"""Where what was said stands, besides the row and the search."""


def replace_records(context: Context, thread_id: str, base: Mark, body: bytes) -> ThreadHead:
    """Put a whole new chain in place of a thread's: what a scrub has made of it.

    The old records leave the database, with what was made of them and the large outputs that the
    new ones do not name. Asking again is safe.

    Args:
        context: a transaction that writes, of the owner.
        thread_id: the thread.
        base: where the caller knows it to be.
        body: all lines of the new journal; one of them says that it was scrubbed.

    Raises:
        Refusal: as `push`; the journal says nothing of a scrub; a legal hold stands.
    """
    check_thread_id(thread_id)
    row = access.find_thread(context, thread_id, Verb.PUSH, for_update=True)
    batch = read_batch(Mark(), body)
    stands_at = Mark(row.version, row.hash)
    if row.kind != RECORDS_KIND or row.purged_at is not None:
        raise make_conflict_refusal(Mark() if row.purged_at is not None else stands_at, base)
    if stands_at != base:
        if batch.mark.seq <= row.version and has_mark(context.db, row.key, batch.mark):
            return make_head(row)
        raise make_conflict_refusal(stands_at, base)
    check_not_held(context, row)
    if row.has_journal:
        take_from_workers(context, row, batch.mark.seq)
    header, below = check_header(context, row.id, batch)
    folded = make_initial_fold(context.db, row.key, header, below)
    asked, entries = find_asked_model(folded.fold), apply_records(folded, batch)
    # An old word lets nobody in again: it was ended, or is over.
    before = FoldBeforePush(folded.fold)
    if not any(isinstance(entry, Scrubbed) for entry in entries):
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            "the new records do not say that anything was scrubbed",
            hint="what is here is replaced by `treadle scrub` only",
        )
    values = {**make_thread_values(context, folded, row), "is_usage_counted": True}
    is_there = (threads.c.key == row.key, threads.c.hash == row.hash)
    changed = context.db.execute(update(threads).where(*is_there).values(**values))
    if changed.rowcount != 1:
        raise make_conflict_refusal(stands_at, base)
    lines = read_lines(context.db, row.key, 0, SEQ_MAX)
    forks = find_forks(context, row)
    old = [decode_record(line) for line in lines] if forks else []
    _delete_rows(context.db, row.key, *_TEXT_TABLES)
    search.erase_texts(context.db, row.key)
    _delete_unreferenced_blobs(
        context.db, row.key, {ref.sha256 for _, ref in list_output_references(batch.records)}
    )
    store_initial_snapshot(context, row.key, header, below, batch)
    store_records(context, folded, batch, entries, before, is_new=True)
    used = count_usage(asked, batch.records, entries, context.now)
    add_usage(context.db, row.key, used, is_new=True)
    kept = select(func.coalesce(func.sum(blobs.c.size), 0)).where(blobs.c.thread_id == row.key)
    size = batch.size + int(context.db.execute(kept).scalar_one())
    context.db.execute(update(threads).where(threads.c.key == row.key).values(size=size))
    _apply_access_changes(context, row, folded.fold)
    audit.log_action(
        context, "thread_rewritten", row.key, f"version {row.version} -> {batch.mark.seq}"
    )
    request_log_truncation(context.db)
    FOLD_CACHE.remove_thread(row.key)
    others = {fork.row.key: rebuild_fork(context, fork, row, old, batch.records) for fork in forks}
    head = publish_change(context, row.key, batch.mark, "rewritten", others=others)
    FOLD_CACHE.put(folded)
    return head


def purge_thread(context: Context, thread_id: str) -> ThreadHead:
    """Remove all that was said in a thread for good. Only its id stays, as its owner's.

    Fine if it was purged already. Its owner may push it again, from the beginning.

    Raises:
        Refusal: the caller may not; there is no such thread; a legal hold stands.
    """
    row = access.find_thread(context, thread_id, Verb.PURGE, for_update=True)
    if row.purged_at is not None:
        return make_head(row)
    check_not_held(context, row)
    return purge_row(context, row)


def purge_row(context: Context, row: Row[Any], *, rewrites_words: bool = True) -> ThreadHead:
    """The same by its row; asks nobody whether that may be.

    Args:
        context: a transaction that writes.
        row: the thread's, held.
        rewrites_words: whether the words of the search are written anew, as `erase_texts` says.
    """
    if row.has_journal:
        take_from_workers(context, row, 0)
        remove_journal(context, row)
    _delete_rows(
        context.db, row.key, *_TEXT_TABLES, blobs, shares, support_access, webhook_deliveries
    )
    search.erase_texts(context.db, row.key, rewrites_words=rewrites_words)
    gone = Mark()
    context.db.execute(
        update(threads)
        .where(threads.c.key == row.key)
        .values(
            **PURGED_COLUMNS,
            kind=RECORDS_KIND,
            version=gone.seq,
            hash=gone.hash,
            deleted_at=row.deleted_at or context.now,
            purged_at=context.now,
        )
    )
    audit.log_action(context, "thread_purged", row.key, f"version {row.version}")
    request_log_truncation(context.db)
    FOLD_CACHE.remove_thread(row.key)
    return publish_change(context, row.key, gone, "purged")


def _apply_access_changes(context: Context, row: Any, fold: Any) -> None:
    """A scrub takes no decision back, unless the new records say so; it lets nobody in."""
    share_links.apply_visibility_change(context, row.key, row.visibility, fold.visibility)
    if row.is_shared_with_support and not fold.is_shared_with_support:
        support.apply_sharing_change(context, row.key, is_shared=False)


def _delete_rows(db: Connection, key: str, *tables: Table) -> None:
    for table in tables:
        db.execute(delete(table).where(table.c.thread_id == key))


def _delete_unreferenced_blobs(db: Connection, key: str, referenced: set[str]) -> None:
    """Large outputs that no record names any more: a scrub has put others in their place."""
    mine = blobs.c.thread_id == key
    kept = set(db.execute(select(blobs.c.sha256).where(mine)).scalars())
    for sha256 in kept - referenced:
        db.execute(delete(blobs).where(mine, blobs.c.sha256 == sha256))
