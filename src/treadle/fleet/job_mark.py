"""What a thread says of its job in a fleet, so that the job can be made of the journal alone."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from treadle.core.task.machine import TaskMachine
from treadle.fleet.port import DEFAULT_QUEUE, OPEN_STATUSES, Job, JobState, JobStatus
from treadle.thread.facts import ExtraSet
from treadle.thread.fold import ThreadFold

EXTRA_NAME: Final = "fleet"
"""Under this name a thread keeps its mark."""
CANCELLED_TAG: Final = "cancelled"
"""Of a thread that nobody is to work on any more, though its task is not over."""
PROBLEM_NAME: Final = "fleet_problem"
"""Under this name it says why no worker tries it any more, until somebody has it tried again."""


class JobMark(Struct, frozen=True, omit_defaults=True):
    """All of a job but its thread, and what it works on: see `Job`, `JobOptions`.

    `lasting_model` is who answered to the task's or the agent's model when it was submitted, by the
    lasting name: the queue counts by it.
    """

    agent: str
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    user: str = ""
    start_at: datetime | None = None
    repository: str = ""
    ref: str = "HEAD"
    model: str = ""
    lasting_model: str = ""
    organization: str = ""

    def make_fact(self) -> ExtraSet:
        """The record of it."""
        return ExtraSet({EXTRA_NAME: msgspec.to_builtins(self)})

    def make_job(self, thread_id: str) -> Job:
        """The job of a thread that says this."""
        return Job(
            thread_id,
            self.agent,
            self.queue,
            self.priority,
            self.user,
            self.start_at,
            model=self.lasting_model,
            repository=self.repository,
            organization=self.organization,
        )


def find_mark(fold: ThreadFold) -> JobMark | None:
    """What a thread says of its job; `None` if it is no task of a fleet."""
    try:
        mark = msgspec.convert(fold.metadata.extra.get(EXTRA_NAME), JobMark)
    except msgspec.ValidationError:
        return None
    return mark if isinstance(fold.machine, TaskMachine) else None


def find_problem(fold: ThreadFold) -> str:
    """Why no worker tries the task of a thread any more; empty if they do."""
    return str(fold.metadata.extra.get(PROBLEM_NAME, ""))


def describe_deaths(count: int) -> str:
    """Why a task is set aside at which workers have died."""
    return "its worker died once" if count == 1 else f"its worker died {count} times"


def is_over(fold: ThreadFold) -> bool:
    """Whether a thread holds a task that has ended, for ever."""
    return isinstance(fold.machine, TaskMachine) and fold.machine.is_over


def find_dead_end(fold: ThreadFold, state: JobState | None = None) -> str:
    """Why nobody goes on with a task until it is tried again; empty if it is over, or goes on.

    Args:
        fold: its thread.
        state: its newest job, if the queue was asked: who is set aside unopened stands there only.
    """
    if is_over(fold):
        return ""
    if CANCELLED_TAG in fold.metadata.tags:
        return "the task was cancelled"
    if why := find_problem(fold):
        return f"no worker tries it any more: {why}"
    if state is None:
        return ""
    if state.status in OPEN_STATUSES:
        pending = "the task was cancelled, and no worker has recorded that yet"
        return pending if state.is_cancelled else ""
    why, deaths = f"the queue has it as {state.status.value}", state.job.deaths
    if deaths and state.status is JobStatus.FAILED:
        why = describe_deaths(deaths)
    return f"no worker tries it any more: {why}"
