"""What the requests of one process share: limits, threads, the database, numbers, listeners."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Final, TypeVar

from anyio import CapacityLimiter, to_thread
from sqlalchemy import Connection, text

from treadle.api.codes import Code
from treadle.server.context import ANYBODY, Context
from treadle.server.data.database import Database
from treadle.server.data.round_trips import Question
from treadle.server.http.limits import Rates, Room
from treadle.server.http.metrics import Metrics
from treadle.server.http.settings import ServerConfig
from treadle.server.http.stream import Changes
from treadle.server.kept import watching
from treadle.server.kept.feed import newest_change
from treadle.server.kept.watching import News
from treadle.server.people import tokens
from treadle.server.problems import Refusal, unauthorized

Result = TypeVar("Result")

SELDOM_MAX: Final = 2
"""Threads kept for health, which must not wait behind requests."""

LOOKS_MAX: Final = 4
"""Threads kept for looks at what is new: listeners and requests do not wait for each other."""

ROOM_SHARES: Final = 4
"""Users that it takes to fill the room for bodies."""


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
        self.changes = Changes(config, self._news)
        self.room = Room(config.body_room_max, _room_of_one(config))
        self.rates = Rates(config.rate, config.burst, time.monotonic)
        self.uses = tokens.Uses()
        self.has_failed_to_write = False
        """The database refused the last write: its disk may be full, while it can still be read."""
        self._readers = CapacityLimiter(config.worker_count)
        self._writers = CapacityLimiter(config.worker_count)
        self._later: set[asyncio.Task[None]] = set()
        self._seldom = CapacityLimiter(SELDOM_MAX)
        self._looks = CapacityLimiter(LOOKS_MAX)

    async def work(
        self,
        do: Callable[[Connection], Result],
        *,
        is_write: bool,
        wait_s: float | None = None,
        questions: Sequence[Question] = (),
    ) -> Result:
        """One transaction, in a thread. Writers wait for each other, and no reader for them.

        Args:
            do: what is done.
            is_write: whether it writes.
            wait_s: as `Database.run` has it.
            questions: the same.

        Raises:
            Refusal: too many wait already; or what `do` raises.
        """
        limiter = self._writers if is_write else self._readers
        if limiter.statistics().tasks_waiting >= self.config.queue_max:
            raise Refusal(
                Code.UNAVAILABLE,
                "too much is asked at this moment",
                hint="come back in a moment",
                headers={"retry-after": "1"},
            )
        try:
            found = await to_thread.run_sync(
                lambda: self.database.run(
                    do, is_write=is_write, wait_s=wait_s, questions=questions
                ),
                limiter=limiter,
            )
        except Refusal as refusal:
            self.has_failed_to_write |= is_write and refusal.code is Code.UNAVAILABLE
            raise
        if is_write:
            self.has_failed_to_write = False
        return found

    def try_to_write(self) -> None:
        """Write what changes nothing, after a write has failed.

        Who asks whether the server works may be the one who sends no requests until it does.

        Raises:
            Refusal: it does not work.
        """
        same = text("UPDATE alembic_version SET version_num = version_num")
        self.database.run(lambda db: db.execute(same), is_write=True)
        self.has_failed_to_write = False

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what no answer waits for; it ends with the process at the latest."""
        task = asyncio.get_running_loop().create_task(work)
        self._later.add(task)  # the loop alone does not keep it
        task.add_done_callback(self._later.discard)

    async def seldom(self, do: Callable[[], Result]) -> Result:
        """Run what must not wait behind requests, in a thread; who gives up on it leaves it."""
        return await to_thread.run_sync(do, limiter=self._seldom, abandon_on_cancel=True)

    async def look(self, do: Callable[[Connection], Result]) -> Result:
        """One transaction that reads what is new for listeners, in a thread of theirs."""
        return await to_thread.run_sync(
            lambda: self.database.run(do, is_write=False), limiter=self._looks
        )

    def newest(self, db: Connection) -> int:
        """The number of the newest change; answers only if the database works."""
        return newest_change(Context(db, ANYBODY, self.now()))

    async def _news(self, after: int | None, token_ids: Collection[int]) -> News:
        return await self.look(lambda db: watching.look(db, self.now(), after, token_ids))

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


def _room_of_one(config: ServerConfig) -> int:
    """What one user may fill of the room for bodies: a part of it, but one body always fits."""
    return max(config.body_size_max, config.body_room_max // ROOM_SHARES)
