"""What a session has in flight: a model request, calls, the hook, the timer of a retry."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from treadle.thread.codec import Event

STOP_WAIT_S_MAX: Final = 10.0
"""How long stopped work may take to end before the session goes on without it."""


class WorkGroup:
    """Tasks and one timer, ended together.

    Args:
        report: told what came of each task: its event, or the exception that escaped it: a bug,
            which must not hang the session.
    """

    def __init__(self, report: Callable[[Event | BaseException], None]) -> None:
        self._report = report
        self._tasks: set[asyncio.Task[Event]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def start(self, work: Coroutine[Any, Any, Event]) -> None:
        """Run it beside everything else."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[Event]) -> None:
        if not task.cancelled():
            what = task.exception() or task.result()
            if task in self._tasks:
                self._report(what)
        self._tasks.discard(task)

    @property
    def is_timer_armed(self) -> bool:
        """Whether the timer will fire."""
        return self._timer is not None

    def arm_timer(self, delay_s: float, fire: Callable[[], None]) -> None:
        """Call `fire` once, after a delay."""

        def fired() -> None:
            self._timer = None
            fire()

        self._timer = asyncio.get_running_loop().call_later(delay_s, fired)

    async def cancel_all(self) -> None:
        """Cancel all and wait until it has ended; what it still had to say has been said then.

        What does not end in time is given up: nobody is told what comes of it.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=STOP_WAIT_S_MAX)
        finally:
            self._tasks.clear()
