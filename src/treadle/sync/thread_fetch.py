"""Taking in threads of the server that are not here, each after what it goes on from."""

from __future__ import annotations

from threading import Lock
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.errors import (
    DiskError,
    RemoteConflictError,
    RemoteRefusedError,
    TreadleError,
    UnknownThreadError,
)
from treadle.store.thread_reader import decode_header
from treadle.sync.context import SyncContext
from treadle.sync.cursors import Cursor
from treadle.sync.output_transfer import fetch_outputs
from treadle.sync.reconciliation import apply_trash_state
from treadle.sync.thread_comparison import ThreadComparer
from treadle.thread.codec import UnknownEntryError
from treadle.thread.facts import ThreadCreated
from treadle.thread.ids import is_thread_id
from treadle.thread.record import JournalCondition, JournalScan, scan_journal

DEPTH_MAX: Final = 1000
"""Forks of forks that are taken in at once."""

SIZE_MAX: Final = 512 * 1024 * 1024
"""Bytes of them before the last one."""


class _FetchedJournal(Struct, frozen=True):
    """A journal as the server has it; `is_mine` if it is the caller's own there."""

    data: bytes
    found: JournalScan
    header: ThreadCreated
    is_mine: bool


class FetchedThread(Struct, frozen=True):
    """A thread that was taken in: how far it is synced, and what is to be told of it.

    What is another user's there has no `cursor`: it is not synced. One that `is_trashed` is among
    the threads still, and its cursor is not kept: see `trash_fetched_thread`.
    """

    thread_id: str
    cursor: Cursor | None
    is_trashed: bool
    notes: tuple[str, ...]


def fetch_thread(
    context: SyncContext, locks: dict[str, Lock], thread_id: str
) -> list[FetchedThread]:
    """Take in a thread of the server, and what it goes on from, if that is not here.

    May be done for several threads at a time. A process that dies at any moment leaves whole
    threads: one without a cursor is brought together with the server's by the next sync, and what
    the server says of it is asked for again, because that is noted after all cursors.

    Nothing that was allowed in it counts here, as with every thread that was made elsewhere. What
    hangs on a thread that is private here is not taken in: removing it from the server would tell
    that the private one is here.

    Args:
        context: the parts.
        locks: who takes in which thread at this moment; the same for all that do so: several forks
            may go on from one thread.
        thread_id: the thread.

    Returns:
        The threads that were taken in.

    Raises:
        RemoteRefusedError: the server will not give it, gives no journal of it, or it hangs on
            what is private here; nothing was taken in.
        RemoteUnavailableError: nothing was taken in.
        StoreError: as `LocalStore.adopt`; what it goes on from may have been taken in.
        UsageError: the same.
    """
    taken: list[FetchedThread] = []
    for journal in reversed(_fetch_journals(context, thread_id)):
        one = journal.header.thread
        with locks.setdefault(one, Lock()):
            if _is_local(context, one):
                continue  # it, or what it goes on from, has come meanwhile, or was made here
            notes = fetch_outputs(context, one, journal.found.records)
            if not journal.is_mine:
                context.store.adopt(journal.data, lender=context.cursors.url)
                taken.append(FetchedThread(one, None, False, notes))
                continue
            fold = context.store.adopt(journal.data, is_mine=True)
            last = journal.found.head
            cursor = replace(context.cursors.new(), seq=last.seq, hash=last.hash, size=last.size)
            if not fold.is_trashed:
                context.cursors.put(one, cursor)
            taken.append(FetchedThread(one, cursor, fold.is_trashed, notes))
    return taken


def trash_fetched_thread(context: SyncContext, fetched: FetchedThread) -> None:
    """Move a thread to the trash, whose last word is that; then its cursor is kept.

    It takes its sub-agents' threads with it, so nobody may be taking in any thread meanwhile.
    Raises as `apply_trash_state`, and `Cursors.put`.
    """
    assert fetched.cursor is not None
    apply_trash_state(context, fetched.thread_id)
    context.cursors.put(fetched.thread_id, fetched.cursor)


