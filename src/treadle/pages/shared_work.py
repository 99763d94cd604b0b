"""Work that many wait for at the same time is done once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any


class SharedWork:
    """Work in progress, by what it is. Of one event loop."""

    def __init__(self) -> None:
        self._tasks: dict[Hashable, asyncio.Task[Any]] = {}

    async def do(self, key: Hashable, work: Callable[[], Awaitable[Any]]) -> Any:
        """The result of work that is begun, or of that which is under way.

        It goes on for the others if one who waits for it is cancelled.

        Args:
            key: which work it is.
            work: begins it.
        """
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.ensure_future(_run(work))
            task.add_done_callback(lambda done: self._end(key, done))
        return await asyncio.shield(task)

    def _end(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # those who wait are told; if nobody does any more, nobody is


async def _run(work: Callable[[], Awaitable[Any]]) -> Any:
    return await work()
