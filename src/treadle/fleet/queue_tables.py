"""How a queue on PostgreSQL stands, asked of its tables: by fleets, and by pages of a server there.

Procrastinate knows of a worker that it lives. What people want to know stands in a table of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from treadle.fleet.port import (
    EACH_NAME,
    SHOWN_COUNT,
    Job,
    JobState,
    JobStatus,
    Limit,
    LimitKind,
    QueueState,
    WorkerState,
)

PREFIX: Final = "treadle/"
"""Before the names of our queues: the database may have others."""
WAITING_QUEUE: Final = PREFIX + "(waiting)"
"""What waits for a person; no name that somebody gives has parentheses."""
STATES: Final = {
    "todo": JobStatus.QUEUED,
    "doing": JobStatus.RUNNING,
    "succeeded": JobStatus.DONE,
    "failed": JobStatus.FAILED,
}
"""What the status of a row is to us; what waits is told by its queue, the rest is cancelled."""
_ARGS: Final = {"queue", "priority", "deaths", *(kind.value for kind in LimitKind)}
"""What a row says of a job beside Procrastinate's own columns."""

MAKE_WORKERS: Final = """
    CREATE TABLE IF NOT EXISTS treadle_workers (
        id bigint PRIMARY KEY REFERENCES procrastinate_workers (id) ON DELETE CASCADE,
        name text NOT NULL,
        queues text[] NOT NULL,
        concurrency integer NOT NULL,
        stalled_s double precision NOT NULL,
        started_at timestamptz NOT NULL DEFAULT now()
    )
"""
ADD_WORKER: Final = """
    INSERT INTO treadle_workers (id, name, queues, concurrency, stalled_s)
    VALUES (%(id)s, %(name)s, %(queues)s::text[], %(concurrency)s, %(stalled_s)s)
    ON CONFLICT DO NOTHING RETURNING id
"""
HAS_TABLES: Final = "SELECT to_regclass('treadle_limits') IS NOT NULL"
"""Of this version's; the others are made with it, or were before."""
IS_ALIVE: Final = "last_heartbeat > now() - make_interval(secs => stalled_s)"
READ_MARK: Final = f"""
    SELECT (SELECT max(id) FROM procrastinate_events), string_agg(id::text, ' ' ORDER BY id)
    FROM treadle_workers JOIN procrastinate_workers USING (id) WHERE {IS_ALIVE}
"""  # noqa: S608
"""What is another one when a job or a worker stands differently than before."""

# What is put together here are constants.
_CASES: Final = " ".join(f"WHEN '{one}' THEN '{state.value}'" for one, state in STATES.items())
_NEWEST: Final = f"""
    WITH newest AS (
        SELECT DISTINCT ON (lock) *, CASE
            WHEN status = 'todo' AND queue_name = '{WAITING_QUEUE}' THEN 'waiting'
            ELSE CASE status {_CASES} ELSE 'cancelled' END
        END AS state
        FROM procrastinate_jobs
        WHERE starts_with(queue_name, '{PREFIX}')
            AND (%(threads)s::text[] IS NULL OR lock = ANY(%(threads)s::text[]))
        ORDER BY lock, (status = 'doing') DESC, id DESC
    )
"""  # noqa: S608
_FORM: Final = 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'


def _tell(moment: str) -> str:
    return f"coalesce(to_char({moment} AT TIME ZONE 'UTC', '{_FORM}'), '')"


