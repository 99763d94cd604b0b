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
from psycopg import OperationalError
from psycopg.errors import DeadlockDetected, ProgramLimitExceeded

from treadle.fleet.port import Job
from treadle.fleet.queue_lists import count_waiting
from treadle.fleet.queue_rows import PRIORITY_STEP, make_row
from treadle.fleet.queue_tables import WAITING_QUEUE

_INSERT: Final = """INSERT INTO procrastinate_jobs
(queue_name, task_name, priority, lock, queueing_lock, args, scheduled_at)
SELECT queue_name, task_name, priority, lock, lock, args, scheduled_at
FROM jsonb_to_recordset(%(told)s->'rows') AS row (queue_name text, task_name text,
priority integer, lock text, args jsonb, scheduled_at timestamptz)"""
# A thread that has a job queued keeps it as it is.
_ADD: Final = f"{_INSERT} ON CONFLICT DO NOTHING RETURNING lock"
# One that waits for a person goes with the statement that puts the next in, or stays.
_REPLACE: Final = f"""WITH gone AS (DELETE FROM procrastinate_jobs WHERE lock = ANY(%(threads)s)
AND status = 'todo' AND queue_name = '{WAITING_QUEUE}' RETURNING lock)
{_INSERT} JOIN gone USING (lock) ON CONFLICT DO NOTHING RETURNING lock"""  # noqa: S608  a constant


class _Submission(Struct, eq=False):
    """What one caller submits, and what came of it."""

    jobs: Sequence[Job]
    is_alone: bool = False
    """Whether it goes by itself: one of those with which it went cannot be put in."""
    error: Exception | None = None
    has_left: bool = False


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
            mine.has_left = True
        if mine.error is not None:
            raise mine.error

    async def _put_next(self, mine: _Submission) -> None:
        """Put in what waits, `mine` among it; who cannot be put in with others goes alone next."""
        here = [one for one in self._waiting if not one.has_left]
        group = [mine] if mine.is_alone else [one for one in here if not one.is_alone]
        others = [one for one in here if mine.is_alone or one.is_alone]
        self._waiting = [one for one in others if one is not mine]
        try:
            await self._put([job for one in group for job in one.jobs])
        except asyncio.CancelledError:
            self._waiting += group
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, who waits is told
            cause = error.__cause__ or error
            if isinstance(cause, DeadlockDetected):  # the other statement is through now
                self._waiting += group
            elif len(group) > 1 and _is_of_one(cause):
                for one in group:
                    one.is_alone = True
                self._waiting += group
            else:
                for one in group:
                    one.error = error

    async def _put(self, jobs: Sequence[Job]) -> None:
        waiting = await count_waiting(self._app, {job.user for job in jobs if job.user})
        rows: dict[str, dict[str, Any]] = {}
        for job in jobs:
            rows.setdefault(job.thread, make_row(job, min(waiting[job.user], PRIORITY_STEP - 1)))
            waiting[job.user] += bool(job.user)
        ask = self._app.connector.execute_query_all_async
        added = await ask(_ADD, told={"rows": [*rows.values()]})
        if others := [*rows.keys() - {str(one["lock"]) for one in added}]:
            told = {"rows": [rows[one] for one in others]}
            await ask(_REPLACE, threads=others, told=told)


def _is_of_one(cause: BaseException) -> bool:
    """Whether others may be put in; not where the database cannot be reached, or does not work."""
    return isinstance(cause, ProgramLimitExceeded) or not isinstance(cause, OperationalError)