def _fetch_journals(context: SyncContext, thread_id: str) -> list[_FetchedJournal]:
    """A thread, then what it goes on from, up to what is here.

    What is here is never asked for, private or not: so no id of a private thread leaves, and that
    it was not asked for says no more than that it is here.
    """
    found: list[_FetchedJournal] = []
    seen: set[str] = set()
    hangs_on: set[str] = set()
    size, wanted = 0, thread_id
    while wanted:
        if wanted in seen or len(found) >= DEPTH_MAX or size > SIZE_MAX:
            raise _make_journal_error(thread_id, "it goes on from too many others")
        seen.add(wanted)
        try:
            # The thread itself stands in the list of the caller's own.
            data, is_mine = _read_journal(context, wanted, is_mine=wanted == thread_id)
        except RemoteConflictError as error:
            raise RemoteRefusedError(error.message, code=error.code, status=error.status) from error
        except RemoteRefusedError as error:
            if wanted == thread_id or error.code != ErrorCode.NOT_FOUND.value:
                raise
            # A purge leaves forks on the server, which nobody can fold without what was purged.
            raise RemoteRefusedError(
                f"thread {thread_id} of the server goes on from {wanted}, which was removed from "
                "the server, or is another user's who shows it no more: "
                f"`treadle sync {wanted}` on a machine that has it sends it",
                code=error.code,
                status=error.status,
            ) from error
        size += len(data)
        scanned, header = parse_journal(wanted, data)
        found.append(_FetchedJournal(data, scanned, header, is_mine))
        base = "" if header.base is None else header.base.thread
        hangs_on |= {base, header.parent or ""}
        wanted = base if is_thread_id(base) and not _is_local(context, base) else ""
    survey = ThreadComparer(context.store)
    for one in filter(is_thread_id, hangs_on):
        if _is_local(context, one) and _may_be_private(survey, one):
            raise RemoteRefusedError(
                f"thread {thread_id} of the server hangs on {one}, which is private here: "
                f"`treadle private {thread_id}` on the machine that made it removes it from the "
                f"server, `treadle private {one} --off` here lets it come",
            )
    return found


def _read_journal(context: SyncContext, thread_id: str, *, is_mine: bool) -> tuple[bytes, bool]:
    """The server's bytes of a thread, and whether it is the caller's own there.

    Several users may have a thread of one id. A fork goes on from the caller's own one, if there
    is one; what was open in another user's is not the caller's to go on with.
    """
    if not is_mine:
        try:
            name = f"{thread_id}@{context.cursors.user}"
            return b"".join(context.remote.records(name, Mark())), True
        except RemoteRefusedError as error:
            if error.code != ErrorCode.NOT_FOUND.value:
                raise
    return b"".join(context.remote.records(thread_id, Mark())), is_mine


def _may_be_private(comparer: ThreadComparer, thread_id: str) -> bool:
    try:
        return comparer.is_private(thread_id)
    except DiskError:
        raise
    except TreadleError:
        return True


def parse_journal(thread_id: str, data: bytes) -> tuple[JournalScan, ThreadCreated]:
    """What a server has sent as the journal of a thread: its records, the chain verified.

    Raises:
        RemoteRefusedError: it is no intact journal of this thread.
    """
    found = scan_journal(data)
    if found.condition is not JournalCondition.CLEAN or not found.records:
        raise _make_journal_error(thread_id, found.reason or "it holds no record")
    try:
        header = decode_header(found.records[0])
    except UnknownEntryError as error:
        raise _make_journal_error(thread_id, error.message) from error
    if header.thread != thread_id:
        raise _make_journal_error(thread_id, "it is another thread's")
    return found, header


def _is_local(context: SyncContext, thread_id: str) -> bool:
    try:
        context.store.folders.find(thread_id)
    except UnknownThreadError:
        return False
    return True


def _make_journal_error(thread_id: str, why: str) -> RemoteRefusedError:
    return RemoteRefusedError(
        f"what the server has of thread {thread_id} is no intact journal: {why}",
        hint="nothing was taken in",
    )
