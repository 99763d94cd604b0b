"""The queue of a fleet on PostgreSQL, with Procrastinate.

Its tables, functions and notifications are used as they are: priorities, starts at a time, a lock
per thread, heartbeats. Not how a job is taken within limits (`queue_limits.py`). Not its worker:
that acknowledges a job by its number alone, so one that has slept through its heartbeat would end
what another one is at work on (`queue_worker.py`).

What waits for a person stands in a queue that no worker takes from.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

from procrastinate import App, PsycopgConnector, exceptions
from psycopg import AsyncConnection, Error
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from treadle.errors import StoreError
from treadle.fleet import queue_cancels, queue_limits, queue_lists, queue_schedules
from treadle.fleet.port import (
    Job,
    JobEnd,
    JobState,
    JobStatus,
    Limit,
    LimitKind,
    Perform,
    QueueState,
    TaskSchedule,
)
from treadle.fleet.queue_intake import QueueIntake
from treadle.fleet.queue_rows import leave_row, read_job
from treadle.fleet.queue_tables import (
    MAKE_WORKERS,
    PREFIX,
    READ_STATE,
    make_queue_state,
)
from treadle.fleet.queue_worker import QueueWorker

_SCHEMA_LOCK: Final = 7_260_513_001
"""The advisory lock of whoever makes the tables: of several that start at once, one does."""

_CONNECT_S: Final = 10


class ProcrastinateScheduler:
    """A `Scheduler` in a PostgreSQL database. The tables are made when it is first used.

    It belongs to the event loop in which it is first used.

    Args:
        url: the database, `postgresql://...`.
        heartbeat_s: how often a worker says that it is alive.
        stalled_s: after how long without it the jobs of a worker are given to others.
        poll_s: how often a worker looks for jobs that it was not told of.
    """

    def __init__(
        self, url: str, *, heartbeat_s: float = 10.0, stalled_s: float = 30.0, poll_s: float = 5.0
    ) -> None:
        self._url = url
        self._heartbeat_s, self._stalled_s, self._poll_s = heartbeat_s, stalled_s, poll_s
        connector = PsycopgConnector(
            conninfo=url,
            min_size=1,
            max_size=5,
            timeout=10.0,
            configure=_make_statements_transactions,
            pool_factory=_make_pool,
        )
        self._app = App(connector=connector)
        self._intake = QueueIntake(self._app)
        self._opening = asyncio.Lock()
        self._is_open = False

    async def submit(self, jobs: Sequence[Job]) -> None:
        """See `Scheduler.submit`."""
        async with self._reach():
            await self._intake.submit(jobs)

    async def run(
        self, perform: Perform, queues: Sequence[str], concurrency: int, stop: asyncio.Event
    ) -> None:
        """See `Scheduler.run`."""
        async with self._reach():
            pass
        names = [PREFIX + name for name in queues]
        beats = (self._heartbeat_s, self._stalled_s)
        worker = QueueWorker(self._app, perform, names, concurrency, beats)
        await worker.run(stop, self._poll_s)

    async def retry_stalled(self) -> list[str]:
        """See `Scheduler.retry_stalled`."""
        async with self._reach():
            manager = self._app.job_manager
            stalled = await manager.get_stalled_jobs(seconds_since_heartbeat=self._stalled_s)
            threads = []
            for row in stalled:
                if not row.queue.startswith(PREFIX):
                    continue
                end = JobEnd(JobStatus.QUEUED, deaths=read_job(row).deaths + 1)
                if await leave_row(self._app, row, end):
                    threads.append(str(row.lock))
            return threads

    async def cancel(self, thread_id: str, *, is_recorded: bool = True) -> bool:
        """See `Scheduler.cancel`."""
        async with self._reach():
            return await queue_cancels.cancel_rows(self._app, thread_id, is_recorded=is_recorded)

    async def forget_cancel(self, thread_id: str) -> None:
        """See `Scheduler.forget_cancel`."""
        async with self._reach():
            await queue_cancels.forget_cancel(self._app, thread_id)

    async def list_open(self) -> list[JobState]:
        """See `Scheduler.list_open`."""
        async with self._reach():
            return await queue_lists.list_open(self._app)

    async def find(self, threads: Sequence[str]) -> list[JobState]:
        """See `Scheduler.find`."""
        async with self._reach():
            return await queue_lists.list_threads(self._app, [*threads])

    async def remove_ended(self, kept_s: float) -> int:
        """See `Scheduler.remove_ended`."""
        async with self._reach():
            return await queue_lists.remove_ended(self._app, kept_s)

    async def add_schedule(self, schedule: TaskSchedule) -> TaskSchedule:
        """See `Scheduler.add_schedule`."""
        async with self._reach():
            return await queue_schedules.add(self._app, schedule)

    async def change_schedule(self, schedule: TaskSchedule) -> bool:
        """See `Scheduler.change_schedule`."""
        async with self._reach():
            return await queue_schedules.change(self._app, schedule)

    async def remove_schedule(self, schedule_id: str) -> bool:
        """See `Scheduler.remove_schedule`."""
        async with self._reach():
            return await queue_schedules.remove(self._app, schedule_id)

    async def list_schedules(self) -> list[TaskSchedule]:
        """See `Scheduler.list_schedules`."""
        async with self._reach():
            return await queue_schedules.list_all(self._app)

    async def set_limit(self, limit: Limit) -> None:
        """See `Scheduler.set_limit`."""
        async with self._reach():
            await queue_limits.set_limit(self._app, limit)

    async def remove_limit(self, kind: LimitKind, name: str) -> bool:
        """See `Scheduler.remove_limit`."""
        async with self._reach():
            return await queue_limits.remove(self._app, kind, name)

    async def list_limits(self) -> list[Limit]:
        """See `Scheduler.list_limits`."""
        async with self._reach():
            return await queue_limits.list_all(self._app)

    async def now(self) -> datetime:
        """See `Scheduler.now`; the database's."""
        async with self._reach():
            found = await self._app.connector.execute_query_one_async("SELECT now() AS moment")
        moment: datetime = found["moment"]
        return moment.astimezone(UTC)

    async def list(self) -> list[JobState]:
        """See `Scheduler.list`."""
        async with self._reach():
            return await queue_lists.list_all(self._app)

    async def read_state(self) -> QueueState:
        """See `Scheduler.read_state`."""
        async with self._reach():
            ask = self._app.connector.execute_query_all_async
            found = [await ask(one, threads=None) for one in READ_STATE]
        return make_queue_state(*found)

    async def close(self) -> None:
        """See `Scheduler.close`."""
        if self._is_open:
            self._is_open = False
            await self._app.close_async()

    @asynccontextmanager
    async def _reach(self) -> AsyncIterator[None]:
        """Open the database if it is not, and say what is wrong with it in our words."""
        try:
            async with self._opening:
                if not self._is_open:
                    await self._make_tables()
                    await self._app.open_async()
                    self._is_open = True
            yield
        except (exceptions.ConnectorException, PoolTimeout, Error) as error:
            cause: Any = error.__cause__ or error
            raise StoreError(
                f"the database of the queue refused: {str(cause).strip()}",
                hint="what was submitted before is safe; try again when it answers",
            ) from error

    async def _make_tables(self) -> None:
        """Over a connection of its own, which says at once what is wrong; a pool goes on trying."""
        opening = await AsyncConnection.connect(self._url, connect_timeout=_CONNECT_S)
        async with opening as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
            found = await connection.execute("SELECT to_regclass('procrastinate_jobs')")
            row = await found.fetchone()
            if row is None or row[0] is None:
                await connection.execute(self._app.schema_manager.get_schema())
            tables = queue_lists.INDEXES | queue_schedules.TABLES | queue_limits.TABLES
            for kind, made in (("class", tables), ("procedure", queue_limits.FUNCTIONS)):
                for name, statement in made.items():
                    found = await connection.execute(f"SELECT to_reg{kind}(%s)".encode(), (name,))
                    if (await found.fetchone() or [None])[0] is None:
                        await connection.execute(statement.encode())
            await connection.execute(MAKE_WORKERS.encode())


async def _make_statements_transactions(connection: AsyncConnection[Any]) -> None:
    """Each statement is one: to begin and to end it is no way to the database of its own."""
    await connection.set_autocommit(True)


def _make_pool(**said: Any) -> AsyncConnectionPool[Any]:
    return AsyncConnectionPool(**{**said, "check": _look_at})


async def _look_at(connection: AsyncConnection[Any]) -> None:
    """Raise if a connection that is to be used was cut, without asking the database.

    What was cut has something to be read: words of the server, perhaps, and then the end.
    """
    for _ in range(2):
        connection.pgconn.consume_input()
