"""Taking in threads of the server that are not here, each after what it goes on from."""

from __future__ import annotations

from msgspec.structs import replace

from treadle.api.marks import Mark
from treadle.errors import (
    RemoteConflictError,
    RemoteRefusedError,
    UnknownThreadError,
)
from treadle.store.reading import header_of
from treadle.sync.conflicts import settle_place
from treadle.sync.kit import Kit, Told
from treadle.sync.outputs import fetch_outputs
from treadle.thread.codec import UnknownEntryError
from treadle.thread.ids import is_thread_id
from treadle.thread.record import Condition, scan


def take_in(kit: Kit, told: Told, thread_id: str, above: frozenset[str] = frozenset()) -> list[str]:
    """Take in a thread of the server, and what it goes on from, if that is not here.

    Nothing that was allowed in it counts here, as with every thread that was made elsewhere.

    Args:
        kit: the parts.
        told: what is reported.
        thread_id: the thread.
        above: the threads that lead here.

    Returns:
        The threads that were taken in.

    Raises:
        RemoteRefusedError: the server will not give it, or gives no journal of it.
        RemoteUnavailableError: it was not taken in; what it goes on from may have been.
        StoreError: as `LocalStore.adopt`.
        UsageError: the same.
    """
    try:
        data = b"".join(kit.remote.records(thread_id, Mark()))
    except RemoteConflictError as error:
        raise RemoteRefusedError(error.message, code=error.code, status=error.status) from error
    found = scan(data)
    if found.condition is not Condition.CLEAN or not found.records:
        raise _no_journal(thread_id, found.reason or "it holds no record")
    try:
        header = header_of(found.records[0])
    except UnknownEntryError as error:
        raise _no_journal(thread_id, error.message) from error
    if header.thread != thread_id:
        raise _no_journal(thread_id, "it is another thread's")
    taken: list[str] = []
    base = None if header.base is None else header.base.thread
    if base is not None and base not in above and is_thread_id(base) and not _is_here(kit, base):
        taken += take_in(kit, told, base, above | {thread_id})
    for note in fetch_outputs(kit, thread_id, found.records):
        told.add("notes", note)
    kit.store.adopt(data, is_mine=True)
    taken.append(thread_id)
    settle_place(kit, thread_id)
    last = found.head
    cursor = replace(kit.cursors.new(), seq=last.seq, hash=last.hash, size=last.size)
    kit.cursors.put(thread_id, cursor)
    return taken


def _is_here(kit: Kit, thread_id: str) -> bool:
    try:
        kit.store.folders.find(thread_id)
    except UnknownThreadError:
        return False
    return True


def _no_journal(thread_id: str, why: str) -> RemoteRefusedError:
    return RemoteRefusedError(
        f"what the server has of thread {thread_id} is no intact journal: {why}",
        hint="nothing was taken in",
    )
