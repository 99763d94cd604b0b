"""Jobs on their way into the queue: what many submit at the same moment goes by one statement.

A statement and its commit cost the same for one job as for many. Whoever comes while one is on its
way waits, and goes with all who came meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct
from procrastinate import App
from procrastinate.exceptions import ConnectorException
from psycopg import DataError

from treadle.fleet.port import Job
from treadle.fleet.queue_lists import count_waiting
from treadle.fleet.queue_rows import PRIORITY_STEP, make_row
from treadle.fleet.queue_tables import WAITING_QUEUE

# A thread that has a job queued keeps it as it is.
_ADD: Final = """INSERT INTO procrastinate_jobs
(queue_name, task_name, priority, lock, queueing_lock, args, scheduled_at)
SELECT queue_name, task_name, priority, lock, lock, args, scheduled_at
FROM jsonb_to_recordset(%(told)s->'rows') AS row (queue_name text, task_name text,
priority integer, lock text, args jsonb, scheduled_at timestamptz)
ON CONFLICT DO NOTHING RETURNING lock"""
_REMOVE_WAITING: Final = f"""DELETE FROM procrastinate_jobs WHERE lock = ANY(%(threads)s)
AND status = 'todo' AND queue_name = '{WAITING_QUEUE}' RETURNING lock"""  # noqa: S608  a constant


class _Submission(Struct, eq=False):
    """What one caller submits, and what came of it."""

    jobs: Sequence[Job]
    is_alone: bool = False
    """Whether it goes by itself: one of those with which it went cannot be put in."""
    error: Exception | None = None


class QueueIntake:
    """Puts jobs into the queue; of one event loop.

    Args:
        app: the queue.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._waiting: list[_Submission] = []
        self._turn = asyncio.Lock()

    async def submit(self, jobs: Sequence[Job]) -> None:
        """See `Scheduler.submit`; raises what the connector raises."""
        mine = _Submission(jobs)
        self._waiting.append(mine)
        try:
            async with self._turn:
                while mine in self._waiting:
                    await self._put_next(mine)
        finally:
            self._waiting = [one for one in self._waiting if one is not mine]
        if mine.error is not None:
            raise mine.error

    async def _put_next(self, mine: _Submission) -> None:
        """Put in what waits, `mine` among it; who cannot be put in with others goes alone next."""
        group = [mine] if mine.is_alone else [one for one in self._waiting if not one.is_alone]
        self._waiting = [one for one in self._waiting if one not in group]
        try:
            await self._put([job for one in group for job in one.jobs])
        except asyncio.CancelledError:
            self._waiting += group
            raise
        except ConnectorException as error:
            if len(group) > 1 and isinstance(error.__cause__, DataError):
                for one in group:
                    one.is_alone = True
                self._waiting += group
                return
            for one in group:
                one.error = error

    async def _put(self, jobs: Sequence[Job]) -> None:
        waiting = await count_waiting(self._app, {job.user for job in jobs if job.user})
        rows: dict[str, dict[str, Any]] = {}
        for job in jobs:
            rows.setdefault(job.thread, make_row(job, min(waiting[job.user], PRIORITY_STEP - 1)))
            waiting[job.user] += bool(job.user)
        added = await self._add([*rows.values()])
        if others := [*rows.keys() - added]:
            ask = self._app.connector.execute_query_all_async
            found = await ask(_REMOVE_WAITING, threads=others)
            await self._add([rows[one["lock"]] for one in found])

    async def _add(self, rows: Sequence[dict[str, Any]]) -> set[str]:
        """Add these; the threads of those that were."""
        if not rows:
            return set()
        told = {"rows": rows}
        added = await self._app.connector.execute_query_all_async(_ADD, told=told)
        return {str(one["lock"]) for one in added}
