"""Tells a collector of the turns of a session, if the environment names one."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from treadle.app.telemetry import named_collector
from treadle.errors import TreadleError

if TYPE_CHECKING:
    from treadle.app.notices import Notify
    from treadle.app.telemetry.followed_spans import FollowedSpans
    from treadle.app.telemetry.turn_exporter import TurnExporter
    from treadle.runtime.thread_journal import ThreadJournal
    from treadle.store.local_store import LocalStore


class SessionTelemetry:
    """Tells of the turns of one session.

    Args:
        store: where its thread is.
        notify: takes the line that a person should know.
    """

    def __init__(self, store: LocalStore, notify: Notify) -> None:
        self._store = store
        self._notify = notify
        self._exporter: TurnExporter | None = None
        self._told: FollowedSpans | None = None

    def begin(self, journal: ThreadJournal) -> None:
        """From here on turns are told. That they cannot be is said, and stops nothing."""
        try:
            exporter = named_collector.make_turn_exporter(os.environ)
        except TreadleError as error:
            self._notify(f"no telemetry: {error.message}")
            return
        if exporter is None:
            return
        from treadle.app.telemetry.followed_spans import FollowedSpans

        self._exporter = exporter
        thread = FollowedSpans(
            self._store, journal.fold.header.thread, self._store.now(), os.environ
        )

        def report_end() -> None:
            self._told = thread
            exporter.notify_turn(thread)

        journal.add_end_listener(report_end)

    async def close(self) -> None:
        """Wait a little for what is under way, and say in a line what was not sent."""
        exporter, self._exporter = self._exporter, None
        if exporter is None:
            return
        if self._told is not None:  # what was recorded behind the last turn, such as a title
            exporter.notify_turn(self._told)
        is_done = await asyncio.to_thread(exporter.close, named_collector.CLOSE_S_MAX)
        slow = "telemetry was not sent: the collector takes too long"
        if problem := exporter.problem or ("" if is_done else slow):
            self._notify(problem)
