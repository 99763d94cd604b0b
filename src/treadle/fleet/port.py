"""What a queue has to do so that a fleet can work from it: `Scheduler`.

A job says that a thread is to be worked on, and nothing else: what is to be done stands in the
thread's journal, which is the truth. A queue may therefore forget, repeat and be late. Of two
workers with one job, one finds that the other holds the thread; a job that was lost is made again
by whoever compares journals with the queue (`worker.py`); one whose thread is done is done at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Struct

DEFAULT_QUEUE = "default"


class Job(Struct, frozen=True):
    """That a thread is to be worked on.

    Args:
        thread: its id.
        agent: the name of who works on it.
        queue: workers take jobs of the queues that they are given.
        priority: higher ones are taken first, -1,000 to 1,000.
        user: for whom it is. Of jobs of one priority, those of a user who has fewer waiting are
            taken first.
        start_at: not before this moment, which has a time zone.
        deaths: how often in a row its worker has died at it. The queue counts.
        model: who answers, by the lasting name.
        repository: where git gets what it works on.
        organization: of whom its thread is.
    """

    thread: str
    agent: str
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    user: str = ""
    start_at: datetime | None = None
    deaths: int = 0
    model: str = ""
    repository: str = ""
    organization: str = ""


class LimitKind(Enum):
    """Of what no more than so many jobs are at work; each is a field of `Job`."""

    USER = "user"
    MODEL = "model"
    REPOSITORY = "repository"
    ORGANIZATION = "organization"


EACH_NAME: Final = "*"
"""Stands for each name that has no limit of its own."""


class Limit(Struct, frozen=True):
    """No more than `number` jobs with this name are at work at a time, whoever works on them.

    `at_work` is how many are, by their names, where that is asked for.
    """

    kind: LimitKind
    name: str
    number: int
    at_work: dict[str, int] = {}


class JobStatus(Enum):
    """Where a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    """For a person: it occupies nobody, until it is submitted again."""
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN_STATUSES: Final = (JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.WAITING)
"""Of jobs that are not over."""


class JobEnd(Struct, frozen=True):
    """How a worker leaves a job: as `status`. `QUEUED` is once more, after `delay_s` seconds.

    `deaths` is what the job's own are then: none, as its worker has lived; or those that it had, if
    nothing of it was begun.
    """

    status: JobStatus
    delay_s: float = 0.0
    deaths: int = 0


class JobState(Struct, frozen=True):
    """A job as the queue has it.

    `attempts` is how often it was begun before; `worker` is who works on it, as the queue calls
    them, and empty if nobody does. `since` is when it came to stand so, where that is asked for:
    UTC, in the form of records. One that `is_cancelled` is open all the same until the thread says
    it.
    """

    job: Job
    status: JobStatus
    attempts: int = 0
    worker: str = ""
    since: str = ""
    is_cancelled: bool = False


class WorkerState(Struct, frozen=True):
    """A worker that was heard of lately. Times are UTC, in the form of records.

    `id` is what the queue calls it, `name` its machine and its process.
    """

    id: str
    name: str
    queues: tuple[str, ...]
    concurrency: int
    started_at: str = ""
    heard_at: str = ""


class QueueState(Struct, frozen=True):
    """How a queue stands: workers, how many jobs each queue has of each status, and some of them.

    Of each status there are `SHOWN_COUNT` jobs at most: those that are at work, wait or are queued
    for longest, and of those that are over the newest.
    """

    workers: tuple[WorkerState, ...]
    counts: dict[str, dict[str, int]]
    jobs: tuple[JobState, ...]
    limits: tuple[Limit, ...] = ()


SHOWN_COUNT = 20
CANCELLED_DELAY_S: Final = 1.0
"""A job that was cancelled is due again so soon, however it was left to be done again."""


Perform: TypeAlias = Callable[[Job, asyncio.Event], Awaitable[JobEnd]]
"""Works on a job. The event is set when somebody has cancelled it."""


class TaskSchedule(Struct, frozen=True, omit_defaults=True):
    """A task that is submitted again and again.

    Args:
        id: its name.
        agent: who works on its tasks.
        prompt: what they are told.
        cron: when, in five fields.
        zone: whose clocks say so.
        options: what else is said of each task, as JSON has it.
        next_at: when it is due next.
        begun_at: a due time for which a task is being submitted.
        last_at: the last due time of which a task was made, or told why not.
        last_thread: the last task.
        note: what became of the last due time, if no task or not as it should.
        is_paused: nothing is submitted while it is.
        version: how often it was changed; the queue counts.
    """

    id: str
    agent: str
    prompt: str
    cron: str
    zone: str
    options: dict[str, Any]
    next_at: datetime
    begun_at: datetime | None = None
    last_at: datetime | None = None
    last_thread: str = ""
    note: str = ""
    is_paused: bool = False
    version: int = 0


