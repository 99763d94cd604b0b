"""Sending one thread that may leave: the last look at it, its large outputs, its records."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from treadle.api.marks import Mark
from treadle.api.types import ThreadHead
from treadle.errors import (
    MissingBlobError,
    RemoteConflictError,
    RemoteRefusedError,
    SecretFoundError,
)
from treadle.sync.context import SyncContext
from treadle.sync.cursors import Cursor
from treadle.sync.output_transfer import send_outputs
from treadle.sync.refusals import describe_resend
from treadle.sync.shareable_thread import ShareableThread
from treadle.thread.record import Head, scan_journal


def refuse_secrets(context: SyncContext, thread: ShareableThread, after: Mark) -> None:
    """Look once more for secrets in what is about to leave, with the rules of today.

    Raises:
        SecretFoundError: there is one; nothing has left.
    """

    def data() -> Iterator[bytes]:
        yield from thread.lines(after)
        for _, ref in thread.outputs(after):
            try:
                yield thread.blob(ref.sha256)
            except MissingBlobError:
                continue

    found = context.looks(data())
    if found:
        raise SecretFoundError(
            f"thread {thread.thread_id} holds what looks like a secret: {', '.join(found)}",
            hint=f"nothing of it was sent; `treadle scrub {thread.thread_id} --found` takes it out",
            found=found,
        )


def push_thread(context: SyncContext, thread: ShareableThread, cursor: Cursor) -> tuple[str, ...]:
    """Send what the server lacks, and note that it has it.

    That something may be there is noted before anything is: what is sent without an answer may
    have arrived.

    Args:
        context: the parts.
        thread: the thread.
        cursor: how far it is synced.

    Returns:
        What was missing, for people.

    Raises:
        RemoteConflictError: the server is elsewhere; what was acknowledged before is noted.
        RemoteError: the same.
        UnknownThreadError: the journal was replaced meanwhile.
    """
    acked = cursor.acknowledged_mark
    outputs = [(seq, ref.sha256) for seq, ref in thread.outputs(acked)]
    context.cursors.put(thread.thread_id, replace(cursor, is_purged=False))
    if outputs and not acked.seq:
        # A server keeps outputs with the thread that they are of: it must have that first.
        thread.through = thread.find_public_seq(max(1, outputs[0][0] - 1))
        acked = mark_of(context.remote.push(thread, acked))
        thread.through = thread.head.seq
    notes = send_outputs(context, thread, outputs)
    change = cursor.change
    while acked != thread.mark:
        answer = context.remote.push(thread, acked)
        before, acked, change = acked, mark_of(answer), answer.change
        if acked == before:
            raise RemoteRefusedError(f"the server takes no records of thread {thread.thread_id}")
        if acked.seq >= thread.mark.seq:
            break
    _save_cursor(context, thread, cursor, acked, change)
    return notes


def replace_thread(
    context: SyncContext, thread: ShareableThread, cursor: Cursor
) -> tuple[str, ...]:
    """Put the whole journal in the place of the server's; note that. Raises as `push_thread`."""
    outputs = [(seq, ref.sha256) for seq, ref in thread.outputs(Mark())]
    notes = send_outputs(context, thread, outputs)
    answer = context.remote.replace(thread, cursor.server_mark)
    _save_cursor(context, thread, cursor, mark_of(answer), answer.change)
    return notes


def resend_thread(context: SyncContext, thread: ShareableThread, cursor: Cursor) -> tuple[str, ...]:
    """Remove the server's copy for good and send ours from its beginning, in pieces.

    For a scrubbed journal that is too large for one request: what was scrubbed has to go. That
    the thread is to be sent again is noted first, so that a round which is cut in between goes on
    with that, and does not take the removal for somebody's wish. Raises as `push_thread`.
    """
    thread_id, seen = thread.thread_id, cursor.server_mark
    more = scan_journal(
        b"".join(context.remote.records(thread_id, seen)), Head(seen.seq, seen.hash)
    )
    if more.records:
        raise RemoteConflictError(
            "another machine has gone on with it", seq=more.head.seq, hash=more.head.hash
        )
    anew = replace(context.cursors.new(), is_anew=True, is_deleted=cursor.is_deleted)
    context.cursors.put(thread_id, anew)
    context.remote.purge(thread_id)
    notes = push_thread(context, thread, anew)
    return (*notes, describe_resend(thread_id))


def mark_of(head: ThreadHead) -> Mark:
    """Where a server's thread ends."""
    return Mark(head.version, head.hash)


def _save_cursor(
    context: SyncContext, thread: ShareableThread, cursor: Cursor, server: Mark, change: int
) -> None:
    """All of ours is acknowledged. The server may have more: another machine was quick."""
    head = thread.head
    new = replace(
        context.cursors.new(),
        seq=head.seq,
        hash=head.hash,
        size=head.size,
        is_deleted=cursor.is_deleted,
        change=change,
    )
    if server != thread.mark:
        new = replace(new, seen_seq=server.seq, seen_hash=server.hash)
    context.cursors.put(thread.thread_id, new)
