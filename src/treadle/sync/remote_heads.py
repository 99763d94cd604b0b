"""Where the server's threads are: asked for page by page, from the last change that was seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.api.types import ThreadHead
from treadle.errors import RemoteRefusedError
from treadle.sync.context import SyncContext
from treadle.sync.ports import Remote

HEAD_COUNT_MAX: Final = 1_000_000
"""Heads in one listing; nobody has so many threads."""


class HeadListing(Struct, frozen=True):
    """The heads, the change they go up to, and its stamp.

    `is_reset` says that they are all there are: an older backup was put back on the server.
    """

    heads: dict[str, ThreadHead]
    change: int
    stamp: str
    is_reset: bool


def list_heads(remote: Remote, after: int = 0, stamp: str = "") -> HeadListing:
    """Where the threads are that have changed after a change.

    Args:
        remote: the server.
        after: the last change that was looked at.
        stamp: what it was; empty if that is not known.

    Raises:
        RemoteUnavailableError: it cannot be asked for all of them.
        RemoteRefusedError: its answers have no end.
    """
    found: dict[str, ThreadHead] = {}
    count, is_reset = 0, False
    while True:
        page = remote.heads(after, stamp)
        if page.is_reset:
            if is_reset:
                raise _make_endless_error(remote)
            is_reset, after = True, 0
            found.clear()
        count += len(page.heads)
        found.update((head.thread, head) for head in page.heads)
        if count > HEAD_COUNT_MAX or (not page.is_last and page.change <= after):
            raise _make_endless_error(remote)
        if page.is_last:
            return HeadListing(found, page.change, page.stamp, is_reset)
        if not page.heads:
            raise _make_endless_error(remote)
        after, stamp = page.change, page.stamp


def list_changed_heads(context: SyncContext) -> HeadListing:
    """Where the threads are that have changed since a sync of all of them. Raises as `list_heads`.

    What an older backup has not got is forgotten: the next push begins anew.
    """
    state = context.pending.state()
    is_known = (state.url, state.user) == (context.cursors.url, context.cursors.user)
    # Without cursors nobody knows what was looked at.
    after, stamp = (state.change, state.stamp) if is_known and context.cursors.ids() else (0, "")
    found = list_heads(context.remote, after, stamp)
    if not found.is_reset and _has_server_lost_changes(context, after, found.heads):
        found = replace(list_heads(context.remote), is_reset=True)
    if found.is_reset:
        _reset_missing_cursors(context, found.heads)
    return found


def is_purged(context: SyncContext, thread_id: str) -> bool:
    """Whether the server says that a thread was removed there for good; it may have lost it."""
    found = list_heads(context.remote).heads.get(thread_id)
    return found is not None and found.is_purged


def _has_server_lost_changes(
    context: SyncContext, after: int, heads: Mapping[str, ThreadHead]
) -> bool:
    """Whether the server took something from here, after that change, and does not list it."""
    for thread_id in context.cursors.ids():
        cursor = context.cursors.get(thread_id)
        if cursor is not None and cursor.change > after:
            head = heads.get(thread_id)
            if head is None or head.change < cursor.change:
                return True
    return False


def _reset_missing_cursors(context: SyncContext, heads: Mapping[str, ThreadHead]) -> None:
    for thread_id in context.cursors.ids():
        cursor = context.cursors.get(thread_id)
        if cursor is not None and thread_id not in heads and not cursor.is_purged:
            context.cursors.put(thread_id, context.cursors.new())


def _make_endless_error(remote: Remote) -> RemoteRefusedError:
    return RemoteRefusedError(
        f"{remote.url} does not look like a Treadle server: its list of threads has no end",
        hint="look at the address, and at what stands between; `treadle login URL` changes it",
    )
