"""Tells when nobody has said anything for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

IDLE_S: Final = 60.0
"""Seconds after which a person who says nothing counts as one who does not look."""


class IdleTimer:
    """Counts from the end of a turn.

    Args:
        elapsed: called once for each time of rest that has lasted so long.
    """

    def __init__(self, elapsed: Callable[[], None]) -> None:
        self._elapsed = elapsed
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """The agent waits for the person from now on."""
        self.stop()
        self._timer = asyncio.get_running_loop().call_later(IDLE_S, self._elapsed)

    def stop(self) -> None:
        """They have said something, or the chat ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
