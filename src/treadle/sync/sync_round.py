"""One round of a sync: what is known of each thread, what follows from it, and doing that.

One thread's trouble is no other's: only a server that cannot be reached, or does not know its
caller, ends a round. What can be asked for again is safe to be asked for again, so that a round
that was stopped anywhere is finished by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from threading import Lock
from typing import Final

from msgspec.structs import replace

from treadle.api.error_codes import ErrorCode
from treadle.api.marks import Mark
from treadle.api.types import ThreadHead
from treadle.errors import (
    NotLoggedInError,
    PrivateThreadError,
    RemoteBrokenError,
    RemoteConflictError,
    RemoteRefusedError,
    RemoteUnavailableError,
    SecretFoundError,
    StorageBusyError,
    ThreadBusyError,
    TreadleError,
    UnknownThreadError,
)
from treadle.sync.context import OnConflict, SyncContext, SyncProblem, SyncReportBuilder
from treadle.sync.cursors import Cursor
from treadle.sync.failures import RoundEntries
from treadle.sync.journal_comparison import JournalRelation
from treadle.sync.operations import LocalAvailability, SyncOperation, choose_operation
from treadle.sync.read_ahead import ReadAhead
from treadle.sync.reconciliation import confirm_scrub, forget_scrub, reconcile_thread
from treadle.sync.refusals import LOST_SCRUB_TEXT, describe_removal, explain_refusal
from treadle.sync.remote_heads import is_purged
from treadle.sync.send_queue import PendingSyncEntry, SendAction, SyncConflict, add_conflict
from treadle.sync.shareable_thread import ShareableThread, open_shareable
from treadle.sync.sync_order import order_threads
from treadle.sync.thread_comparison import SyncRequest, ThreadComparer, read_journal_end
from treadle.sync.thread_fetch import FetchedThread, fetch_thread, trash_fetched_thread
from treadle.sync.thread_push import push_thread, refuse_secrets, replace_thread, resend_thread
from treadle.thread.record import Head

RECONCILE_TRIES: Final = 5
"""So often a thread is brought together with the server's within a round, while that goes on."""

BROKEN_ANSWERS_MAX: Final = 3
"""So many answers may break off in a round, each for its own thread; then it is the server."""

_SEND_ACTIONS: Final[Mapping[SyncOperation, SendAction]] = {
    SyncOperation.PUSH: "upsert",
    SyncOperation.REPLACE: "replace",
    SyncOperation.PURGE: "delete",
    SyncOperation.MERGE: "upsert",
}
_WAIT_REASON: Final = (
    "another machine has gone on with it; it is brought together when it is not open"
)


