"""The sync engine: what ships records and fetches them. Synchronous; used by one thread at a time.

It knows of no network, clock or chance but through what it is given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from treadle.api.marks import Mark
from treadle.api.types import ThreadHead
from treadle.errors import RemoteUnavailableError
from treadle.store.local_store import LocalStore
from treadle.sync.backoff import add_seconds, compute_delay_s, is_due
from treadle.sync.context import (
    OnConflict,
    Progress,
    SecretScanner,
    SyncContext,
    SyncReport,
    SyncReportBuilder,
)
from treadle.sync.cursors import Cursors
from treadle.sync.output_transfer import retry_missing_outputs
from treadle.sync.ports import Remote
from treadle.sync.remote_heads import list_changed_heads
from treadle.sync.send_queue import PendingSyncStore, SyncState
from treadle.sync.shareable_thread import open_shareable
from treadle.sync.status import StoreSyncStatus, list_known_threads, read_status
from treadle.sync.sync_round import SyncRound
from treadle.sync.thread_comparison import SyncRequest, ThreadComparer
from treadle.sync.thread_push import refuse_secrets


def _find_no_secrets(_: Iterable[bytes]) -> list[str]:
    return []


class SyncEngine:
    """Syncs the threads of a store with a server.

    Args:
        store: the threads.
        remote: the server.
        cursors: how far each thread is synced.
        pending: what waits, and what is known of the server.
        now: the clock; UTC in the form of records.
        random: a number from 0 to 1; spreads retries.
        find_secrets: what looks for secrets in what is about to leave.
        host: what people call this machine; by default its name.
        progress: is told how many of the threads in question are done.
        fetches_at_a_time: how many threads that are new here are fetched at a time; with more than
            one, several threads of this process use the store and the remote.
    """

    def __init__(
        self,
        store: LocalStore,
        remote: Remote,
        cursors: Cursors,
        pending: PendingSyncStore,
        *,
        now: Callable[[], str],
        random: Callable[[], float],
        find_secrets: SecretScanner = _find_no_secrets,
        host: str | None = None,
        progress: Progress = lambda _done, _all: None,
        fetches_at_a_time: int = 1,
    ) -> None:
        name = os.uname().nodename if host is None else host
        self._context = SyncContext(
            *(store, remote, cursors, pending, now, random, find_secrets, name, progress),
            fetches_at_a_time,
        )

    def sync(
        self,
        thread_ids: Sequence[str] | None = None,
        *,
        on_conflict: OnConflict = "merge",
        is_wanted: bool = True,
        excluded_ids: Collection[str] = (),
    ) -> SyncReport:
        """Send and fetch all that there is, or all about some threads and what they hang on.

        A server that cannot be reached is no error: the report says so, and what waits is noted.

        Args:
            thread_ids: full ids; by default all threads, here and on the server.
            on_conflict: what becomes of our branch where two machines have gone on with a thread.
            is_wanted: whether a person has asked for it: then what was held back or refused is
                tried again, and a server that could not be reached is asked at once.
            excluded_ids: threads that are left alone, with what hangs on them, unless the server
                has them already.

        Raises:
            NotLoggedInError: the server does not know this user.
            DiskError: what is to be sent cannot be noted; nothing was sent.
            StorageBusyError: the same, because of other processes.
        """
        told = SyncReportBuilder()
        if not is_wanted and self._is_too_early(told):
            return told.build_report()
        named = frozenset(thread_ids or ())
        work = SyncRound(self._context, told, SyncRequest(is_wanted, named), on_conflict)

        def run() -> None:
            found = list_changed_heads(self._context)
            if thread_ids is None:
                retry_missing_outputs(self._context)
                work.exclude_threads(one for one in excluded_ids if one not in found.heads)
                work.run(self._list_all_threads(found.heads), found.heads)
                self._context.pending.change_state(
                    lambda state: replace(
                        state,
                        change=found.change,
                        stamp=found.stamp,
                        url=self._context.cursors.url,
                        user=self._context.cursors.user,
                    )
                )
            else:
                work.run(self._list_with_dependencies(thread_ids), found.heads)

        self._run_guarded(told, run, is_full=thread_ids is None)
        return told.build_report()

    def save_and_sync(self, thread_id: str, *, on_conflict: OnConflict = "merge") -> SyncReport:
        """Send one thread, and what it hangs on, and wait for it. Raises as `sync`.

        If another machine has gone on with it, that is taken in first, unless it is open.
        """
        told = SyncReportBuilder()
        named = self._list_with_dependencies([thread_id])
        work = SyncRound(self._context, told, SyncRequest(is_wanted=True), on_conflict)
        self._run_guarded(told, lambda: work.run(named, {}))
        return told.build_report()

    def send(self, thread_id: str) -> SyncReport:
        """Send one thread, beside a session that has it open; nothing here is changed.

        Does nothing while the server is left alone because it could not be reached. Raises as
        `sync`.
        """
        told = SyncReportBuilder()
        if self._is_too_early(told):
            return told.build_report()
        named = self._list_with_dependencies([thread_id])
        work = SyncRound(self._context, told, SyncRequest(), may_write=False)
        self._run_guarded(told, lambda: work.run(named, {}))
        return told.build_report()

    def check_for_secrets(self, thread_id: str) -> None:
        """Look for secrets in all of a thread and of what it goes on from. Asks nobody.

        Raises:
            SecretFoundError: there is one.
            PrivateThreadError: it, or what it hangs on, is private.
            StoreError: it cannot be read, or is being sent at this moment.
        """
        survey = ThreadComparer(self._context.store)
        one = thread_id
        while one:
            with open_shareable(self._context.store, one) as thread:
                refuse_secrets(self._context, thread, Mark())
            one = survey.dependencies(one).base

    def status(self) -> StoreSyncStatus:
        """How this machine stands to the server. Asks nobody.

        Raises:
            DiskError: the disk refused.
        """
        kit = self._context
        return read_status(kit.store, kit.cursors, kit.pending, kit.now())

    # ---- inside --------------------------------------------------------------------------------

    def _list_all_threads(self, heads: Mapping[str, ThreadHead]) -> list[str]:
        """Every thread that is here, on the server, or was synced once."""
        return list_known_threads(self._context.store, self._context.cursors, heads)

    def _list_with_dependencies(self, thread_ids: Iterable[str]) -> list[str]:
        survey = ThreadComparer(self._context.store)
        return list(
            dict.fromkeys(one for name in thread_ids for one in survey.list_with_dependencies(name))
        )

    def _is_too_early(self, report: SyncReportBuilder) -> bool:
        state = self._context.pending.state()
        if is_due(self._context.now(), state.next_try_at):
            return False
        report.unreachable, report.next_try_at = state.last_error, state.next_try_at
        return True

    def _run_guarded(
        self, report: SyncReportBuilder, function: Callable[[], None], *, is_full: bool = False
    ) -> None:
        """Do it, and note whether the server could be reached."""
        kit = self._context
        try:
            function()
        except RemoteUnavailableError as error:
            asked_s, why = error.retry_after_s, error.message

            def failed(state: SyncState) -> SyncState:
                count = state.failures + 1
                now = kit.now()
                return replace(
                    state,
                    failures=count,
                    failed_at=now,
                    last_error=why,
                    next_try_at=add_seconds(now, compute_delay_s(count, kit.random(), asked_s)),
                )

            state = kit.pending.change_state(failed)
            report.unreachable, report.next_try_at = why, state.next_try_at
            return

        def reached(state: SyncState) -> SyncState:
            new = replace(state, failures=0, failed_at="", last_error="", next_try_at="")
            new = replace(new, url=kit.cursors.url, user=kit.cursors.user)
            if (new.url, new.user) != (state.url, state.user) and not is_full:
                new = replace(new, change=0, stamp="")
            return replace(new, synced_at=kit.now()) if is_full else new

        kit.pending.change_state(reached)
