"""Cancellations in rows of Procrastinate: one that no thread has recorded yet stays in its row.

Procrastinate keeps them where a worker is at work only (`abort_requested`), and takes a row that is
queued again for failed. Here it goes on in `args`, so that whoever takes the row next is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from procrastinate import App
from procrastinate.jobs import Job as Row

from treadle.fleet.queue_tables import PREFIX

IS_CANCELLED: Final = "(abort_requested OR args ? 'cancelled')"
MARK: Final = """'{"cancelled": true}'::jsonb"""

_OPEN: Final = "status IN ('todo', 'doing') AND starts_with(queue_name, %(prefix)s)"
# What is queued is ended, or due at once for whoever is to record it.
_CANCEL: Final = f"""UPDATE procrastinate_jobs SET
status = CASE WHEN status = 'todo' AND %(is_recorded)s
    THEN 'cancelled'::procrastinate_job_status ELSE status END,
abort_requested = status = 'doing',
args = CASE WHEN status = 'todo' THEN args || {MARK} ELSE args END,
scheduled_at = CASE WHEN status = 'todo' THEN NULL ELSE scheduled_at END,
queue_name = CASE WHEN status = 'todo' THEN %(prefix)s || (args->>'queue') ELSE queue_name END
WHERE lock = %(thread)s AND {_OPEN} RETURNING id"""  # noqa: S608  constants, all of them
_FORGET_RUNNING: Final = f"""UPDATE procrastinate_jobs
SET abort_requested = false, args = args - 'cancelled'
WHERE lock = %(thread)s AND status = 'doing' AND {_OPEN} AND {IS_CANCELLED} RETURNING id"""  # noqa: S608
_FORGET_QUEUED: Final = f"""DELETE FROM procrastinate_jobs
WHERE lock = %(thread)s AND status = 'todo' AND {_OPEN} AND {IS_CANCELLED} RETURNING id"""  # noqa: S608
_LIST: Final = f"""SELECT DISTINCT lock FROM procrastinate_jobs
WHERE lock = ANY(%(threads)s) AND {_OPEN} AND {IS_CANCELLED}"""  # noqa: S608


async def cancel_rows(app: App, thread_id: str, *, is_recorded: bool) -> bool:
    """See `Scheduler.cancel`."""
    told = {"thread": thread_id, "prefix": PREFIX, "is_recorded": is_recorded}
    return bool(await app.connector.execute_query_all_async(_CANCEL, **told))


async def forget_cancel(app: App, thread_id: str) -> None:
    """See `Scheduler.forget_cancel`."""
    # Those at work first: one that is queued meanwhile is found by the second.
    for statement in (_FORGET_RUNNING, _FORGET_QUEUED):
        await app.connector.execute_query_all_async(statement, thread=thread_id, prefix=PREFIX)


async def list_cancelled(app: App, threads: Sequence[str]) -> set[str]:
    """Those of these threads that are cancelled, though not by all that work on them."""
    told = {"threads": [*threads], "prefix": PREFIX}
    rows = await app.connector.execute_query_all_async(_LIST, **told)
    return {str(row["lock"]) for row in rows}


def is_cancelled(row: Row) -> bool:
    """As `IS_CANCELLED`; a row that was just taken says whether it had been before."""
    return row.abort_requested or "cancelled" in row.task_kwargs