class Scheduler(Protocol):
    """A queue of jobs. All methods raise `StoreError` where it cannot be reached."""

    async def submit(self, jobs: Sequence[Job]) -> None:
        """Put jobs into the queue, durably when this returns.

        A thread has one job at most that nobody works on: one that is queued stays as it is, one
        that waits for a person is queued. Beside one at work another is queued, and taken when that
        has ended: what it is to see may have come too late for it. If the worker of the first dies,
        that counts for the other one.
        """
        ...

    async def run(
        self, perform: Perform, queues: Sequence[str], concurrency: int, stop: asyncio.Event
    ) -> None:
        """Take jobs and work on them, until `stop` is set and what was taken is left.

        No two jobs of a thread are at work at a time, in no process that this one hears of. An
        interruption of the queue is sat out. Being cancelled is dying: what was taken is left as it
        is, and is stalled.

        Args:
            perform: works on a job.
            queues: of which jobs are taken.
            concurrency: how many jobs at a time.
            stop: no more is taken when it is set.
        """
        ...

    async def retry_stalled(self) -> list[str]:
        """Queue the jobs whose worker has not been heard of for too long, with one death more.

        Returns:
            Their threads.
        """
        ...

    async def cancel(self, thread_id: str, *, is_recorded: bool = True) -> bool:
        """Take a thread's jobs out of the queue; whoever works on one is told.

        If they die, or leave it to be done again, the job is due at once, and whoever takes it is
        told before they begin.

        Args:
            thread_id: whose jobs.
            is_recorded: whether the thread says that it is cancelled. If it does not, a job that
                nobody works on is due at once, too: whoever takes it is told, and records it.

        Returns:
            Whether there was one.
        """
        ...

    async def forget_cancel(self, thread_id: str) -> None:
        """Take back that a thread's jobs are cancelled, where that was not recorded yet.

        Who has been told already records it all the same.
        """
        ...

    async def list_open(self) -> list[JobState]:
        """As `list`, only jobs that are not over; what is over costs nothing."""
        ...

    async def find(self, threads: Sequence[str]) -> list[JobState]:
        """As `list`, only jobs of these threads; the others cost nothing."""
        ...

    async def remove_ended(self, kept_s: float) -> int:
        """Remove jobs that are over for so long, some of them at a time.

        One that has failed stays where its worker had died at it: nothing but the queue may know.

        Returns:
            How many.
        """
        ...

    async def add_schedule(self, schedule: TaskSchedule) -> TaskSchedule:
        """Keep a schedule, durably when this returns.

        Returns:
            It, or the one of its id that is there already, which stays as it is.
        """
        ...

    async def change_schedule(self, schedule: TaskSchedule) -> bool:
        """Change the schedule of this id, if it has this version; it has the next one then.

        Returns:
            Whether it had.
        """
        ...

    async def remove_schedule(self, schedule_id: str) -> bool:
        """Remove a schedule; whether it was there."""
        ...

    async def list_schedules(self) -> list[TaskSchedule]:
        """All schedules, by their ids."""
        ...

    async def set_limit(self, limit: Limit) -> None:
        """Keep a limit, in place of another one of its name: no job is taken beyond it.

        It holds over all queues and workers. A job without a name of the kind is not limited. What
        is at work goes on; who has died has his place until his jobs are queued again.
        """
        ...

    async def remove_limit(self, kind: LimitKind, name: str) -> bool:
        """Remove a limit; whether it was there."""
        ...

    async def list_limits(self) -> list[Limit]:
        """All limits, by kind and name, with what is at work."""
        ...

    async def now(self) -> datetime:
        """The time, by one clock for all who use this queue."""
        ...

    async def list(self) -> list[JobState]:
        """The newest job of each thread, in the order of submission; one at work before others.

        Of threads whose jobs are over as long as these are kept.
        """
        ...

    async def read_state(self) -> QueueState:
        """How it stands, for people."""
        ...

    async def close(self) -> None:
        """End connections. Once more does nothing."""
        ...
