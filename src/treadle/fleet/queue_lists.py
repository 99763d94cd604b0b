"""What is asked of the rows of Procrastinate beside its own questions, and removed of them.

Rows of jobs that are over stay for days, so nothing here that a worker asks often reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, Final

from procrastinate import App
from procrastinate.jobs import Job as Row

from treadle.fleet.port import JobState, JobStatus
from treadle.fleet.queue_cancels import is_cancelled
from treadle.fleet.queue_rows import find_status, read_job
from treadle.fleet.queue_tables import PREFIX, WAITING_QUEUE

_QUEUED: Final = f"status = 'todo' AND queue_name <> '{WAITING_QUEUE}'"
INDEXES: Final = {
    # Of a thread's jobs; Procrastinate's own knows those only that are not over.
    "treadle_jobs_lock": "CREATE INDEX treadle_jobs_lock ON procrastinate_jobs (lock)",
    "treadle_events_end": "CREATE INDEX treadle_events_end ON procrastinate_events (at) "
    "WHERE type IN ('succeeded', 'failed', 'cancelled', 'aborted')",
    # Of a user's jobs that are queued: who submits reads nobody else's.
    "treadle_jobs_user": "CREATE INDEX treadle_jobs_user ON procrastinate_jobs "
    f"((args->>'user')) WHERE {_QUEUED}",
}
"""By their names; made where they are missing."""

REMOVED_MAX: Final = 1000
"""So many rows are removed at a time: others wait for a removal."""

# One at work before others, then the newest. (What is put together here are constants.)
_LIST: Final = """SELECT * FROM (SELECT DISTINCT ON (lock) * FROM procrastinate_jobs
WHERE starts_with(queue_name, %(prefix)s) AND {wanted}
ORDER BY lock, (status = 'doing') DESC, id DESC) AS newest ORDER BY id"""
_ALL: Final = _LIST.format(wanted="true")
_OPEN: Final = _LIST.format(wanted="status IN ('todo', 'doing')")
_THREADS: Final = _LIST.format(wanted="lock = ANY(%(threads)s)")

_COUNT: Final = f"""SELECT args->>'user' AS name, count(*) AS number FROM procrastinate_jobs
WHERE {_QUEUED} AND args->>'user' = ANY(%(users)s) GROUP BY 1"""  # noqa: S608

_REMOVE: Final = """DELETE FROM procrastinate_jobs WHERE id IN (
SELECT job.id FROM procrastinate_events AS event
JOIN procrastinate_jobs AS job ON job.id = event.job_id
WHERE event.type IN ('succeeded', 'failed', 'cancelled', 'aborted')
AND event.at <= now() - make_interval(secs => %(kept_s)s)
AND job.status IN ('succeeded', 'failed', 'cancelled', 'aborted')
AND starts_with(job.queue_name, %(prefix)s)
AND (job.status <> 'failed' OR COALESCE((job.args->>'deaths')::integer, 0) = 0 OR EXISTS (
    SELECT FROM procrastinate_jobs AS newer WHERE newer.lock = job.lock AND newer.id > job.id))
ORDER BY event.at LIMIT %(count)s FOR UPDATE OF job SKIP LOCKED) RETURNING id"""


async def list_all(app: App) -> list[JobState]:
    """See `Scheduler.list`."""
    return await _list(app, _ALL)


async def list_open(app: App) -> list[JobState]:
    """See `Scheduler.list_open`."""
    return await _list(app, _OPEN)


async def list_threads(app: App, threads: list[str]) -> list[JobState]:
    """See `Scheduler.find`."""
    return await _list(app, _THREADS, threads=threads)


async def remove_ended(app: App, kept_s: float) -> int:
    """See `Scheduler.remove_ended`."""
    told = {"kept_s": kept_s, "prefix": PREFIX, "count": REMOVED_MAX}
    return len(await app.connector.execute_query_all_async(_REMOVE, **told))


async def count_waiting(app: App, users: Collection[str]) -> Counter[str]:
    """How many jobs of each of these users are queued."""
    if not users:
        return Counter()
    found = await app.connector.execute_query_all_async(_COUNT, users=[*users])
    return Counter({row["name"]: row["number"] for row in found})


async def _list(app: App, query: str, **told: Any) -> list[JobState]:
    told["prefix"] = PREFIX
    rows = await app.connector.execute_query_all_async(query, **told)
    return [_read_state(Row.from_row(row)) for row in rows]


def _read_state(row: Row) -> JobState:
    status = find_status(row)
    worker = str(row.worker_id or "") if status is JobStatus.RUNNING else ""
    return JobState(read_job(row), status, row.attempts, worker, is_cancelled=is_cancelled(row))
