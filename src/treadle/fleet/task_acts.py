"""What people do with tasks of a fleet: it stands in the thread before the queue hears of it."""

from __future__ import annotations

from typing import Final, Protocol

from treadle.errors import ThreadBusyError, UsageError
from treadle.fleet.job_mark import CANCELLED_TAG, PROBLEM_NAME, find_mark, is_over
from treadle.fleet.port import Scheduler
from treadle.thread.codec import Entry
from treadle.thread.facts import ExtraSet, Recovered, Tagged
from treadle.thread.fold import ThreadFold

# Whoever goes on is told that nobody died.
ANSWERED: Final = Recovered("it was answered, and waits for a worker", "it was answered elsewhere")
"""What stands behind an answer that was given where nobody works on the task."""


class RecordsFacts(Protocol):
    """Records facts in a thread, and gives it as it stands then; raises `ThreadBusyError`."""

    async def __call__(self, thread_id: str, /, *facts: Entry) -> ThreadFold:
        """Do so."""
        ...


async def cancel_task(
    scheduler: Scheduler, record: RecordsFacts, thread_id: str, *said: Entry
) -> bool:
    """Have nobody work on a task any more; see `Fleet.cancel`.

    Args:
        scheduler: the queue.
        record: where its thread is.
        thread_id: its thread.
        said: facts that say who wants it.

    Returns:
        Whether there was something to cancel. Who is at work on it has been told then.

    Raises:
        StoreError: the queue or the store refused.
    """
    try:
        await record(thread_id, *said, Tagged((CANCELLED_TAG,)))
    except ThreadBusyError:  # who works on it records it; if they are dead, who takes its job next
        return await scheduler.cancel(thread_id, is_recorded=False)
    return await scheduler.cancel(thread_id)


async def retry_task(
    scheduler: Scheduler, record: RecordsFacts, thread_id: str, *said: Entry
) -> None:
    """Put a task into the queue that was cancelled or set aside; see `Fleet.retry`.

    Args:
        scheduler: the queue.
        record: where its thread is.
        thread_id: its thread.
        said: facts that say who wants it.

    Raises:
        UsageError: it is no task of a fleet, or it is over.
        ThreadBusyError: somebody works on it.
        StoreError: the queue or the store refused.
    """
    afresh = (Tagged((), (CANCELLED_TAG,)), ExtraSet({PROBLEM_NAME: None}))
    fold = await record(thread_id, *said, *afresh)
    mark = find_mark(fold)
    if mark is None or is_over(fold):
        raise UsageError(f"thread {thread_id} has nothing left to be done by a fleet")
    await scheduler.forget_cancel(thread_id)
    await scheduler.submit([mark.make_job(thread_id)])
