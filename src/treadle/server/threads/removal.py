"""What takes something away for good: a scrubbed chain in place of the old one, and a purge.

Forks keep the records that are theirs. What a scrub has taken out of a thread goes with it out of
what is made of them; a purge leaves them what they need to stand by themselves.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, Table, delete, select, update

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import SEQ_MAX, Mark
from treadle.api.types import ThreadHead
from treadle.server import search
from treadle.server.accounts import access, audit, share_links, support
from treadle.server.context import Context, Verb
from treadle.server.data.database import truncates_the_log
from treadle.server.data.fold_cache import FOLDS, begun, has_mark, lines_between, record_of
from treadle.server.data.schema import (
    blobs,
    documents,
    records,
    shares,
    support_access,
    thread_commits,
    threads,
)
from treadle.server.problems import Refusal
from treadle.server.threads.columns import BLANK
from treadle.server.threads.feed import announce, head_of
from treadle.server.threads.forks import forks_of, refold
from treadle.server.threads.push import (
    RECORDS,
    FoldBeforePush,
    check_header,
    check_id,
    conflict,
    keep,
    keep_beginning,
    take_all,
    values_of,
)
from treadle.server.threads.push_validation import read_batch
from treadle.thread.facts import Scrubbed
from treadle.thread.outputs import outputs_of

_TEXTS: Final = (records, documents, thread_commits)
"""Where what was said stands, besides the row and the search."""


def replace_all(context: Context, thread_id: str, base: Mark, body: bytes) -> ThreadHead:
    """Put a whole new chain in place of a thread's: what a scrub has made of it.

    The old records leave the database, with what was made of them and the large outputs that the
    new ones do not name. Asking again is safe.

    Args:
        context: a transaction that writes, of the owner.
        thread_id: the thread.
        base: where the caller knows it to be.
        body: all lines of the new journal; one of them says that it was scrubbed.

    Raises:
        Refusal: as `push`; bad request, if the journal says nothing of a scrub.
    """
    check_id(thread_id)
    row = access.find(context, thread_id, Verb.PUSH, for_update=True)
    batch = read_batch(Mark(), body)
    stands_at = Mark(row.version, row.hash)
    if row.kind != RECORDS or row.purged_at is not None:
        raise conflict(Mark() if row.purged_at is not None else stands_at, base)
    if stands_at != base:
        if batch.mark.seq <= row.version and has_mark(context.db, row.key, batch.mark):
            return head_of(row)
        raise conflict(stands_at, base)
    header, below = check_header(context, row.id, batch)
    folded = begun(context.db, row.key, header, below)
    entries = take_all(folded, batch)
    before = FoldBeforePush(
        folded.fold
    )  # an old word lets nobody in again: it was ended, or is over
    if not any(isinstance(entry, Scrubbed) for entry in entries):
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            "the new records do not say that anything was scrubbed",
            hint="what is here is replaced by `treadle scrub` only",
        )
    changed = context.db.execute(
        update(threads)
        .where(threads.c.key == row.key, threads.c.hash == row.hash)
        .values(**values_of(context, folded, row))
    )
    if changed.rowcount != 1:
        raise conflict(stands_at, base)
    lines = lines_between(context.db, row.key, 0, SEQ_MAX)
    forks = forks_of(context, row)
    old = [record_of(line) for line in lines] if forks else []
    _remove(context.db, row.key, *_TEXTS)
    search.forget(context.db, row.key)
    _remove_blobs_but(context.db, row.key, {ref.sha256 for _, ref in outputs_of(batch.records)})
    keep_beginning(context, row.key, header, below, batch)
    keep(context, folded, batch, entries, before, is_new=True)
    _follow(context, row, folded.fold)
    audit.note(context, "thread_rewritten", row.key, f"version {row.version} -> {batch.mark.seq}")
    truncates_the_log(context.db)
    FOLDS.forget(row.key)
    for fork in forks:
        refold(context, fork, row, old, batch.records)
    head = announce(context, row.key, batch.mark, "rewritten")
    FOLDS.put(folded)
    return head


def purge(context: Context, thread_id: str) -> ThreadHead:
    """Remove all that was said in a thread for good. Only its id stays, as its owner's.

    Fine if it was purged already. Its owner may push it again, from the beginning.

    Raises:
        Refusal: the caller may not; there is no such thread.
    """
    row = access.find(context, thread_id, Verb.PURGE, for_update=True)
    if row.purged_at is not None:
        return head_of(row)
    _remove(context.db, row.key, *_TEXTS, blobs, shares, support_access)
    search.forget(context.db, row.key)
    gone = Mark()
    context.db.execute(
        update(threads)
        .where(threads.c.key == row.key)
        .values(
            **BLANK,
            kind=RECORDS,
            version=gone.seq,
            hash=gone.hash,
            deleted_at=row.deleted_at or context.now,
            purged_at=context.now,
        )
    )
    audit.note(context, "thread_purged", row.key, f"version {row.version}")
    truncates_the_log(context.db)
    FOLDS.forget(row.key)
    return announce(context, row.key, gone, "purged")


def _follow(context: Context, row: Any, fold: Any) -> None:
    """A scrub takes no decision back, unless the new records say so; it lets nobody in."""
    share_links.follow_visibility(context, row.key, row.visibility, fold.visibility)
    if row.is_shared_with_support and not fold.is_shared_with_support:
        support.follow(context, row.key, is_shared=False)


def _remove(db: Connection, key: str, *tables: Table) -> None:
    for table in tables:
        db.execute(delete(table).where(table.c.thread_id == key))


def _remove_blobs_but(db: Connection, key: str, named: set[str]) -> None:
    """Large outputs that no record names any more: a scrub has put others in their place."""
    mine = blobs.c.thread_id == key
    kept = set(db.execute(select(blobs.c.sha256).where(mine)).scalars())
    for sha256 in kept - named:
        db.execute(delete(blobs).where(mine, blobs.c.sha256 == sha256))
