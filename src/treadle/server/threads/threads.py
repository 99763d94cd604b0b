"""All that can be done with threads, in one place: each is one function and one transaction."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from sqlalchemy import Row, update

from treadle.api.marks import Mark
from treadle.api.types import SupportAccess, ThreadHead
from treadle.server.accounts import access, audit, support
from treadle.server.context import Context, Verb
from treadle.server.data.fold_cache import FOLD_CACHE, find_mark, has_mark, load_fold, read_lines
from treadle.server.data.schema import threads
from treadle.server.refusals import Refusal, make_not_found_refusal
from treadle.server.threads.change_feed import (
    find_newest_change,
    list_changes,
    list_heads,
    make_head,
    publish_change,
)
from treadle.server.threads.documents import (
    check_expected_version,
    put_document,
    read_document_version,
    set_document_visibility,
)
from treadle.server.threads.legal_holds import check_not_held
from treadle.server.threads.outputs import find_blob_size, get_blob, put_blob
from treadle.server.threads.push import (
    RECORDS_KIND,
    append_facts,
    make_conflict_refusal,
    push_records,
)
from treadle.server.threads.removal import purge_thread, replace_records
from treadle.thread.facts import Restored, Shared, Trashed, Visibility

__all__ = [
    "delete_thread",
    "end_support_access",
    "find_blob_size",
    "find_newest_change",
    "get_blob",
    "list_changes",
    "list_heads",
    "purge_thread",
    "push_records",
    "put_blob",
    "put_document",
    "read_document",
    "read_head",
    "read_records",
    "replace_records",
    "restore_thread",
    "set_visibility",
]

PIECE_SIZE: Final = 4 * 1024 * 1024
"""Bytes of records in one answer, if one record alone is not larger."""


def read_head(context: Context, thread_id: str) -> ThreadHead:
    """Where a thread is that the caller may read; of own ones also deleted ones.

    Raises:
        Refusal: there is no such thread.
    """
    return make_head(access.find_thread(context, thread_id, Verb.PULL))


def read_records(context: Context, thread_id: str, after: Mark | int, limit: int) -> list[bytes]:
    """Lines of a thread's journal, byte for byte, without their LF.

    Ask again with the last record there was until nothing is left: an answer is empty at the end,
    and may hold fewer than `limit` before. A thread of documents has none.

    Args:
        context: whose request it is.
        thread_id: the thread.
        after: the record before the first that is wanted; with its hash, it is looked at.
        limit: how many at most.

    Raises:
        Refusal: there is no such thread; conflict, if the record `after` is not here, or is
            another one.
    """
    row = access.find_thread(context, thread_id, Verb.PULL)
    if row.kind != RECORDS_KIND:
        return []
    is_here = not isinstance(after, Mark) or after == Mark() or has_mark(context.db, row.key, after)
    after_seq = after.seq if isinstance(after, Mark) else after
    if not is_here or after_seq > row.version:
        raise make_conflict_refusal(Mark(row.version, row.hash), after)
    if limit < 1:
        return []
    found: list[bytes] = []
    size = 0
    for line in read_lines(context.db, row.key, after_seq, row.version):
        size += len(line) + 1
        if found and size > PIECE_SIZE:
            break
        found.append(line)
        if len(found) >= limit:
            break
    return found


def read_document(
    context: Context, thread_id: str, version: int | None = None
) -> tuple[Mark, bytes]:
    """The thread document as JSON, and the mark it stands at.

    Args:
        context: whose request it is.
        thread_id: the thread.
        version: an earlier one; by default the newest.

    Raises:
        Refusal: there is no such thread, or it has no such version.
    """
    row = access.find_thread(context, thread_id, Verb.GET)
    if row.kind != RECORDS_KIND:
        found = read_document_version(context, row, version)
        if found is None:
            raise make_not_found_refusal()
        return found
    at: Mark | None = Mark(row.version, row.hash)
    if version is not None and version != row.version:
        at = find_mark(context.db, row.key, version) if 0 < version < row.version else None
    if at is None:
        raise make_not_found_refusal()
    folded = load_fold(context.db, row.key, at)
    body = msgspec.json.encode(folded.fold.document())
    FOLD_CACHE.put(folded)
    return at, body


def set_visibility(
    context: Context, thread_id: str, expected: Mark | int | None, visibility: Visibility
) -> ThreadHead:
    """Say who may see a thread; fine if it is so already.

    Args:
        context: a transaction that writes.
        thread_id: the thread.
        expected: where the caller knows it to be; `None` for wherever it is.
        visibility: who may see it.

    Raises:
        Refusal: the caller may not; conflict.
    """
    row = _find_for_update(context, thread_id, expected, Verb.SET_VISIBILITY)
    if row.visibility == visibility:
        return make_head(row)
    if row.kind != RECORDS_KIND:
        return set_document_visibility(context, row, visibility)
    return append_facts(context, row, [Shared(visibility=visibility)], "visibility")


def delete_thread(context: Context, thread_id: str, expected: Mark | int | None) -> ThreadHead:
    """Put a thread away; fine if it is already. Arguments and errors as `set_visibility`."""
    row = _find_for_update(context, thread_id, expected, Verb.DELETE)
    if row.deleted_at is not None:
        return make_head(row)
    check_not_held(context, row, removes=False)
    return put_row_away(context, row)


def put_row_away(context: Context, row: Row[Any]) -> ThreadHead:
    """Put a thread away, by its row; asks nobody whether that may be."""
    if row.kind == RECORDS_KIND:
        return append_facts(context, row, [Trashed()], "deleted")
    audit.log_action(context, "thread_deleted", row.key)
    _set_deleted(context, row.key, context.now)
    return publish_change(context, row.key, Mark(row.version, row.hash), "deleted")


def restore_thread(context: Context, thread_id: str, expected: Mark | int | None) -> ThreadHead:
    """Bring a thread back; fine if it is there. Arguments and errors as `set_visibility`."""
    row = _find_for_update(context, thread_id, expected, Verb.RESTORE)
    if row.deleted_at is None:
        return make_head(row)
    if row.kind == RECORDS_KIND:
        return append_facts(context, row, [Restored()], "restored")
    audit.log_action(context, "thread_restored", row.key)
    _set_deleted(context, row.key, None)
    return publish_change(context, row.key, Mark(row.version, row.hash), "restored")


def end_support_access(context: Context, thread_id: str) -> SupportAccess:
    """Let nobody of support in any more; a thread of records says so too, if it said otherwise.

    So no machine of the owner brings back, with what it knows, that support may read it.

    Raises:
        Refusal: the caller is not the owner.
    """
    row = access.find_thread(context, thread_id, Verb.GRANT_SUPPORT, for_update=True)
    ended = support.end_access(context, thread_id)
    if row.kind == RECORDS_KIND and _is_shared_in_records(context, row):
        append_facts(context, row, [Shared(with_support=False)], "records")
    return ended


def _is_shared_in_records(context: Context, row: Row[Any]) -> bool:
    """Whether its records let support in; access is ended also where they cannot be folded."""
    try:
        folded = load_fold(context.db, row.key, Mark(row.version, row.hash))
    except Refusal:
        return False
    FOLD_CACHE.put(folded)
    return folded.fold.is_shared_with_support


def _find_for_update(
    context: Context, thread_id: str, expected: Mark | int | None, verb: Verb
) -> Row[Any]:
    row = access.find_thread(context, thread_id, verb, for_update=True)
    check_expected_version(row, expected)
    return row


def _set_deleted(context: Context, key: str, at: str | None) -> None:
    context.db.execute(update(threads).where(threads.c.key == key).values(deleted_at=at))
