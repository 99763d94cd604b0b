"""What a fleet's queue should have, by the journals: tasks that a crash has left without a job."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from treadle.agent.job_mark import CANCELLED_TAG, find_mark, find_problem, is_over
from treadle.errors import TreadleError
from treadle.fleet.port import Job, JobState, JobStatus
from treadle.store.threads import AnyThreads

_log = logging.getLogger("treadle.fleet")


def list_lost_jobs(
    stores: Iterable[AnyThreads], states: Sequence[JobState], settled: set[str]
) -> list[Job]:
    """Jobs for tasks that have none, and for those that wait for a person who has answered.

    Args:
        stores: where tasks are.
        states: the jobs that the queue knows.
        settled: threads that need no job, which are not looked at again; it gets more.
    """
    known = {one.job.thread: one.status for one in states}
    lost: list[Job] = []
    for store in stores:
        for thread_id in store.ids():
            status = known.get(thread_id)
            if status not in (None, JobStatus.WAITING) or thread_id in settled:
                continue
            try:
                fold = store.load(thread_id).fold
            except TreadleError as error:  # of a thread that is damaged, say: not ours to mend
                _log.warning("%s cannot be looked at: %s", thread_id, error)
                continue
            mark = find_mark(fold)
            is_left = CANCELLED_TAG in fold.metadata.tags or find_problem(fold)
            if mark is None or is_over(fold) or is_left:
                if status is None:
                    settled.add(thread_id)
            elif status is None or not fold.machine.questions:
                lost.append(mark.make_job(thread_id))
    return lost
