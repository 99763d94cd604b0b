"""What went wrong with which thread in a round: told at once, noted when the round ends."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from treadle.sync.context import SyncContext, SyncProblem, SyncReportBuilder
from treadle.sync.send_queue import ParkReason, PendingSyncEntry, SendAction
from treadle.thread.record import Head


class RoundEntries:
    """The entries of a round. They are written before its first attempt and after its last one.

    Args:
        context: the parts.
        report: what is reported.
    """

    def __init__(self, context: SyncContext, report: SyncReportBuilder) -> None:
        self._context = context
        self._report = report
        self._entries: dict[str, PendingSyncEntry] = {}
        self._changed: dict[str, PendingSyncEntry] = {}
        self._done: set[str] = set()
        self.failed: set[str] = set()
        """The threads that are not as they should be."""

    def add_entries(self, actions: Mapping[str, SendAction]) -> None:
        """What is about to be sent, durably. Raises as `PendingSyncStore.add_entries`."""
        self._entries = self._context.pending.add_entries(actions)

    def mark_done(self, thread_id: str) -> None:
        """Nothing of a thread is left to be sent, unless something fails yet."""
        self._done.add(thread_id)

    def park_thread(
        self,
        thread_id: str,
        reason: ParkReason,
        why: str,
        end: Head,
        secret_kinds: tuple[str, ...] = (),
    ) -> None:
        """Not by itself again, before somebody asks for it or it has got further than `end`."""
        self.failed.add(thread_id)
        self._report.add(
            "held" if reason == "held" else "refused", SyncProblem(thread_id, why, secret_kinds)
        )
        self._record_failure(
            thread_id, why, parked=reason, found=secret_kinds, version=end.seq, hash=end.hash
        )

    def mark_waiting(self, thread_id: str, why: str, *, is_failure: bool = True) -> None:
        """It is tried again with the next round. That somebody else has it is no failure."""
        self.failed.add(thread_id)
        self._report.add("waiting", SyncProblem(thread_id, why))
        if is_failure:
            self.mark_failed(thread_id, why)

    def mark_failed(self, thread_id: str, why: str) -> None:
        """Note a failure, and tell nothing of it."""
        self.failed.add(thread_id)
        self._record_failure(thread_id, why, parked="")

    def save_entries(self) -> None:
        """Write what was noted, at once. Raises as `PendingSyncStore.add_entries`."""
        self._context.pending.update_entries(self._changed, self._done - self.failed)

    def _record_failure(self, thread_id: str, why: str, **changes: object) -> None:
        known = self._changed.get(thread_id) or self._entries.get(thread_id)
        if known is None:
            return
        count, at = known.retry_count + 1, self._context.now()
        self._changed[thread_id] = replace(
            known, last_error=why, failed_at=at, retry_count=count, **changes
        )
