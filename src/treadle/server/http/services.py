"""What the requests of one process share: limits, threads, the database, numbers, listeners."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, TypeVar

from anyio import CapacityLimiter, to_thread
from sqlalchemy import Connection, delete, insert

from treadle.api.audit_types import ReadWay
from treadle.api.error_codes import ErrorCode
from treadle.server import search
from treadle.server.accounts import tokens
from treadle.server.context import ANONYMOUS, Context, ThreadRead
from treadle.server.data.database import Database
from treadle.server.data.round_trips import PreliminaryQuery
from treadle.server.data.schema import settings
from treadle.server.http import logs
from treadle.server.http.change_stream import ChangeListeners
from treadle.server.http.limits import BodyMemory, RateLimiter
from treadle.server.http.metrics import Metrics
from treadle.server.http.read_notes import ReadNotes
from treadle.server.http.retention_keeper import RetentionKeeper
from treadle.server.http.settings import ServerConfig
from treadle.server.http.webhook_sender import WebhookSender, make_requests
from treadle.server.refusals import Refusal, make_unauthorized_refusal
from treadle.server.threads import listener_updates
from treadle.server.threads.change_feed import find_newest_change
from treadle.server.threads.journal_uptake import take_in_oldest_journal
from treadle.server.threads.listener_updates import ListenerUpdate

Result = TypeVar("Result")

HEALTH_THREADS_MAX: Final = 2
"""Threads kept for health, which must not wait behind requests."""

LISTENER_THREADS_MAX: Final = 4
"""Threads kept for looks at what is new: listeners and requests do not wait for each other."""

INDEX_GATHER_S: Final = 1.0
"""So long pushes are gathered before their texts are taken in together.

