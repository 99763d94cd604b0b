"""Threads of simple clients: whole documents, every version kept as it was sent."""

from __future__ import annotations

from hashlib import sha256
from operator import eq, gt
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from sqlalchemy import Row, delete, insert, select, update

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import SEQ_MAX, Mark
from treadle.api.types import ThreadHead
from treadle.server import search
from treadle.server.accounts import access, audit, quotas, share_links
from treadle.server.accounts.times import parse_time
from treadle.server.context import Context
from treadle.server.data.schema import documents, thread_commits, threads
from treadle.server.refusals import Refusal
from treadle.server.threads.change_feed import ChangeKind, publish_change
from treadle.server.threads.columns import make_document_columns
from treadle.server.threads.commits import ensure_repo, insert_if_absent, update_commits
from treadle.server.threads.json_validation import check_json
from treadle.server.threads.push import (
    check_thread_id,
    choose_key,
    make_conflict_refusal,
    make_owner_columns,
    make_race_refusal,
)
from treadle.thread.document import GitFields, Thread
from treadle.thread.facts import Visibility

DOCUMENT_KIND: Final = "document"
"""The kind of a thread whose truth is the newest document."""

VERSION_MAX: Final = SEQ_MAX // 2
"""The rest is for the versions that the server makes: a thread can always be made private again."""

TOKENS_MAX: Final = 2**53
"""More were never used."""

_decode: Final = msgspec.json.Decoder(Thread).decode


def put_document(
    context: Context, thread_id: str, body: bytes, expected: Mark | int | None
) -> tuple[Mark, bytes, bool]:
    """Keep a document as the newest version of a thread; asking again is safe.

    Args:
        context: a transaction that writes.
        thread_id: the thread; a new one of the caller's if nobody has it.
        body: the document as JSON, with a greater version than the one here.
        expected: the version that the caller knows to be here; `None` for a new thread.

    Returns:
        Its mark, the document as it is kept, and whether the thread is new.

    Raises:
        Refusal: bad request; it says that it is private; conflict; precondition required; the
            thread is kept as records; or this may not be done by the caller.
    """
    access.check_creator(context.caller)
    check_thread_id(thread_id)
    document, mark = _parse_document(thread_id, body)
    _check_document(document)
    row = access.find_own_thread(context, thread_id, for_update=True)
    if row is None or row.purged_at is not None:
        _create_thread(context, row, document, mark, body, expected)
        return mark, body, True
    if row.kind != DOCUMENT_KIND:
        raise Refusal(
            ErrorCode.KEPT_AS_RECORDS,
            "this thread is kept as records; a document cannot replace them",
            hint="push records, or make a new thread",
            stands_at=Mark(row.version, row.hash),
        )
    stands_at = Mark(row.version, row.hash)
    if mark == stands_at:
        return mark, body, False  # its answer was lost
    require_expected_version(row, expected)
    if document.version <= row.version:
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            f"the document says version {document.version}; the next one is greater than "
            f"{row.version}",
        )
    _replace_document(context, row, document, mark, body, "document")
    return mark, body, False


def require_expected_version(row: Row[Any], expected: Mark | int | None) -> None:
    """That the thread is where the caller takes it to be.

    Raises:
        Refusal: it is not, or the caller does not say where that is.
    """
    if expected is None:
        raise Refusal(
            ErrorCode.PRECONDITION_REQUIRED,
            "say which version this is to replace",
            hint="send its ETag, or the version, as If-Match",
        )
    check_expected_version(row, expected)


def check_expected_version(row: Row[Any], expected: Mark | int | None) -> None:
    """As `require_expected_version`, for changes that may be made whatever the version."""
    stands_at = Mark(row.version, row.hash)
    found = stands_at.seq if isinstance(expected, int) else stands_at
    if expected is not None and expected != found:
        raise make_conflict_refusal(stands_at, expected)


def read_document_version(
    context: Context, row: Row[Any], version: int | None
) -> tuple[Mark, bytes] | None:
    """A version of a thread of documents, by default the newest; `None` if it never was."""
    at = row.version if version is None else version
    query = select(documents.c.hash, documents.c.body)
    mine = (documents.c.thread_id == row.key, documents.c.version == at)
    found = context.db.execute(query.where(*mine)).one_or_none()
    return None if found is None else (Mark(at, found.hash), found.body.encode())


def set_document_visibility(context: Context, row: Row[Any], visibility: Visibility) -> ThreadHead:
    """Make the next version of a document, which says who may see it."""
    found = read_document_version(context, row, None)
    assert found is not None
    value = msgspec.json.decode(found[1])
    value["visibility"] = visibility
    value["version"] = row.version + 1
    value["updated_at"] = context.now
    body = msgspec.json.encode(value)
    document, mark = _parse_document(row.id, body)
    return _replace_document(context, row, document, mark, body, "visibility")