LIST_WORKERS: Final = f"""
    SELECT id::text, name, queues, concurrency, {_tell("started_at")} AS started_at,
        {_tell("last_heartbeat")} AS heard_at
    FROM treadle_workers JOIN procrastinate_workers USING (id)
    WHERE {IS_ALIVE} ORDER BY id
"""  # noqa: S608
COUNT_JOBS: Final = f"""
    {_NEWEST} SELECT args->>'queue' AS queue, state, count(*) AS number
    FROM newest GROUP BY 1, 2 ORDER BY 1, 2
"""  # noqa: S608
_SINCE: Final = (
    "(SELECT max(at) FROM procrastinate_events WHERE job_id = shown.id AND type <> 'scheduled')"
)
LIST_JOBS: Final = f"""
    {_NEWEST} SELECT lock AS thread, task_name AS agent, args, state, attempts,
        CASE state WHEN 'running' THEN worker_id::text END AS worker,
        {_tell(_SINCE)} AS since
    FROM (
        SELECT *, row_number() OVER (
            PARTITION BY state
            ORDER BY CASE WHEN state IN ('running', 'waiting', 'queued') THEN id ELSE -id END
        ) AS place FROM newest
    ) AS shown WHERE place <= {SHOWN_COUNT} ORDER BY id
"""  # noqa: S608
NAMES: Final = ", ".join(f"('{kind.value}', job.args->>'{kind.value}')" for kind in LimitKind)
"""By what a job counts, each with its kind."""
COUNT_AT_WORK: Final = f"""
    SELECT called.kind, called.name, count(*) AS number
    FROM procrastinate_jobs AS job, LATERAL (VALUES {NAMES}) AS called (kind, name)
    WHERE job.status = 'doing' AND starts_with(job.queue_name, '{PREFIX}') AND called.name <> ''
    GROUP BY 1, 2
"""  # noqa: S608
# A name is told to those only who see a task of it.
LIST_LIMITS: Final = f"""
    WITH used AS ({COUNT_AT_WORK}
        HAVING %(threads)s::text[] IS NULL OR bool_or(job.lock = ANY(%(threads)s::text[])))
    SELECT limits.kind, limits.name, limits.number, coalesce(
        jsonb_object_agg(used.name, used.number) FILTER (WHERE used.name IS NOT NULL), '{{}}'
    ) AS at_work
    FROM treadle_limits AS limits LEFT JOIN used ON used.kind = limits.kind AND (
        used.name = limits.name OR (limits.name = '{EACH_NAME}' AND NOT EXISTS (
            SELECT FROM treadle_limits AS own WHERE own.kind = used.kind AND own.name = used.name)))
    WHERE %(threads)s::text[] IS NULL OR limits.name = '{EACH_NAME}' OR used.name IS NOT NULL
    GROUP BY 1, 2, 3 ORDER BY limits.kind COLLATE "C", limits.name COLLATE "C"
"""  # noqa: S608
READ_STATE: Final = (LIST_WORKERS, COUNT_JOBS, LIST_JOBS, LIST_LIMITS)
"""Their rows are what `make_queue_state` takes. `threads` says which; nothing for all."""

Rows = Sequence[Mapping[str, Any]]


def make_queue_state(workers: Rows, counts: Rows, jobs: Rows, limits: Rows) -> QueueState:
    """How a queue stands, of the rows that each statement of `READ_STATE` has given."""
    by_queue: dict[str, dict[str, int]] = {}
    for one in counts:
        by_queue.setdefault(one["queue"], {})[one["state"]] = one["number"]
    return QueueState(
        tuple(WorkerState(**{**one, "queues": tuple(one["queues"])}) for one in workers),
        by_queue,
        tuple(_make_job_state(one) for one in jobs),
        make_limits(limits),
    )


def make_limits(rows: Rows) -> tuple[Limit, ...]:
    """The limits of the rows that `LIST_LIMITS` has given."""
    return tuple(Limit(**{**one, "kind": LimitKind(one["kind"])}) for one in rows)


def make_args(job: Job) -> dict[str, Any]:
    """What a row says of a job that Procrastinate does not know."""
    return {name: getattr(job, name) for name in _ARGS}


def make_job(thread: str, agent: str, args: Mapping[str, Any]) -> Job:
    """The job of a row; earlier versions said less of one."""
    return Job(thread, agent, **{name: args[name] for name in _ARGS & args.keys()})


def _make_job_state(row: Mapping[str, Any]) -> JobState:
    job = make_job(row["thread"], row["agent"], row["args"])
    status = JobStatus(row["state"])
    return JobState(job, status, row["attempts"], row["worker"] or "", row["since"])
