"""What a fleet's queue should have, by the journals: tasks that a crash has left without a job.

A queue forgets jobs that are over, so a thread without a job is opened to see what it needs. A
worker that starts among many does so bit by bit: what was lost lately is among the newest, which
come first.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import islice
from typing import Final

from treadle.agent.members import Members
from treadle.errors import (
    DamagedJournalError,
    ReadOnlyThreadError,
    TreadleError,
    UnknownThreadError,
)
from treadle.fleet.job_mark import find_dead_end, find_mark, is_over
from treadle.fleet.port import OPEN_STATUSES, Job, JobState, JobStatus
from treadle.thread.fold import ThreadFold

_log = logging.getLogger("treadle.fleet")

ASKED_MAX: Final = 1000
"""Of so many threads of a store the queue is asked at a time."""
OPENED_MAX: Final = 100
"""So many threads without a job are opened at a time."""


class LostJobs:
    """Compares what a queue knows with the threads of a fleet.

    Args:
        members: the fleet's agents.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._settled: set[str] = set()
        """Threads that need no job any more, or never did: they are not looked at again."""

    def list_unknown(self, states: Sequence[JobState]) -> list[str]:
        """Threads that no job is known of and that are not settled, newest first."""
        known = {one.job.thread for one in states}
        self._settled -= known  # somebody has had one tried again
        found: list[str] = []
        for store in self._members.list_stores():
            new = (one for one in store.ids() if one not in known and one not in self._settled)
            found += islice(new, ASKED_MAX)
        return found

    def find(self, states: Sequence[JobState], unknown: Sequence[str]) -> list[Job]:
        """Jobs for tasks that have none, and for those that wait for a person who has answered.

        Args:
            states: the jobs that are not over, and all of the threads in `unknown`.
            unknown: what `list_unknown` gave.
        """
        known = {one.job.thread for one in states}
        self._settled |= {one.job.thread for one in states if one.status not in OPEN_STATUSES}
        waiting = [one.job.thread for one in states if one.status is JobStatus.WAITING]
        answered = [self._find_answered(one) for one in waiting]
        rowless = [one for one in unknown if one not in known]
        lost = [self._find_lost(one) for one in rowless[:OPENED_MAX]]
        return [one for one in (*answered, *lost) if one is not None]

    def _find_answered(self, thread_id: str) -> Job | None:
        fold = self._look_at(thread_id)
        if fold is None or _is_left(fold) or fold.machine.questions:
            return None
        mark = find_mark(fold)
        return None if mark is None else mark.make_job(thread_id)

    def _find_lost(self, thread_id: str) -> Job | None:
        if (fold := self._look_at(thread_id)) is None:
            return None
        mark = find_mark(fold)
        if mark is None or _is_left(fold):
            self._settled.add(thread_id)
            return None
        return mark.make_job(thread_id)

    def _look_at(self, thread_id: str) -> ThreadFold | None:
        try:
            return self._members.load(thread_id)
        except UnknownThreadError:
            return None  # it is another fleet's, or gone
        except TreadleError as error:
            _log.warning("%s cannot be looked at: %s", thread_id, error)
            if isinstance(error, DamagedJournalError | ReadOnlyThreadError):  # not ours to mend
                self._settled.add(thread_id)
            return None


def _is_left(fold: ThreadFold) -> bool:
    """Whether nobody is to work on a task any more, for now or for ever."""
    return is_over(fold) or bool(find_dead_end(fold))
