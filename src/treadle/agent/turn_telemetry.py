"""Turns of a program's agents, told to its own tracer, or to the collector of the environment."""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from treadle.errors import TreadleError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.app.telemetry.followed_spans import FollowedSpans
    from treadle.app.telemetry.turn_exporter import TurnExporter
    from treadle.runtime.engine import AgentEngine
    from treadle.runtime.session import Session
    from treadle.store.threads import AnyThreads
    from treadle.telemetry.spans import FinishedSpan


def follow_turns(opened: AgentEngine | Session, store: AnyThreads) -> None:
    """Tell of each turn when it ends. That it cannot be is logged, and fails nothing."""
    turns = _FollowedTurns(store, opened.thread_id)
    opened.driver.journal.add_end_listener(turns.report_end)


class _FollowedTurns:
    """The turns of one thread. Who has neither a tracer nor a collector imports nothing for it."""

    def __init__(self, store: AnyThreads, thread_id: str) -> None:
        self._store = store
        self._thread_id = thread_id
        self._since = store.now()
        self._thread: FollowedSpans | None = None

    def report_end(self) -> None:
        """A turn has ended."""
        try:
            tracer = _find_tracer()
            if tracer is not None:
                _tell_tracer(self._follow(), tracer)
            elif (exporter := _find_exporter()) is not None:
                exporter.notify_turn(self._follow())
        except Exception as error:  # noqa: BLE001  no turn fails for what is told of it
            _warn(f"a turn was not told: {error}")

    def _follow(self) -> FollowedSpans:
        if self._thread is None:
            from treadle.app.telemetry.followed_spans import FollowedSpans

            self._thread = FollowedSpans(self._store, self._thread_id, self._since, os.environ)
        return self._thread


def _find_tracer() -> Any | None:
    if "opentelemetry.trace" not in sys.modules:
        return None
    from treadle.app.telemetry.program_tracer import find_program_tracer

    return find_program_tracer()


def _tell_tracer(thread: FollowedSpans, tracer: Any) -> None:
    """At once, and not from another thread: the program may end, and with it its tracer."""
    from treadle.app.telemetry.program_tracer import TracerWriter

    def read_child(thread_id: str) -> Sequence[FinishedSpan]:
        try:
            return thread.read_child(thread_id).spans
        except TreadleError:
            return ()  # it is in another store, or gone

    spans = thread.read_new()
    if not thread.is_private:
        TracerWriter(tracer, read_child).write_spans(spans)


@cache
def _find_exporter() -> TurnExporter | None:
    """One for the whole program; what is wrong with the environment is said once."""
    from treadle.app.telemetry.named_collector import CLOSE_S_MAX, make_turn_exporter

    try:
        exporter = make_turn_exporter(os.environ, _warn)
    except TreadleError as error:
        _warn(f"no telemetry: {error.message}")
        return None
    if exporter is not None:
        import atexit

        atexit.register(exporter.close, CLOSE_S_MAX)
    return exporter


def _warn(text: str) -> None:
    import logging

    logging.getLogger("treadle.telemetry").warning("%s", text)
