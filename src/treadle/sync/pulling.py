"""Taking in threads of the server that are not here, each after what it goes on from."""

from __future__ import annotations

from threading import Lock
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.api.codes import Code
from treadle.api.marks import Mark
from treadle.errors import (
    DiskError,
    RemoteConflictError,
    RemoteRefusedError,
    TreadleError,
    UnknownThreadError,
)
from treadle.store.thread_reader import decode_header
from treadle.sync.conflicts import settle_place
from treadle.sync.context import Kit
from treadle.sync.cursors import Cursor
from treadle.sync.outputs import fetch_outputs
from treadle.sync.survey import Survey
from treadle.thread.codec import UnknownEntryError
from treadle.thread.facts import ThreadCreated
from treadle.thread.ids import is_thread_id
from treadle.thread.record import Condition, Scan, scan

DEPTH_MAX: Final = 1000
"""Forks of forks that are taken in at once."""

SIZE_MAX: Final = 512 * 1024 * 1024
"""Bytes of them before the last one."""


class _Fetched(Struct, frozen=True):
    """A journal as the server has it."""

    data: bytes
    found: Scan
    header: ThreadCreated


class Taken(Struct, frozen=True):
    """A thread that was taken in: how far it is synced, and what is to be told of it.

    One that `is_trashed` is among the threads still, and its cursor is not kept: see `put_away`.
    """

    thread_id: str
    cursor: Cursor
    is_trashed: bool
    notes: tuple[str, ...]


def take_in(kit: Kit, locks: dict[str, Lock], thread_id: str) -> list[Taken]:
    """Take in a thread of the server, and what it goes on from, if that is not here.

    May be done for several threads at a time. A process that dies at any moment leaves whole
    threads: one without a cursor is brought together with the server's by the next sync, and what
    the server says of it is asked for again, because that is noted after all cursors.

    Nothing that was allowed in it counts here, as with every thread that was made elsewhere. What
    hangs on a thread that is private here is not taken in: removing it from the server would tell
    that the private one is here.

    Args:
        kit: the parts.
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
    taken: list[Taken] = []
    for journal in reversed(_fetched(kit, thread_id)):
        one = journal.header.thread
        with locks.setdefault(one, Lock()):
            if _is_here(kit, one):
                continue  # it, or what it goes on from, has come meanwhile, or was made here
            notes = fetch_outputs(kit, one, journal.found.records)
            fold = kit.store.adopt(journal.data, is_mine=True)
            last = journal.found.head
            cursor = replace(kit.cursors.new(), seq=last.seq, hash=last.hash, size=last.size)
            if not fold.is_trashed:
                kit.cursors.put(one, cursor)
            taken.append(Taken(one, cursor, fold.is_trashed, notes))
    return taken


def put_away(kit: Kit, taken: Taken) -> None:
    """Move a thread to the trash, whose last word is that; then its cursor is kept.

    It takes its sub-agents' threads with it, so nobody may be taking in any thread meanwhile.
    Raises as `settle_place`, and `Cursors.put`.
    """
    settle_place(kit, taken.thread_id)
    kit.cursors.put(taken.thread_id, taken.cursor)


def _fetched(kit: Kit, thread_id: str) -> list[_Fetched]:
    """A thread, then what it goes on from, up to what is here.

    What is here is never asked for, private or not: so no id of a private thread leaves, and that
    it was not asked for says no more than that it is here.
    """
    found: list[_Fetched] = []
    seen: set[str] = set()
    hangs_on: set[str] = set()
    size, wanted = 0, thread_id
    while wanted:
        if wanted in seen or len(found) >= DEPTH_MAX or size > SIZE_MAX:
            raise _no_journal(thread_id, "it goes on from too many others")
        seen.add(wanted)
        try:
            data = b"".join(kit.remote.records(wanted, Mark()))
        except RemoteConflictError as error:
            raise RemoteRefusedError(error.message, code=error.code, status=error.status) from error
        except RemoteRefusedError as error:
            if wanted == thread_id or error.code != Code.NOT_FOUND.value:
                raise
            # A purge leaves forks on the server, which nobody can fold without what was purged.
            raise RemoteRefusedError(
                f"thread {thread_id} of the server goes on from {wanted}, which was removed from "
                f"the server: `treadle sync {wanted}` on a machine that has it sends it again",
                code=error.code,
                status=error.status,
            ) from error
        size += len(data)
        scanned, header = read_journal(wanted, data)
        found.append(_Fetched(data, scanned, header))
        base = "" if header.base is None else header.base.thread
        hangs_on |= {base, header.parent or ""}
        wanted = base if is_thread_id(base) and not _is_here(kit, base) else ""
    survey = Survey(kit.store)
    for one in filter(is_thread_id, hangs_on):
        if _is_here(kit, one) and _may_be_private(survey, one):
            raise RemoteRefusedError(
                f"thread {thread_id} of the server hangs on {one}, which is private here: "
                f"`treadle private {thread_id}` on the machine that made it removes it from the "
                f"server, `treadle private {one} --off` here lets it come",
            )
    return found


def _may_be_private(survey: Survey, thread_id: str) -> bool:
    try:
        return survey.is_private(thread_id)
    except DiskError:
        raise
    except TreadleError:
        return True


def read_journal(thread_id: str, data: bytes) -> tuple[Scan, ThreadCreated]:
    """What a server has sent as the journal of a thread: its records, the chain verified.

    Raises:
        RemoteRefusedError: it is no intact journal of this thread.
    """
    found = scan(data)
    if found.condition is not Condition.CLEAN or not found.records:
        raise _no_journal(thread_id, found.reason or "it holds no record")
    try:
        header = decode_header(found.records[0])
    except UnknownEntryError as error:
        raise _no_journal(thread_id, error.message) from error
    if header.thread != thread_id:
        raise _no_journal(thread_id, "it is another thread's")
    return found, header


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
