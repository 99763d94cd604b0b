"""Large outputs, kept whole beside their threads under the SHA-256 of their bytes."""

from __future__ import annotations

import re
from hashlib import sha256 as sha256_of
from typing import Final

from sqlalchemy import select, update

from treadle.api.error_codes import ErrorCode
from treadle.server.accounts import access, quotas
from treadle.server.context import Context, Verb
from treadle.server.data.schema import blobs, threads
from treadle.server.refusals import Refusal, make_not_found_refusal
from treadle.server.threads.commits import insert_if_absent

_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def put_blob(context: Context, thread_id: str, sha256: str, body: bytes) -> bool:
    """Keep an output beside a thread of the caller's; asking again is safe.

    Returns:
        Whether it is new.

    Raises:
        Refusal: the bytes have another name; there is no such thread, or it was purged.
    """
    _check_digest(sha256)
    row = access.find_thread(context, thread_id, Verb.PUSH, for_update=True)
    if row.purged_at is not None:
        raise make_not_found_refusal()
    if sha256_of(body).hexdigest() != sha256:
        raise Refusal(ErrorCode.BAD_REQUEST, "the bytes are not those that the name says")
    mine = (blobs.c.thread_id == row.key, blobs.c.sha256 == sha256)
    if context.db.execute(select(blobs.c.size).where(*mine)).one_or_none() is not None:
        return False
    quotas.check_quota(context, len(body))
    values = {"thread_id": row.key, "sha256": sha256, "size": len(body), "body": body}
    is_new = insert_if_absent(context.db, blobs, values)
    if is_new:
        more = update(threads).where(threads.c.key == row.key)
        context.db.execute(more.values(size=threads.c.size + len(body)))
    return is_new


def get_blob(context: Context, thread_id: str, sha256: str) -> bytes:
    """An output of a thread that the caller may read.

    Raises:
        Refusal: there is no such thread, or no such output beside it.
    """
    row = access.find_thread(context, thread_id, Verb.PULL)
    mine = (blobs.c.thread_id == row.key, blobs.c.sha256 == sha256)
    found = context.db.execute(select(blobs.c.body).where(*mine)).scalar_one_or_none()
    if found is None:
        raise make_not_found_refusal()
    return bytes(found)


def find_blob_size(context: Context, thread_id: str, sha256: str) -> int | None:
    """The size of an output in bytes; `None` if it is not there.

    Raises:
        Refusal: there is no such thread.
    """
    row = access.find_thread(context, thread_id, Verb.PULL)
    mine = (blobs.c.thread_id == row.key, blobs.c.sha256 == sha256)
    return context.db.execute(select(blobs.c.size).where(*mine)).scalar_one_or_none()


def _check_digest(sha256: str) -> None:
    if not _SHA256.fullmatch(sha256):
        raise Refusal(
            ErrorCode.BAD_REQUEST, "an output is named by the SHA-256 of its bytes in hex"
        )
