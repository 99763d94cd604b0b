"""An event loop whose clock jumps: waiting costs nothing, and waiting for ever is an error."""

from __future__ import annotations

import asyncio
from collections.abc import Collection


class NothingHappensError(Exception):
    """Everything waits for something that no timer and no task will bring about."""


class JumpingLoop(asyncio.SelectorEventLoop):
    """When nothing is ready, it is at once as late as the next timer says.

    So a test of a delay takes no time and sees it exactly, and a session that hangs is found out
    at once. For tests without sockets, pipes and threads only.
    """

    _ready: Collection[object]
    _scheduled: Collection[asyncio.TimerHandle]
    _stopping: bool

    def __init__(self) -> None:
        self._late = 0.0
        super().__init__()

    def time(self) -> float:
        return self._late

    def _run_once(self) -> None:
        if not self._ready and not self._stopping:
            timers = [timer.when() for timer in self._scheduled if not timer.cancelled()]
            if not timers:
                raise NothingHappensError
            self._late = max(self._late, min(timers))
        super()._run_once()  # type: ignore[misc]


async def tick(count: int = 1) -> None:
    """Let everything that is ready run, `count` times."""
    for _ in range(count):
        await asyncio.sleep(0)
