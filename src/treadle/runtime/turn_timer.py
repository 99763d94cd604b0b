"""The time of a turn: an alarm ends it, and it stands still while a person is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime


class TurnTimer:
    """Rings once the time is over; the time in which it is held does not count.

    Args:
        left_s: seconds until it rings; `None` if nobody set a limit.
        on_timeout: called then.
    """

    def __init__(self, left_s: float | None, on_timeout: Callable[[], None]) -> None:
        self._left_s = left_s
        self._on_timeout = on_timeout
        self._timer: asyncio.TimerHandle | None = None
        self._pause_count = 0
        self.is_over = False
        """Whether the turn has ended; then it never rings."""
        self._start_timer()

    def _start_timer(self) -> None:
        if self._left_s is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._left_s, self._on_timeout)

    def _pause_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            self._left_s = max(0.0, timer.when() - asyncio.get_running_loop().time())

    def pause(self) -> bool:
        """No time passes from here on; several may hold it. Tells whether this is the first."""
        self._pause_count += 1
        if self._pause_count == 1:
            self._pause_timer()
        return self._pause_count == 1

    def resume(self) -> bool:
        """One holds it no more; tells whether that was the last and time passes again."""
        self._pause_count -= 1
        goes_on = not self._pause_count and not self.is_over
        if goes_on:
            self._start_timer()
        return goes_on

    def stop(self) -> None:
        """The turn is over."""
        self.is_over = True
        self._pause_timer()


class PersonWait:
    """For how long a person has been waited for.

    Args:
        now: the clock, in the form of records.
        on_idle: told of it piece by piece: before each event that is taken meanwhile, so that the
            machine can tell the wait from work, and at its end.
    """

    def __init__(self, now: Callable[[], str], on_idle: Callable[[str, str], None]) -> None:
        self._now = now
        self._on_idle = on_idle
        self._since = ""

    @contextmanager
    def measure(self, alarm: TurnTimer) -> Iterator[None]:
        """Inside a person is waited for, in the turn of this alarm."""
        if alarm.pause():
            self._since = self._now()
        try:
            yield
        finally:
            if alarm.resume():
                self.report_idle_time(self._now())
                self._since = ""

    def report_idle_time(self, until: str) -> None:
        """What has passed until then was no work, if a person is being waited for."""
        if self._since and until > self._since:
            since, self._since = self._since, until
            self._on_idle(since, until)

    def stop(self) -> None:
        """The turn is over; who still waits does so for nothing."""
        self._since = ""


def shift_time(time: str, since: str, until: str) -> str:
    """A time as records hold it, later by what passed between the two others."""
    passed = datetime.fromisoformat(until) - datetime.fromisoformat(since)
    moved = datetime.fromisoformat(time) + passed
    return moved.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
