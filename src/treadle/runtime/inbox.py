"""Where everything that happens to a running turn arrives, in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import TypeAlias, TypeVar

from treadle.outputs import TurnOutcome
from treadle.thread.codec import Event

_T = TypeVar("_T")

InboxItem: TypeAlias = Event | BaseException
"""What happened; or why the turn cannot go on, to be raised in it."""


class StopRequest(Exception):  # noqa: N818  an order, not an error
    """Asks the running turn to end; not an event of the machine."""

    def __init__(self, outcome: TurnOutcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


class Inbox:
    """A queue with one reader, who may wait for what comes."""

    def __init__(self) -> None:
        self._items: deque[InboxItem] = deque()
        self._wake: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: InboxItem) -> None:
        """Add it and wake the reader."""
        self._items.append(item)
        self._wake_up()

    def pop(self) -> InboxItem:
        """The oldest; there must be one."""
        return self._items.popleft()

    def clear(self) -> None:
        """Forget what nobody has taken."""
        self._items.clear()

    async def wait(self) -> None:
        """Return when there is something."""
        while not self._items:
            await self._sleep()

    async def run_unless_stopped(self, work: Awaitable[_T]) -> _T:
        """What comes of `work`, unless the turn is told to end before: then that is raised.

        For work without an end of its own, such as a question to a person, at a time when nothing
        else is in flight.
        """
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._wake_up)
        try:
            while not self._items and not task.done():
                await self._sleep()
            if not self._items:
                return task.result()
        finally:
            task.cancel()
        item = self.pop()
        assert isinstance(item, BaseException), item
        raise item

    async def _sleep(self) -> None:
        self._wake = asyncio.get_running_loop().create_future()
        try:
            await self._wake
        finally:
            self._wake = None

    def _wake_up(self, _: object = None) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
