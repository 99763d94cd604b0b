"""Sending a thread beside the session that has it open. Never in the session's way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from treadle.errors import TreadleError
from treadle.sync.context import SyncReport
from treadle.sync.engine import SyncEngine

DEBOUNCE_S: Final = 0.5
"""Seconds without news after which it is sent."""

DEBOUNCE_COUNT_MAX: Final = 10
"""So many times in a row news may put it off: while turns go on, it is sent every five seconds."""

RETRY_S: Final = 15.0
"""Seconds until what could not be sent is looked at again; the engine keeps its own pace."""


class BackgroundSender:
    """Sends one thread whenever there is news of it, from a thread of its own.

    What goes wrong is kept for whoever asks; the session is told nothing. What another machine has
    done meanwhile is taken in when the session has ended.

    Args:
        make_engine: makes the engine, in that thread, when there is news for the first time.
        thread_id: the thread.
        on_end: called in that thread when it ends.
    """

    def __init__(
        self,
        make_engine: Callable[[], SyncEngine],
        thread_id: str,
        on_end: Callable[[], object] | None = None,
    ) -> None:
        self._make_engine = make_engine
        self._thread_id = thread_id
        self._on_end = on_end
        self._changed = threading.Condition()
        self._has_news = False
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self.report: SyncReport | None = None
        """What the last attempt did; `None` before the first has ended, and after a problem."""
        self.problem = ""
        """Why the last attempt failed, for people; empty if it did not."""

    def notify_change(self) -> None:
        """There is news. Returns at once, and raises nothing."""
        with self._changed:
            if self._is_closing:
                return
            self._has_news = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="sync", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self, timeout_s: float) -> bool:
        """Send what is left, and end.

        Args:
            timeout_s: seconds to wait at most; what is not sent by then waits for the next sync.

        Returns:
            Whether all was sent.
        """
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        is_over = not self._thread.is_alive() and not self._has_news
        return is_over and not self.problem and (self.report is None or self.report.is_complete)

    def _run(self) -> None:
        engine: SyncEngine | None = None
        try:
            while self._wait_for_changes():
                try:
                    engine = engine or self._make_engine()
                    self.report = engine.send(self._thread_id)
                    self.problem = ""
                except TreadleError as error:
                    self.report, self.problem = None, error.message
                except Exception as error:  # noqa: BLE001  a session does not end for its copy
                    self.report, self.problem = None, f"{type(error).__name__}: {error}"
        finally:
            if self._on_end is not None:
                self._on_end()

    def _wait_for_changes(self) -> bool:
        """Whether there is something to be sent; false when it is over."""
        with self._changed:
            is_behind = bool(self.problem) or not (self.report is None or self.report.is_complete)
            while not self._has_news and not self._is_closing:
                if not self._changed.wait(RETRY_S if is_behind else None):
                    return True
            for _ in range(DEBOUNCE_COUNT_MAX):
                if self._is_closing or not self._has_news:
                    break
                self._has_news = False
                self._changed.wait(DEBOUNCE_S)
                if not self._has_news:
                    return True
            has_news, self._has_news = self._has_news, False
            return has_news