class SyncRound:
    """One round.

    Args:
        context: the parts.
        report: what is reported.
        request: how it was asked for.
        on_conflict: what becomes of our branch where both have gone on.
        may_write: whether threads here may be changed; otherwise they are only sent.
    """

    def __init__(
        self,
        context: SyncContext,
        report: SyncReportBuilder,
        request: SyncRequest,
        on_conflict: OnConflict = "merge",
        *,
        may_write: bool = True,
    ) -> None:
        self._context = context
        self._report = report
        self._request = request
        self._on_conflict = on_conflict
        self._may_write = may_write
        self._comparer = ThreadComparer(context.store, context.cursors.url)
        self._round_entries = RoundEntries(context, report)
        self._entries: dict[str, PendingSyncEntry] = {}
        self._broken_count = 0
        self._excluded_ids: frozenset[str] = frozenset()
        self._current_id = ""
        """The thread that is being worked on."""
        self._fetches: ReadAhead[list[FetchedThread]]

    def exclude_threads(self, thread_ids: Iterable[str]) -> None:
        """These are left alone in this round; what hangs on them waits."""
        self._excluded_ids = frozenset(thread_ids)
        self._round_entries.failed |= self._excluded_ids

    def run(self, thread_ids: Iterable[str], heads: Mapping[str, ThreadHead]) -> None:
        """Do what is to be done about these threads.

        Args:
            thread_ids: the threads.
            heads: where the server says that threads are, if it has just said so.

        Raises:
            RemoteUnavailableError: the server cannot be reached; what is left is noted.
            NotLoggedInError: the server does not know the caller.
            DiskError: what is to be sent cannot be noted.
        """
        self._entries = self._context.pending.entries()
        plan = self._plan_operations(
            (one for one in thread_ids if one not in self._excluded_ids), heads
        )
        busy = [one for one, what in plan.items() if what is not SyncOperation.NOTHING]
        wanted = {one: _SEND_ACTIONS[what] for one, what in plan.items() if what in _SEND_ACTIONS}
        self._round_entries.add_entries(wanted)
        for one, what in plan.items():
            if what is SyncOperation.NOTHING:
                self._round_entries.mark_done(one)
        folders = self._context.store.folders
        here = {*folders.ids(), *folders.ids(in_trash=True)}
        order = list(order_threads(plan, here, self._comparer))
        fetched = [one for one in order if plan[one] is SyncOperation.FETCH]
        take = partial(fetch_thread, self._context, dict[str, Lock]())
        self._fetches = ReadAhead(take, fetched, self._context.fetches_at_a_time)
        done = 0
        try:
            with self._fetches:
                for thread_id in order:
                    self._current_id = thread_id
                    self._run_operation(thread_id, plan[thread_id], heads.get(thread_id))
                    if plan[thread_id] is not SyncOperation.NOTHING:
                        done += 1
                        self._context.progress(done, len(busy))
            self._report_lost_scrubs(plan)
        except RemoteUnavailableError as error:
            self._round_entries.mark_failed(self._current_id, error.message)
            raise
        finally:
            self._round_entries.save_entries()

    def _plan_operations(
        self, thread_ids: Iterable[str], heads: Mapping[str, ThreadHead]
    ) -> dict[str, SyncOperation]:
        plan: dict[str, SyncOperation] = {}
        unscrubbed = self._context.pending.state().unscrubbed
        for thread_id in dict.fromkeys(thread_ids):
            cursor = self._context.cursors.get(thread_id)
            entry = self._entries.get(thread_id)
            facts = self._comparer.compare_thread(
                thread_id, cursor, heads.get(thread_id), entry, self._request
            )
            plan[thread_id] = choose_operation(facts)
            # What was refused when it was to be fetched is not asked for again by itself.
            is_refused = cursor is not None and cursor.is_refused and thread_id not in heads
            if (
                plan[thread_id] is SyncOperation.FETCH
                and is_refused
                and not self._request.is_wanted
            ):
                plan[thread_id] = SyncOperation.NOTHING
            # What was scrubbed in vain is sent on nobody's word but a person's.
            is_held = thread_id in unscrubbed and not self._request.is_wanted
            if plan[thread_id] is SyncOperation.PUSH and is_held:
                plan[thread_id] = SyncOperation.NOTHING
            if facts.here is LocalAvailability.PRIVATE:
                self._report.private_count += 1
        return plan

    # ---- one thread --------------------------------------------------------------------------

    def _run_operation(
        self, thread_id: str, operation: SyncOperation, head: ThreadHead | None
    ) -> None:
        act = self._OPERATION_METHODS.get(operation)
        if act is None:
            return
        try:
            if operation in _SEND_ACTIONS:
                self._check_dependencies_sent(thread_id)
            act(self, thread_id, head)
        except RemoteBrokenError as error:
            self._broken_count += 1
            if self._broken_count > BROKEN_ANSWERS_MAX:
                raise
            self._save_server_head(thread_id, head)
            self._round_entries.mark_waiting(thread_id, error.message)
        except (RemoteUnavailableError, NotLoggedInError):
            raise
        except PrivateThreadError:
            self._report.private_count += 1
            self._round_entries.mark_done(thread_id)
        except SecretFoundError as error:
            self._round_entries.park_thread(
                thread_id, "held", error.message, self._read_local_end(thread_id), error.found
            )
        except RemoteRefusedError as error:
            self._save_server_head(thread_id, head, is_refused=operation is SyncOperation.FETCH)
            base = self._comparer.dependencies(thread_id).base
            is_lent = bool(base) and self._context.store.adopted.find_loan(base) is not None
            why = explain_refusal(error, base, is_lent=is_lent)
            self._round_entries.park_thread(
                thread_id, "refused", why, self._read_local_end(thread_id)
            )
        except (ThreadBusyError, StorageBusyError) as error:
            self._save_server_head(thread_id, head)
            self._round_entries.mark_waiting(thread_id, error.message, is_failure=False)
        except TreadleError as error:
            self._save_server_head(thread_id, head)
            self._round_entries.mark_waiting(thread_id, error.message)
        except Exception as error:  # noqa: BLE001  a fault of ours in one thread is no other's
            self._save_server_head(thread_id, head)
            self._round_entries.mark_waiting(
                thread_id, f"a fault in Treadle: {type(error).__name__}: {error}"
            )

    def _check_dependencies_sent(self, thread_id: str) -> None:
        """What a thread hangs on goes first: without it the server cannot fold the thread."""
        for one in self._comparer.dependencies(thread_id).ids:
            if one in self._round_entries.failed:
                raise StorageBusyError(f"it is sent after {one}, which it hangs on")

    def _push(self, thread_id: str, head: ThreadHead | None = None) -> None:
        for _ in range(RECONCILE_TRIES):
            cursor = self._context.cursors.get(thread_id) or self._context.cursors.new()
            try:
                self._push_once(thread_id, cursor)
                self._report.add("sent", thread_id)
                self._round_entries.mark_done(thread_id)
                return
            except RemoteConflictError as error:
                if not error.seq and cursor.seq:
                    if not self._reset_unless_purged(thread_id):
                        return
                    continue
                seen = replace(cursor, seen_seq=error.seq, seen_hash=error.hash)
                self._context.cursors.put(thread_id, replace(seen, is_purged=False))
            except UnknownThreadError:
                pass  # the journal was replaced meanwhile
            if not self._may_write or self._context.store.find_holder(thread_id) is not None:
                raise StorageBusyError(_WAIT_REASON)
            if not self._reconcile(thread_id):
                return
        raise StorageBusyError("other machines go on with it all the time")

    def _push_once(self, thread_id: str, cursor: Cursor) -> None:
        known = Head(cursor.seq, cursor.hash, "", cursor.size) if cursor.size else Head()
        with open_shareable(self._context.store, thread_id, known) as thread:
            refuse_secrets(self._context, thread, cursor.acknowledged_mark)
            self._add_notes(push_thread(self._context, thread, cursor))

    def _replace(self, thread_id: str, head: ThreadHead | None = None) -> None:
        kit = self._context
        for _ in range(RECONCILE_TRIES):
            cursor = kit.cursors.get(thread_id) or kit.cursors.new()
            try:
                with open_shareable(kit.store, thread_id) as thread:
                    refuse_secrets(kit, thread, Mark())
                    self._add_notes(_replace_or_resend(kit, thread, cursor))
                self._report.add("replaced", thread_id)
                self._round_entries.mark_done(thread_id)
                confirm_scrub(self._context, thread_id)
                return
            except RemoteConflictError as error:
                if not error.seq and cursor.seq:
                    if self._reset_unless_purged(thread_id):
                        self._push(thread_id)
                    return
                seen = replace(cursor, seen_seq=error.seq, seen_hash=error.hash)
                kit.cursors.put(thread_id, seen)
                if not self._may_write or kit.store.find_holder(thread_id) is not None:
                    raise StorageBusyError(_WAIT_REASON) from error
                if not self._reconcile(thread_id):
                    return
        raise StorageBusyError("other machines go on with it all the time")

    def _purge(self, thread_id: str, head: ThreadHead | None = None) -> None:
        self._context.remote.purge(thread_id)
        self._context.cursors.remove(thread_id)
        forget_scrub(self._context, thread_id)
        if (private := self._comparer.find_private_dependency(thread_id)) is not None:
            self._report.add("notes", describe_removal(thread_id, private))
        self._report.add("removed", thread_id)
        self._round_entries.mark_done(thread_id)

    def _fetch(self, thread_id: str, head: ThreadHead | None = None) -> None:
        taken = self._fetches.get_result(thread_id)
        if any(one.is_trashed for one in taken):
            self._fetches.wait_for_jobs()
        for one in taken:
            self._add_notes(one.notes)
            self._report.add("received", one.thread_id)
        for one in filter(lambda one: one.is_trashed, taken):
            trash_fetched_thread(self._context, one)

    def _pull(self, thread_id: str, head: ThreadHead | None = None) -> None:
        if not self._may_write:
            raise StorageBusyError(_WAIT_REASON)
        try:
            has_more = self._reconcile(thread_id)
        except RemoteRefusedError as error:
            if error.code != ErrorCode.NOT_FOUND.value:
                raise
            has_more = self._reset_unless_purged(thread_id)
        if has_more:
            self._push(thread_id)

    def _reset_unless_purged(self, thread_id: str) -> bool:
        """The server has nothing of what it had. Unless it was removed, all of it is sent again.

        An older backup that was put back has not got it; only its head says that it was removed.
        """
        if is_purged(self._context, thread_id):
            self._report_purged(thread_id)
            return False
        self._context.cursors.put(thread_id, self._context.cursors.new())
        return True

    def _reconcile(self, thread_id: str) -> bool:
        """Bring a thread together with the server's; whether ours has more then."""
        kit = self._context
        cursor = kit.cursors.get(thread_id) or kit.cursors.new()
        found = reconcile_thread(kit, thread_id, cursor, self._on_conflict)
        self._add_notes(found.notes)
        self._comparer = ThreadComparer(kit.store, kit.cursors.url)
        if found.received_count:
            self._report.add("received", thread_id)
        if found.conflict is not None:
            self._record_conflict(found.conflict, is_again=found.is_again)
        if found.relation is JournalRelation.SCRUBBED_HERE:
            new = replace(cursor, seen_seq=found.server.seq, seen_hash=found.server.hash)
            kit.cursors.put(thread_id, new)
            self._replace(thread_id)
            return False
        is_deleted = kit.store.load(thread_id).fold.is_trashed
        kit.cursors.put(
            thread_id,
            replace(
                kit.cursors.new(),
                seq=found.server.seq,
                hash=found.server.hash,
                size=found.size,
                is_deleted=is_deleted,
            ),
        )
        if found.has_lost_scrub:
            return False
        if found.conflict is not None and found.conflict.fork:
            self._push_fork(found.conflict.fork)
        has_more = found.relation is JournalRelation.AHEAD or (
            found.conflict is not None and not found.conflict.fork
        )
        if not has_more:
            self._round_entries.mark_done(thread_id)
        return has_more

    def _push_fork(self, fork: str) -> None:
        """What became a thread of its own is sent too; if that fails, with the next round."""
        self._round_entries.add_entries({fork: "upsert"})
        self._run_operation(fork, SyncOperation.PUSH, None)

    def _report_purged(self, thread_id: str, head: ThreadHead | None = None) -> None:
        cursor = replace(self._context.cursors.new(), is_purged=True)
        self._context.cursors.put(thread_id, cursor)
        self._round_entries.mark_done(thread_id)
        self._report.add(
            "notes",
            f"{thread_id} was removed from the server for good; it stays here, and is sent again "
            f"by `treadle sync {thread_id}` only",
        )

    def _report_unreadable(self, thread_id: str, head: ThreadHead | None = None) -> None:
        why = f"it cannot be read: `treadle verify {thread_id}` says why"
        self._report.add("waiting", SyncProblem(thread_id, why))

    def _report_waiting(self, thread_id: str, head: ThreadHead | None = None) -> None:
        self._save_server_head(thread_id, head)
        self._report.add("waiting", SyncProblem(thread_id, _WAIT_REASON))

    def _report_parked(self, thread_id: str, head: ThreadHead | None = None) -> None:
        entry = self._entries[thread_id]
        self._round_entries.failed.add(thread_id)
        problem = SyncProblem(thread_id, entry.last_error, entry.found)
        self._report.add("held" if entry.parked == "held" else "refused", problem)

    # ---- what is noted -----------------------------------------------------------------------

    def _read_local_end(self, thread_id: str) -> Head:
        try:
            path, _ = self._context.store.folders.find(thread_id)
        except UnknownThreadError:
            return Head()
        return read_journal_end(self._context.store.folders.disk, path) or Head()

    def _save_server_head(
        self, thread_id: str, head: ThreadHead | None, *, is_refused: bool = False
    ) -> None:
        """Where the server was seen to be, for the next round: it is not told again."""
        cursor = self._context.cursors.get(thread_id) or self._context.cursors.new()
        if head is None or head.is_purged:
            if is_refused:
                self._context.cursors.put(thread_id, replace(cursor, is_refused=True))
            return
        seen = replace(
            cursor,
            seen_seq=head.version,
            seen_hash=head.hash,
            is_deleted=head.is_deleted,
            is_purged=False,
            is_refused=is_refused,
        )
        self._context.cursors.put(thread_id, seen)

    def _record_conflict(self, conflict: SyncConflict, *, is_again: bool) -> None:
        state = self._context.pending.change_state(
            lambda one: add_conflict(one, conflict, is_again)
        )
        told = self._report.lists.setdefault("conflicts", [])
        told[:] = [one for one in told if not is_again or one.thread_id != conflict.thread_id]
        self._report.add("conflicts", state.conflicts[-1])

    def _report_lost_scrubs(self, thread_ids: Container[str]) -> None:
        for one in self._context.pending.state().unscrubbed:
            if one in thread_ids:
                self._report.add("held", SyncProblem(one, LOST_SCRUB_TEXT, (LOST_SCRUB_TEXT,)))

    def _add_notes(self, notes: Iterable[str]) -> None:
        for note in notes:
            self._report.add("notes", note)

    _OPERATION_METHODS: Final[
        Mapping[SyncOperation, Callable[[SyncRound, str, ThreadHead | None], None]]
    ] = {
        SyncOperation.PUSH: _push,
        SyncOperation.REPLACE: _replace,
        SyncOperation.PURGE: _purge,
        SyncOperation.FETCH: _fetch,
        SyncOperation.PULL: _pull,
        SyncOperation.MERGE: _pull,
        SyncOperation.TELL_PURGED: _report_purged,
        SyncOperation.TELL_UNREADABLE: _report_unreadable,
        SyncOperation.WAIT: _report_waiting,
        SyncOperation.PARKED: _report_parked,
    }


def _replace_or_resend(
    context: SyncContext, thread: ShareableThread, cursor: Cursor
) -> tuple[str, ...]:
    """Put a scrubbed journal in the place of the server's, in pieces if it must be."""
    try:
        return replace_thread(context, thread, cursor)
    except RemoteConflictError:
        raise
    except RemoteRefusedError as error:
        if error.code != ErrorCode.TOO_LARGE.value:
            raise
        return resend_thread(context, thread, cursor)