def _parse_document(thread_id: str, body: bytes) -> tuple[Thread, Mark]:
    """The document of a body, checked by itself."""
    check_json(body)
    try:
        document = _decode(body)
    except msgspec.ValidationError as error:
        raise Refusal(ErrorCode.BAD_REQUEST, f"that is no document of a thread: {error}") from None
    except (ArithmeticError, ValueError, RecursionError):
        raise Refusal(ErrorCode.BAD_REQUEST, "that is no document of a thread") from None
    if document.id != thread_id:
        raise Refusal(ErrorCode.BAD_REQUEST, "the document is that of another thread")
    if not 1 <= document.version <= SEQ_MAX:
        raise Refusal(ErrorCode.BAD_REQUEST, f"a version is a number from 1 to {SEQ_MAX}")
    if document.is_private:
        raise Refusal(
            ErrorCode.REFUSED_PRIVATE,
            "this document says that it is private; nothing of it was kept",
            hint="it should not have left its machine: look at what has sent it",
        )
    return document, Mark(document.version, sha256(body).hexdigest()[:32])


def _check_document(document: Thread) -> None:
    """What a document of a client must hold to besides; what the server has made does already."""
    if document.version > VERSION_MAX:
        raise Refusal(ErrorCode.BAD_REQUEST, f"a version is a number from 1 to {VERSION_MAX}")
    edges = [0]
    for start, end in document.conversation.hidden:
        edges += (start, end)
    edges.append(len(document.conversation.messages))
    if any(map(gt, edges, edges[1:])) or any(map(eq, edges[1:-1:2], edges[2:-1:2])):
        raise Refusal(
            ErrorCode.BAD_REQUEST, "the hidden spans are not those of its messages, in order"
        )
    used = document.usage
    counts = (
        *(used.input_tokens, used.output_tokens, used.unpriced_tokens, used.reasoning_tokens),
        *(used.cache_read_tokens, used.cache_write_tokens, document.conversation.tokens),
    )
    if not all(0 <= count <= TOKENS_MAX for count in counts):
        raise Refusal(ErrorCode.BAD_REQUEST, f"a number of tokens is one from 0 to {TOKENS_MAX}")


def _create_thread(
    context: Context,
    purged: Row[Any] | None,
    document: Thread,
    mark: Mark,
    body: bytes,
    expected: Mark | int | None,
) -> None:
    if expected not in (None, 0, Mark()):
        assert expected is not None
        raise make_conflict_refusal(Mark(), expected)
    quotas.check_quota(context, len(body), is_new=True)
    values = {
        **_make_values(context, document, mark),
        "kind": DOCUMENT_KIND,
        "size": len(body),
        "change": 0,
        "deleted_at": None,
        "purged_at": None,
        "is_shared_with_support": False,
    }
    key = choose_key(context, document.id) if purged is None else purged.key
    if purged is None:
        owner = make_owner_columns(context, key, document.id)
        is_made = insert_if_absent(context.db, threads, {**values, **owner})
    else:
        again = update(threads).where(threads.c.key == key, threads.c.purged_at.is_not(None))
        is_made = context.db.execute(again.values(**values)).rowcount == 1
    if not is_made:
        raise make_race_refusal(access.find_own_thread(context, document.id), expected or 0)
    audit.log_action(context, "thread_made", key, document.visibility)
    _store_document(context, key, document, mark, body, values["repo_id"])
    publish_change(context, key, mark, "document")


def _replace_document(
    context: Context, row: Row[Any], document: Thread, mark: Mark, body: bytes, kind: ChangeKind
) -> ThreadHead:
    if not document.is_trashed:
        quotas.check_quota(context, len(body))
    values = {**_make_values(context, document, mark), "size": row.size + len(body)}
    changed = context.db.execute(
        update(threads)
        .where(threads.c.key == row.key, threads.c.hash == row.hash)
        .where(threads.c.version == row.version, threads.c.purged_at.is_(None))
        .values(**values)
    )
    if changed.rowcount != 1:
        raise make_race_refusal(access.find_own_thread(context, row.id), row.version)
    share_links.apply_visibility_change(context, row.key, row.visibility, document.visibility)
    _store_document(context, row.key, document, mark, body, values["repo_id"])
    return publish_change(context, row.key, mark, kind)


def _make_values(context: Context, document: Thread, mark: Mark) -> dict[str, Any]:
    try:
        times = tuple(
            map(parse_time, (document.created_at, document.updated_at, document.last_activity_at))
        )
    except Refusal:
        raise Refusal(
            ErrorCode.BAD_REQUEST,
            "a time of the document is none",
            hint="times are like 2026-11-21T08:15:30Z",
        ) from None
    return {
        **make_document_columns(document, (times[0], times[1], times[2])),
        "hash": mark.hash,
        "repo_id": ensure_repo(context.db, document.git_remote_url, context.now),
    }


def _store_document(
    context: Context, key: str, document: Thread, mark: Mark, body: bytes, repo_id: int | None
) -> None:
    context.db.execute(
        insert(documents).values(
            thread_id=key, version=mark.seq, hash=mark.hash, body=body.decode()
        )
    )
    context.db.execute(delete(thread_commits).where(thread_commits.c.thread_id == key))
    names = GitFields.__struct_fields__
    git = GitFields(**{name: getattr(document, name) for name in names})
    known = dict.fromkeys(
        (*git.git_commits, *filter(None, (git.git_initial_commit_sha, git.git_current_commit_sha)))
    )
    git = replace(git, git_commits=tuple(known))
    update_commits(context.db, key, git, repo_id, {}, context.now)
    search.index_document(context.db, key, document)
