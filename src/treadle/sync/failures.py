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
        kit: the parts.
        told: what is reported.
    """

    def __init__(self, kit: SyncContext, told: SyncReportBuilder) -> None:
        self._kit = kit
        self._told = told
        self._entries: dict[str, PendingSyncEntry] = {}
        self._changed: dict[str, PendingSyncEntry] = {}
        self._done: set[str] = set()
        self.failed: set[str] = set()
        """The threads that are not as they should be."""

    def add_entries(self, wanted: Mapping[str, SendAction]) -> None:
        """What is about to be sent; durable when this returns. Raises as `Pending.begin`."""
        self._entries = self._kit.pending.add_entries(wanted)

    def mark_done(self, thread_id: str) -> None:
        """Nothing of a thread is left to be sent, unless something fails yet."""
        self._done.add(thread_id)

    def park_thread(
        self, thread_id: str, how: ParkReason, why: str, end: Head, found: tuple[str, ...] = ()
    ) -> None:
        """Not by itself again, before somebody asks for it or it has got further than `end`."""
        self.failed.add(thread_id)
        self._told.add("held" if how == "held" else "refused", SyncProblem(thread_id, why, found))
        self._record_failure(
            thread_id, why, parked=how, found=found, version=end.seq, hash=end.hash
        )

    def mark_waiting(self, thread_id: str, why: str, *, is_failure: bool = True) -> None:
        """It is tried again with the next round. That somebody else has it is no failure."""
        self.failed.add(thread_id)
        self._told.add("waiting", SyncProblem(thread_id, why))
        if is_failure:
            self.mark_failed(thread_id, why)

    def mark_failed(self, thread_id: str, why: str) -> None:
        """Note a failure, and tell nothing of it."""
        self.failed.add(thread_id)
        self._record_failure(thread_id, why, parked="")

    def save_entries(self) -> None:
        """Write what was noted, at once. Raises as `Pending.begin`."""
        self._kit.pending.update_entries(self._changed, self._done - self.failed)

    def _record_failure(self, thread_id: str, why: str, **changes: object) -> None:
        known = self._changed.get(thread_id) or self._entries.get(thread_id)
        if known is None:
            return
        count, at = known.retry_count + 1, self._kit.now()
        self._changed[thread_id] = replace(
            known, last_error=why, failed_at=at, retry_count=count, **changes
        )
