"""An event loop whose clock jumps: waiting costs nothing, and waiting for ever is an error."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Any, cast


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


def skip(seconds: float) -> None:
    """It is so much later at once, for the running loop: one with the clock of the machine.

    Who has kept `loop.time` since before the first of these is not told.
    """
    loop: Any = asyncio.get_running_loop()
    if not hasattr(loop, "ahead_s"):
        loop.ahead_s = 0.0
        loop.time = lambda: time.monotonic() + loop.ahead_s
    loop.ahead_s += seconds


async def use_up(limit_s: float) -> None:
    """A limit of so many seconds has begun, or is just about to: now it is over.

    So a test says when the time of a real process is over: when it has seen it do what it was to
    do, and however long that took.
    """
    loop = cast("JumpingLoop", asyncio.get_running_loop())
    begun_s = limit_s / 2
    while not any(  # noqa: ASYNC110  nobody tells of a timer
        timer.when() - loop.time() > begun_s for timer in loop._scheduled if not timer.cancelled()
    ):
        await asyncio.sleep(0)
    skip(limit_s)


async def tick(count: int = 1) -> None:
    """Let everything that is ready run, `count` times."""
    for _ in range(count):
        await asyncio.sleep(0)
