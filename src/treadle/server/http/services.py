"""What the requests of one process share: limits, threads, the database, numbers, listeners."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread
from sqlalchemy import Connection

from treadle.api.codes import Code
from treadle.server.context import ANYBODY, Context
from treadle.server.data.database import Database
from treadle.server.http.limits import Rates, Room
from treadle.server.http.metrics import Metrics
from treadle.server.http.settings import ServerConfig
from treadle.server.http.stream import Changes
from treadle.server.kept.feed import newest_change
from treadle.server.people import tokens
from treadle.server.problems import Refusal, unauthorized

Result = TypeVar("Result")

SELDOM_MAX: Final = 2
"""Threads kept for what must not wait behind requests: health, and what listeners look at."""


class Services:
    """What one process of a server has once.

    Args:
        config: its limits.
        database: with tables of this version.
        now: the clock, in the form of records.
    """

    def __init__(self, config: ServerConfig, database: Database, now: Callable[[], str]) -> None:
        self.config = config
        self.database = database
        self.now = now
        self.metrics = Metrics()
        self.changes = Changes(config, self._newest)
        self.room = Room(config.body_room_max)
        self.rates = Rates(config.rate, config.burst, time.monotonic)
        self.uses = tokens.Uses()
        self._limiter = CapacityLimiter(config.worker_count)
        self._seldom = CapacityLimiter(SELDOM_MAX)

    async def work(self, do: Callable[[Connection], Result], *, is_write: bool) -> Result:
        """One transaction, in a thread.

        Raises:
            Refusal: too many wait already; or what `do` raises.
        """
        if self._limiter.statistics().tasks_waiting >= self.config.queue_max:
            raise Refusal(
                Code.UNAVAILABLE,
                "too much is asked at this moment",
                hint="come back in a moment",
                headers={"retry-after": "1"},
            )
        return await to_thread.run_sync(
            lambda: self.database.run(do, is_write=is_write), limiter=self._limiter
        )

    async def seldom(self, do: Callable[[], Result]) -> Result:
        """Run what must not wait behind requests, in a thread of its own."""
        return await to_thread.run_sync(do, limiter=self._seldom)

    def newest(self, db: Connection) -> int:
        """The number of the newest change; answers only if the database works."""
        return newest_change(Context(db, ANYBODY, self.now()))

    async def _newest(self) -> int:
        return await self.seldom(lambda: self.database.run(self.newest, is_write=False))

    def context(self, db: Connection, bearer: str | None, *, is_open: bool = False) -> Context:
        """Who asks, as this transaction sees it.

        Raises:
            Refusal: the token is none, or none was brought where one is needed.
        """
        now = self.now()
        caller = tokens.identify(db, bearer, now)
        if caller.user_id is None and not is_open:
            raise unauthorized()
        return Context(db, caller, now)
