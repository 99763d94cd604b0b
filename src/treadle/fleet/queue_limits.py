"""Limits in the database of a queue, and jobs that are taken within them.

Who takes a job counts what is at work and takes in one transaction, one after the other: of two who
count at the same moment neither sees what the other takes. Without limits nobody waits for anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from procrastinate import App
from procrastinate.jobs import Job as Row

from treadle.fleet.port import EACH_NAME, Limit, LimitKind
from treadle.fleet.queue_tables import COUNT_AT_WORK, LIST_LIMITS, NAMES, make_limits

TABLES: Final = {
    "treadle_limits": "CREATE TABLE treadle_limits "
    "(kind text, name text, number integer NOT NULL, PRIMARY KEY (kind, name))"
}
"""By their names; made where they are missing."""

_TAKE_LOCK: Final = 7_260_513_002
"""The advisory lock of whoever takes a job while there are limits."""

# Each statement of a function sees what was committed before it began: that which counts stands
# behind the one that waits. The last one is Procrastinate's own, and leaves out what is exhausted.
# (What is put together here are constants.)
_MAKE_TAKE: Final = f"""
CREATE FUNCTION treadle_take_job_v2(queues text[], worker bigint)
RETURNS SETOF procrastinate_jobs LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM treadle_limits) THEN
        RETURN QUERY SELECT * FROM procrastinate_fetch_job_v2(queues::varchar[], worker) AS taken
        WHERE taken.id IS NOT NULL;
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock({_TAKE_LOCK});
    RETURN QUERY
    WITH used AS ({COUNT_AT_WORK}), exhausted AS MATERIALIZED (
        SELECT used.kind, used.name FROM used WHERE used.number >= (
            SELECT own.number FROM treadle_limits AS own
            WHERE own.kind = used.kind AND own.name IN (used.name, '{EACH_NAME}')
            ORDER BY own.name = used.name DESC LIMIT 1)
    ), candidate AS (
        SELECT job.id FROM procrastinate_jobs AS job
        WHERE job.status = 'todo' AND job.queue_name = ANY (queues)
        AND (job.scheduled_at IS NULL OR job.scheduled_at <= now())
        AND NOT EXISTS (SELECT FROM exhausted WHERE (kind, name) IN ({NAMES}))
        AND NOT EXISTS (
            SELECT FROM procrastinate_jobs AS other WHERE other.lock = job.lock
            AND (other.status = 'doing' OR (other.status = 'todo' AND (
                other.priority > job.priority
                OR (other.priority = job.priority AND other.id < job.id)))))
        ORDER BY job.priority DESC, job.id LIMIT 1 FOR UPDATE OF job SKIP LOCKED
    )
    UPDATE procrastinate_jobs AS job SET status = 'doing', worker_id = worker
    FROM candidate WHERE job.id = candidate.id RETURNING job.*;
END $$
"""  # noqa: S608
FUNCTIONS: Final = {"treadle_take_job_v2(text[], bigint)": _MAKE_TAKE}
"""By what they take; made where they are missing. One that becomes another has another name."""

TAKE: Final = "SELECT * FROM treadle_take_job_v2(%(queues)s::text[], %(worker)s)"
_SET: Final = """INSERT INTO treadle_limits (kind, name, number)
VALUES (%(kind)s, %(name)s, %(number)s)
ON CONFLICT (kind, name) DO UPDATE SET number = excluded.number RETURNING name"""
_REMOVE: Final = (
    "DELETE FROM treadle_limits WHERE kind = %(kind)s AND name = %(name)s RETURNING name"
)


async def take_job(app: App, queues: Sequence[str], worker: int) -> Row | None:
    """Take the first job that may be worked on now, if there is one."""
    for row in await app.connector.execute_query_all_async(TAKE, queues=[*queues], worker=worker):
        return Row.from_row(row)
    return None


async def set_limit(app: App, limit: Limit) -> None:
    """See `Scheduler.set_limit`."""
    told = {"kind": limit.kind.value, "name": limit.name, "number": limit.number}
    await app.connector.execute_query_all_async(_SET, **told)


async def remove(app: App, kind: LimitKind, name: str) -> bool:
    """See `Scheduler.remove_limit`."""
    told = {"kind": kind.value, "name": name}
    return bool(await app.connector.execute_query_all_async(_REMOVE, **told))


async def list_all(app: App) -> list[Limit]:
    """See `Scheduler.list_limits`."""
    return [*make_limits(await app.connector.execute_query_all_async(LIST_LIMITS, threads=None))]
