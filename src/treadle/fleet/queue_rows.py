"""Jobs as rows of Procrastinate, and how a worker leaves one: only if it is still its own."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace
from procrastinate import App, exceptions
from procrastinate.jobs import Job as Row

from treadle.fleet.port import CANCELLED_DELAY_S, Job, JobEnd, JobStatus
from treadle.fleet.queue_cancels import IS_CANCELLED, MARK
from treadle.fleet.queue_tables import PREFIX, STATES, WAITING_QUEUE, make_args, make_job

PRIORITY_STEP: Final = 1_000_000
"""Between two priorities there is room for so many jobs of one user that wait."""

_FAR_S: Final = 1e11
"""As good as never. The clock that counts is the one of the database."""
_ENDS: Final = {
    JobStatus.DONE: "succeeded",
    JobStatus.FAILED: "failed",
    JobStatus.CANCELLED: "aborted",
}

# A row that another worker was given has that one, or more attempts. (What is put together here are
# constants.)
_CANCEL: Final = f"CASE WHEN {IS_CANCELLED} THEN {MARK} ELSE '{{}}'::jsonb END"
_MINE: Final = f"""WITH mine AS MATERIALIZED (
SELECT id, {_CANCEL} AS cancel FROM procrastinate_jobs WHERE id = %(id)s AND status = 'doing'
AND worker_id IS NOT DISTINCT FROM %(worker)s AND attempts = %(attempts)s FOR UPDATE) """  # noqa: S608
_FINISH: Final = f"""{_MINE}SELECT id,
procrastinate_finish_job_v1(id, %(status)s::procrastinate_job_status, false) FROM mine"""  # noqa: S608
_HAND_OVER: Final = f"""{_MINE}, other AS (UPDATE procrastinate_jobs AS one
SET args = one.args || mine.cancel ||
jsonb_build_object('deaths', greatest((one.args->>'deaths')::integer, %(deaths)s::integer))
FROM mine WHERE one.status = 'todo' AND one.queueing_lock = %(thread)s)
SELECT id, procrastinate_finish_job_v1(id, 'succeeded', false) FROM mine"""  # noqa: S608
# The function sees what stands before it in its own statement, as it is a volatile one.
_REPEAT: Final = f"""WITH mine AS (UPDATE procrastinate_jobs SET abort_requested = false,
args = args || {_CANCEL} || jsonb_build_object('deaths', %(deaths)s::integer)
WHERE id = %(id)s AND status = 'doing' AND worker_id IS NOT DISTINCT FROM %(worker)s
AND attempts = %(attempts)s RETURNING id, args ? 'cancelled' AS is_cancelled)
SELECT id, procrastinate_retry_job_v2(id, now() + make_interval(secs =>
CASE WHEN is_cancelled THEN least(%(delay_s)s::float8, {CANCELLED_DELAY_S})
ELSE %(delay_s)s::float8 END), NULL,
CASE WHEN is_cancelled THEN %(own_queue)s ELSE %(queue)s END, NULL) FROM mine"""  # noqa: S608


def make_row(job: Job, rank: int) -> dict[str, Any]:
    """A row, as JSON, for a job of a user who has `rank` others that wait."""
    return {
        "queue_name": PREFIX + job.queue,
        "priority": job.priority * PRIORITY_STEP - rank,
        "lock": job.thread,
        "task_name": job.agent,
        "args": make_args(job),
        "scheduled_at": job.start_at and job.start_at.isoformat(),
    }


def read_job(row: Row) -> Job:
    """The job of a row that `make_row` made."""
    start_at = None if row.queue == WAITING_QUEUE else row.scheduled_at
    return replace(make_job(str(row.lock), row.task_name, row.task_kwargs), start_at=start_at)


def find_status(row: Row) -> JobStatus:
    """Where the job of a row stands."""
    if row.status == "todo" and row.queue == WAITING_QUEUE:
        return JobStatus.WAITING
    return STATES.get(row.status or "", JobStatus.CANCELLED)


async def leave_row(app: App, row: Row, end: JobEnd) -> bool:
    """Leave a row that was taken; does nothing if it is somebody else's by now.

    Returns:
        Whether it was left.
    """
    told = {"id": row.id, "worker": row.worker_id, "attempts": row.attempts}
    connector = app.connector
    if end.status in _ENDS:
        ended = {**told, "status": _ENDS[end.status]}
        return bool(await connector.execute_query_all_async(_FINISH, **ended))
    own_queue = PREFIX + read_job(row).queue
    delay_s, queue = end.delay_s, own_queue
    if end.status is JobStatus.WAITING:
        delay_s, queue = _FAR_S, WAITING_QUEUE
    try:
        again = {**told, "delay_s": delay_s, "queue": queue, "own_queue": own_queue}
        again["deaths"] = end.deaths
        return bool(await connector.execute_query_all_async(_REPEAT, **again))
    except exceptions.UniqueViolation:  # another job of the thread is queued, which goes on with it
        other = {**told, "thread": row.lock, "deaths": end.deaths}
        return bool(await connector.execute_query_all_async(_HAND_OVER, **other))