A search takes in by itself what is not yet. Each transaction that does so writes some twenty pages,
however much it takes in.
"""

INDEX_WAIT_S: Final = 5.0
"""So long a search waits until the texts of earlier pushes are taken in."""

INDEX_STEP_S: Final = 1.0
"""So long taking in texts waits for other writers."""

INDEX_POLL_S: Final = 0.02

UPTAKE_POLL_S: Final = 1.0
"""Between two looks for records of workers, where there were none."""

READS_POLL_S: Final = 1.0
"""Between two looks for reads that the database has not taken."""

READS_WAIT_S: Final = 5.0
"""So long what is left of them waits for the database when the process ends."""

BODY_MEMORY_SHARES: Final = 4
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
        self.change_listeners = ChangeListeners(config, self._read_update)
        self.body_memory = BodyMemory(config.body_room_max, _user_memory_max(config))
        self.rate_limiter = RateLimiter(config.rate, config.burst, time.monotonic)
        self.token_uses = tokens.TokenUses()
        self.has_failed_to_write = False
        """The database refused the last write: its disk may be full, while it can still be read."""
        self.read_limiter = CapacityLimiter(config.worker_count)
        self._write_limiter = CapacityLimiter(config.worker_count)
        self._background_tasks: set[asyncio.Task[None]] = set()
        self._index_task: asyncio.Task[None] | None = None
        self._has_more_to_index = False
        self._index_limiter = CapacityLimiter(1)
        self._uptake_task: asyncio.Task[None] | None = None
        self._uptake_limiter = CapacityLimiter(1)
        self.read_notes = ReadNotes(
            lambda work, wait_s: database.run(work, is_write=True, wait_s=wait_s)
        )
        self._reads_task: asyncio.Task[None] | None = None
        self._reads_limiter = CapacityLimiter(1)
        self.retention_keeper = RetentionKeeper(database, now, self.change_listeners.notify_change)
        self._health_limiter = CapacityLimiter(HEALTH_THREADS_MAX)
        self._listener_limiter = CapacityLimiter(LISTENER_THREADS_MAX)
        self._webhook_limiter = CapacityLimiter(1)
        self.webhook_sender = WebhookSender(
            self._run_for_webhooks,
            now,
            make_requests(allows_private=config.allows_private_webhooks),
        )

    async def run_transaction(
        self,
        function: Callable[[Connection], Result],
        *,
        is_write: bool,
        wait_s: float | None = None,
        queries: Sequence[PreliminaryQuery] = (),
    ) -> Result:
        """One transaction, in a thread. Writers wait for each other, and no reader for them.

        Args:
            function: what is done.
            is_write: whether it writes.
            wait_s: as `Database.run` has it.
            queries: the same.

        Raises:
            Refusal: too many wait already; or what `function` raises.
        """
        limiter = self._write_limiter if is_write else self.read_limiter
        if limiter.statistics().tasks_waiting >= self.config.queue_max:
            raise Refusal(
                ErrorCode.UNAVAILABLE,
                "too much is asked at this moment",
                hint="come back in a moment",
                headers={"retry-after": "1"},
            )
        try:
            found = await to_thread.run_sync(
                lambda: self.database.run(
                    function, is_write=is_write, wait_s=wait_s, queries=queries
                ),
                limiter=limiter,
            )
        except Refusal as refusal:
            self.has_failed_to_write |= is_write and refusal.code is ErrorCode.UNAVAILABLE
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
        self.database.run(_write_and_take_back, is_write=True)
        self.has_failed_to_write = False

    def run_in_background(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Do what no answer waits for; it ends with the process at the latest."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._background_tasks.add(task)  # the loop alone does not keep it
        task.add_done_callback(self._background_tasks.discard)

    def schedule_indexing(self) -> None:
        """Have the search take in what was pushed; no answer waits for it."""
        if self._index_task is None or self._index_task.done():
            self._index_task = asyncio.get_running_loop().create_task(self._index_in_background())
        else:
            self._has_more_to_index = True

    async def index_until_current(self) -> None:
        """Have the search take in what was pushed up to now; a great backlog only in part."""
        through = await self.read_for_listeners(search.find_newest_pending)
        until_s = time.monotonic() + INDEX_WAIT_S
        while through and await self.read_for_listeners(
            lambda db: search.has_pending_through(db, through)
        ):
            state = await self._index_step()
            if state == "failed" or time.monotonic() > until_s:
                return
            if state == "idle":  # another process is at it
                await asyncio.sleep(INDEX_POLL_S)

    async def _index_in_background(self) -> None:
        self._has_more_to_index = True
        while self._has_more_to_index:
            self._has_more_to_index = False
            await asyncio.sleep(INDEX_GATHER_S)
            while await self._index_step() == "done":
                pass

    async def _index_step(self) -> Literal["done", "idle", "failed"]:
        """One step; after one that failed all is pending still, for the next push or search."""
        work, wait_s = search.index_oldest_pending, INDEX_STEP_S
        try:
            has_done = await to_thread.run_sync(
                lambda: self.database.run(work, is_write=True, wait_s=wait_s),
                limiter=self._index_limiter,
            )
        except Refusal:
            return "failed"  # the disk is full, or a writer does not end
        except Exception as error:  # noqa: BLE001  it is in the log; searching goes on
            logs.log_event("index_failed", level=logging.ERROR, error=error)
            return "failed"
        return "done" if has_done else "idle"

    async def _run_for_webhooks(self, work: Callable[[Connection], Any], is_write: bool) -> Any:
        """One transaction of those who send webhooks, in a thread of theirs."""
        return await to_thread.run_sync(
            lambda: self.database.run(work, is_write=is_write), limiter=self._webhook_limiter
        )

    def start_journal_uptake(self) -> None:
        """Take in what workers record, until `close`."""
        if self.database.dialect == "postgresql":
            self._uptake_task = asyncio.get_running_loop().create_task(self._take_in_journals())

    async def _take_in_journals(self) -> None:
        """Workers tell nobody: asking costs one look at an index that is nearly always empty."""
        while True:
            try:
                has_more = await to_thread.run_sync(
                    lambda: self.database.run(
                        lambda db: take_in_oldest_journal(db, self.now()),
                        is_write=True,
                        wait_s=INDEX_STEP_S,
                    ),
                    limiter=self._uptake_limiter,
                )
            except Refusal:
                has_more = False  # the database is not there, or others are in the way
            except Exception as error:  # noqa: BLE001  it is in the log; the next look goes on
                logs.log_event("uptake_failed", level=logging.ERROR, error=error)
                has_more = False
            if has_more:
                self.schedule_indexing()
            else:
                await asyncio.sleep(UPTAKE_POLL_S)

    async def keep_reads(
        self, reads: Sequence[ThreadRead], way: ReadWay, address: str, now: str
    ) -> None:
        """See that what was read of others' threads is kept, before it is answered.

        Raises:
            Refusal: it is not, and too much waits already.
        """
        if notes := self.read_notes.find_new(reads, way, address, now):
            await to_thread.run_sync(
                lambda: self.read_notes.keep(notes, now), limiter=self._write_limiter
            )

    def start_keeping_reads(self) -> None:
        """Write what the database has not taken in time, until `close`."""
        self._reads_task = asyncio.get_running_loop().create_task(self._keep_waiting_reads())

    async def _keep_waiting_reads(self) -> None:
        while True:
            await asyncio.sleep(READS_POLL_S)
            await self._write_waiting_reads(INDEX_STEP_S)

    async def _write_waiting_reads(self, wait_s: float) -> None:
        if self.read_notes.is_waiting:
            await to_thread.run_sync(
                lambda: self.read_notes.write(wait_s), limiter=self._reads_limiter
            )

    async def close(self) -> None:
        """End what goes on behind the answers."""
        await self.webhook_sender.close()
        await self.retention_keeper.close()
        for task in (self._index_task, self._uptake_task, self._reads_task):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        await self._write_waiting_reads(READS_WAIT_S)

    async def run_health_check(self, function: Callable[[], Result]) -> Result:
        """Run what must not wait behind requests, in a thread; who gives up on it leaves it."""
        return await to_thread.run_sync(
            function, limiter=self._health_limiter, abandon_on_cancel=True
        )

    async def read_for_listeners(self, function: Callable[[Connection], Result]) -> Result:
        """One transaction that reads what is new for listeners, in a thread of theirs."""
        return await to_thread.run_sync(
            lambda: self.database.run(function, is_write=False), limiter=self._listener_limiter
        )

    def find_newest_change(self, db: Connection) -> int:
        """The number of the newest change; answers only if the database works."""
        return find_newest_change(Context(db, ANONYMOUS, self.now()))

    async def _read_update(self, after: int | None, token_ids: Collection[int]) -> ListenerUpdate:
        return await self.read_for_listeners(
            lambda db: listener_updates.read_listener_update(db, self.now(), after, token_ids)
        )

    def make_context(self, db: Connection, bearer: str | None, *, is_open: bool = False) -> Context:
        """Who asks, as this transaction sees it.

        Raises:
            Refusal: the token is none, or none was brought where one is needed.
        """
        now = self.now()
        caller = tokens.identify_caller(db, bearer, now)
        if caller.user_id is None and not is_open:
            raise make_unauthorized_refusal()
        return Context(db, caller, now)


def _user_memory_max(config: ServerConfig) -> int:
    """What one user may fill of the room for bodies: a part of it, but one body always fits."""
    return max(config.body_size_max, config.body_room_max // BODY_MEMORY_SHARES)


def _write_and_take_back(db: Connection) -> None:
    """Change nothing, and yet write more than the last block of SQLite's log may have room for.

    What sets a column to the value that it has writes one page; this writes two.
    """
    db.execute(insert(settings).values(name="probe", value=""))
    db.execute(delete(settings).where(settings.c.name == "probe"))
