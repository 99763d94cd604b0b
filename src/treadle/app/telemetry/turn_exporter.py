"""Sends turns to a collector as they end: from a thread of its own, in nobody's way.

A collector that is away, slow or hostile costs a line that says so. What it did not get is in the
journal: `treadle trace ID --otlp URL` sends it at any later time, `export_trace` from any store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from treadle.app.telemetry.followed_spans import FollowedSpans
from treadle.app.telemetry.otlp_settings import OtlpSettings
from treadle.app.telemetry.thread_spans import (
    ThreadSpans,
    encode_in_bodies,
    hold_for_sending,
    list_family,
)
from treadle.errors import PrivateThreadError, StorageBusyError, TreadleError
from treadle.store.local_store import LocalStore
from treadle.store.threads import AnyThreads
from treadle.telemetry.metrics import MeasuredSpans
from treadle.telemetry.otlp_json import encode_metrics
from treadle.telemetry.spans import FinishedSpan

BUSY_S: Final = 0.1
BUSY_COUNT_MAX: Final = 50
"""Looks whether a thread is being synced at this moment, before it is left to the next turn."""


class TurnExporter:
    """Sends the turns of any threads that end while it is there.

    Args:
        settings: where they go.
        on_problem: is told, from the other thread, why the first one was not sent that was not.
    """

    def __init__(self, settings: OtlpSettings, on_problem: Callable[[str], None]) -> None:
        self._settings = settings
        self._on_problem = on_problem
        self._changed = threading.Condition()
        self._ended: dict[FollowedSpans, None] = {}
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self.problem = ""
        """What was not sent and why, for people; empty if all was."""

    def notify_turn(self, thread: FollowedSpans) -> None:
        """A turn of this thread has ended. Returns at once."""
        with self._changed:
            self._ended[thread] = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self, timeout_s: float) -> bool:
        """Send what is left, and end; whether that was done in so many seconds."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (thread := self._wait_for_turn()) is not None:
            try:
                self._export(thread)
            except PrivateThreadError:
                pass  # as it should be
            except TreadleError as error:
                self._note_problem(thread.store, error.message)
            except Exception as error:  # noqa: BLE001  no session ends for what is told of it
                self._note_problem(thread.store, f"{type(error).__name__}: {error}")
            del thread  # with all that it has folded, for which nobody may wait any more

    def _note_problem(self, store: AnyThreads, why: str) -> None:
        if not self.problem:
            is_folder = isinstance(store, LocalStore)
            way = "`treadle trace ID --otlp URL`" if is_folder else "`treadle.app.export_trace`"
            self.problem = f"telemetry was not sent: {why}; {way} sends it"
            self._on_problem(self.problem)

    def _wait_for_turn(self) -> FollowedSpans | None:
        with self._changed:
            while not self._ended:
                if self._is_closing:
                    return None
                self._changed.wait()
            thread = next(iter(self._ended))
            del self._ended[thread]
            return thread

    def _export(self, thread: FollowedSpans) -> None:
        found = ThreadSpans(thread.thread_id, thread.read_new())
        _, *children = list_family(found, thread.read_child)
        self._send(thread.store, thread.thread_id, found.spans, thread.measured)
        for child in children:
            measured = MeasuredSpans()
            measured.add(child.spans)
            self._send(thread.store, child.thread, child.spans, measured)

    def _send(
        self,
        store: AnyThreads,
        thread_id: str,
        spans: Sequence[FinishedSpan],
        measured: MeasuredSpans,
    ) -> None:
        from treadle.app.telemetry.otlp_client import send_otlp

        if not spans:
            return
        resource = self._settings.resource
        traces = encode_in_bodies(spans, resource)
        metrics = [encode_metrics(measured, resource, thread_id)]
        for count in range(BUSY_COUNT_MAX):
            try:
                with hold_for_sending(store, thread_id):
                    send_otlp(self._settings, traces, metrics)
                return
            except StorageBusyError:
                if count == BUSY_COUNT_MAX - 1:
                    raise
                threading.Event().wait(BUSY_S)
