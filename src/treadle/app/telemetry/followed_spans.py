"""The turns of threads that are at work, each told once, when it has ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from treadle.app.telemetry.thread_spans import (
    ThreadSpans,
    make_content,
    make_span_fold,
    read_thread_spans,
)
from treadle.errors import UnknownThreadError
from treadle.store.thread_follower import JournalChange, ThreadFollower
from treadle.store.threads import AnyThreads, JournalFollower
from treadle.telemetry.metrics import MeasuredSpans
from treadle.telemetry.span_fold import to_nanoseconds
from treadle.telemetry.spans import FinishedSpan


class FollowedSpans:
    """The spans of a thread, as its records come. A look costs what is new.

    The first look reads all of it: ids and sums are those of the whole thread.

    Nothing is read before the first look.

    Args:
        store: where it is.
        thread_id: the thread.
        since: what ended before this time is another process's to tell.
        environ: says whether what was said goes along.
    """

    def __init__(
        self, store: AnyThreads, thread_id: str, since: str, environ: Mapping[str, str]
    ) -> None:
        self.store = store
        self.thread_id = thread_id
        self._environ = environ
        self._since_ns = to_nanoseconds(since)
        self._told: set[str] = set()
        self._earlier: set[str] = set()
        self._follower: ThreadFollower | JournalFollower | None = None

    def _begin(self) -> ThreadFollower | JournalFollower:
        content = make_content(self._environ)
        self._spans = make_span_fold(self.store, self.thread_id, content)
        self._waiting: list[FinishedSpan] = []
        self.measured = MeasuredSpans()
        """All of it, from the thread's beginning on."""
        self._follower = self.store.follow(self.thread_id)
        return self._follower

    def read_new(self) -> list[FinishedSpan]:
        """The spans of the turns that have ended since the last look.

        Raises:
            UnknownEntryError: a newer Treadle wrote a record.
            UnknownThreadError: it is gone, or in the trash.
            StoreError: it cannot be read.
        """
        follower = self._follower or self._begin()
        for news in follower.read_new():
            if isinstance(news, JournalChange):
                return self._read_anew(news)
            self._spans.apply(news)
        finished = self._spans.take_finished()
        self.measured.add(finished)
        return self._select(finished)

    def _read_anew(self, change: JournalChange) -> list[FinishedSpan]:
        """A scrub, or a sync, has written the thread anew; what was told of it stays told."""
        if change is not JournalChange.REWRITTEN:
            raise UnknownThreadError(f"thread {self.thread_id} is {change.value}")
        self._begin()
        return self.read_new()

    def read_child(self, thread_id: str) -> ThreadSpans:
        """All spans of a sub-agent's thread.

        Raises: as `read_thread_spans`.
        """
        return read_thread_spans(self.store, thread_id, make_content(self._environ))

    @property
    def is_private(self) -> bool:
        """Whether it may not leave this machine, as far as it was read."""
        return self._spans.fold.is_private

    def _select(self, finished: Iterable[FinishedSpan]) -> list[FinishedSpan]:
        """Those of turns that are to be told; what belongs to a turn that goes on waits for it."""
        told, earlier = self._told, self._earlier
        spans = [one for one in (*self._waiting, *finished) if one.context.span_id not in told]
        for span in spans:
            if not span.parent_id:
                (earlier if span.end_ns < self._since_ns else told).add(span.context.span_id)
        self._waiting = [
            one for one in spans if one.parent_id and one.parent_id not in told | earlier
        ]
        new = [one for one in spans if one.context.span_id in told or one.parent_id in told]
        told.update(one.context.span_id for one in new)
        return new
