"""A queue in the memory of one process: for tests, and for programs that need one machine."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from math import inf

from msgspec.structs import replace

from treadle.fleet.port import (
    CANCELLED_DELAY_S,
    EACH_NAME,
    OPEN_STATUSES,
    SHOWN_COUNT,
    Job,
    JobEnd,
    JobState,
    JobStatus,
    Limit,
    LimitKind,
    Perform,
    QueueState,
    TaskSchedule,
    WorkerState,
)

_POLL_S = 0.02


class _Row:
    """A job, and where it stands."""

    def __init__(self, job: Job, rank: int, number: int) -> None:
        self.job, self.rank, self.number = job, rank, number
        self.status = JobStatus.QUEUED
        self.start_at = job.start_at
        self.ended_at: datetime | None = None
        self.attempts = 0
        self.worker = 0
        self.is_cancelled = False
        self.cancelled = asyncio.Event()
        """Each who takes it has one of their own, as their event loop may be another."""

    def cancel(self) -> None:
        """Have whoever works on it, or takes it, told."""
        self.is_cancelled = True
        self.cancelled.set()


def _list_names(job: Job) -> list[tuple[LimitKind, str]]:
    return [(kind, getattr(job, kind.value)) for kind in LimitKind]


class MemoryScheduler:
    """Jobs that end with the process; the threads they were for do not.

    It may be used by one event loop after another. A worker is stalled when its `run` was
    cancelled.
    """

    def __init__(self) -> None:
        self._rows: list[_Row] = []
        self._workers: dict[int, WorkerState] = {}
        self._schedules: dict[str, TaskSchedule] = {}
        self._limits: dict[tuple[LimitKind, str], int] = {}
        self._numbers = count(1)

    async def submit(self, jobs: Sequence[Job]) -> None:
        """See `Scheduler.submit`."""
        waiting = Counter(one.job.user for one in self._rows if one.status is JobStatus.QUEUED)
        for job in jobs:
            found = self._find(job.thread, JobStatus.QUEUED, JobStatus.WAITING)
            if found is not None and found.status is JobStatus.QUEUED:
                continue
            if found is not None:
                self._rows.remove(found)
            self._rows.append(_Row(job, waiting[job.user], next(self._numbers)))
            waiting[job.user] += bool(job.user)

    async def run(
        self, perform: Perform, queues: Sequence[str], concurrency: int, stop: asyncio.Event
    ) -> None:
        """See `Scheduler.run`."""
        worker = next(self._numbers)
        state = WorkerState(str(worker), "this process", tuple(queues), concurrency)
        self._workers[worker] = state
        running: set[asyncio.Task[None]] = set()
        try:
            while not stop.is_set():
                if len(running) < concurrency and (row := self._take(queues, worker)) is not None:
                    task = asyncio.create_task(self._work(perform, row, worker))
                    running.add(task)
                    task.add_done_callback(running.discard)
                else:
                    await asyncio.sleep(_POLL_S)
            if running:
                await asyncio.wait(running)
        finally:
            self._workers.pop(worker)
            for task in running:
                task.cancel()

    def _take(self, queues: Sequence[str], worker: int) -> _Row | None:
        now = datetime.now(UTC)
        at_work = {one.job.thread for one in self._rows if one.status is JobStatus.RUNNING}
        used = self._count_at_work()
        due = [
            one
            for one in self._rows
            if one.status is JobStatus.QUEUED
            and one.job.queue in queues
            and one.job.thread not in at_work
            and (one.start_at is None or one.start_at <= now)
            and all(used[name] < self._find_limit(*name) for name in _list_names(one.job))
        ]
        if not due:
            return None
        row = min(due, key=lambda one: (-one.job.priority, one.rank, one.number))
        row.status, row.worker, row.cancelled = JobStatus.RUNNING, worker, asyncio.Event()
        if row.is_cancelled:
            row.cancelled.set()
        return row

    def _count_at_work(self) -> Counter[tuple[LimitKind, str]]:
        running = (one.job for one in self._rows if one.status is JobStatus.RUNNING)
        return Counter(name for job in running for name in _list_names(job))

    def _find_limit(self, kind: LimitKind, name: str) -> float:
        each = self._limits.get((kind, EACH_NAME), inf)
        return self._limits.get((kind, name), each) if name else inf

    async def _work(self, perform: Perform, row: _Row, worker: int) -> None:
        attempt = row.attempts
        end = await perform(row.job, row.cancelled)
        if (row.status, row.worker, row.attempts) == (JobStatus.RUNNING, worker, attempt):
            self._leave(row, end)

    def _leave(self, row: _Row, end: JobEnd) -> None:
        is_again = end.status in (JobStatus.QUEUED, JobStatus.WAITING)
        other = self._find(row.job.thread, JobStatus.QUEUED)
        if is_again and other is not None:
            other.job = replace(other.job, deaths=max(other.job.deaths, end.deaths))
            other.is_cancelled |= row.is_cancelled
            row.status = JobStatus.DONE  # the other one goes on with it
            row.ended_at = datetime.now(UTC)
            return
        row.status, delay_s = end.status, end.delay_s
        if is_again:
            row.job = replace(row.job, deaths=end.deaths)
            if row.is_cancelled:
                row.status, delay_s = JobStatus.QUEUED, min(delay_s, CANCELLED_DELAY_S)
        row.worker = 0
        row.attempts += 1
        now = datetime.now(UTC)
        row.start_at, row.ended_at = now + timedelta(seconds=delay_s), None if is_again else now

    async def retry_stalled(self) -> list[str]:
        """See `Scheduler.retry_stalled`."""
        stalled = [
            one
            for one in self._rows
            if one.status is JobStatus.RUNNING and one.worker not in self._workers
        ]
        for row in stalled:
            self._leave(row, JobEnd(JobStatus.QUEUED, deaths=row.job.deaths + 1))
        return [row.job.thread for row in stalled]

    async def cancel(self, thread_id: str, *, is_recorded: bool = True) -> bool:
        """See `Scheduler.cancel`."""
        found = [
            one for one in self._rows if one.job.thread == thread_id and one.status in OPEN_STATUSES
        ]
        for row in found:
            row.cancel()
            if row.status is not JobStatus.RUNNING:
                row.start_at = None
                row.status = JobStatus.CANCELLED if is_recorded else JobStatus.QUEUED
                row.ended_at = datetime.now(UTC) if is_recorded else None
        return bool(found)

    async def forget_cancel(self, thread_id: str) -> None:
        """See `Scheduler.forget_cancel`."""
        for row in [one for one in self._rows if one.job.thread == thread_id and one.is_cancelled]:
            row.is_cancelled = False
            if row.status is JobStatus.QUEUED:
                self._rows.remove(row)

    async def list_open(self) -> list[JobState]:
        """See `Scheduler.list_open`."""
        return [one for one in await self.list() if one.status in OPEN_STATUSES]

    async def find(self, threads: Sequence[str]) -> list[JobState]:
        """See `Scheduler.find`."""
        wanted = {*threads}
        return [one for one in await self.list() if one.job.thread in wanted]

    async def remove_ended(self, kept_s: float) -> int:
        """See `Scheduler.remove_ended`."""
        until = datetime.now(UTC) - timedelta(seconds=kept_s)
        removed = [
            one
            for one in self._rows
            if one.ended_at is not None
            and one.ended_at <= until
            and not (one.status is JobStatus.FAILED and one.job.deaths and self._is_newest(one))
        ]
        for row in removed:
            self._rows.remove(row)
        return len(removed)

    async def add_schedule(self, schedule: TaskSchedule) -> TaskSchedule:
        """See `Scheduler.add_schedule`."""
        return self._schedules.setdefault(schedule.id, schedule)

    async def change_schedule(self, schedule: TaskSchedule) -> bool:
        """See `Scheduler.change_schedule`."""
        before = self._schedules.get(schedule.id)
        if before is None or before.version != schedule.version:
            return False
        self._schedules[schedule.id] = replace(schedule, version=schedule.version + 1)
        return True

    async def remove_schedule(self, schedule_id: str) -> bool:
        """See `Scheduler.remove_schedule`."""
        return self._schedules.pop(schedule_id, None) is not None

    async def list_schedules(self) -> list[TaskSchedule]:
        """See `Scheduler.list_schedules`."""
        return [self._schedules[name] for name in sorted(self._schedules)]

    async def set_limit(self, limit: Limit) -> None:
        """See `Scheduler.set_limit`."""
        self._limits[limit.kind, limit.name] = limit.number

    async def remove_limit(self, kind: LimitKind, name: str) -> bool:
        """See `Scheduler.remove_limit`."""
        return self._limits.pop((kind, name), None) is not None

    async def list_limits(self) -> list[Limit]:
        """See `Scheduler.list_limits`."""
        at_work: dict[tuple[LimitKind, str], dict[str, int]] = {one: {} for one in self._limits}
        for (kind, name), number in self._count_at_work().items():
            own = (kind, name) if (kind, name) in at_work else (kind, EACH_NAME)
            if name and own in at_work:
                at_work[own][name] = number
        found = [Limit(*one, number, at_work[one]) for one, number in self._limits.items()]
        return sorted(found, key=lambda one: (one.kind.value, one.name))

    async def now(self) -> datetime:
        """See `Scheduler.now`."""
        return datetime.now(UTC)

    async def list(self) -> list[JobState]:
        """See `Scheduler.list`."""
        newest: dict[str, _Row] = {}
        for row in self._rows:
            before = newest.get(row.job.thread)
            if before is None or before.status is not JobStatus.RUNNING:
                newest[row.job.thread] = row
        return [
            JobState(
                one.job,
                one.status,
                one.attempts,
                str(one.worker or ""),
                is_cancelled=one.is_cancelled,
            )
            for one in newest.values()
        ]

    async def read_state(self) -> QueueState:
        """See `Scheduler.read_state`."""
        states = await self.list()
        counts: dict[str, Counter[str]] = {}
        for one in states:
            counts.setdefault(one.job.queue, Counter())[one.status.value] += 1
        shown: list[JobState] = []
        for status in JobStatus:
            some = [one for one in states if one.status is status]
            is_open = status in OPEN_STATUSES
            shown += some[:SHOWN_COUNT] if is_open else some[-SHOWN_COUNT:]
        by_queue = {name: dict(found) for name, found in counts.items()}
        limits = tuple(await self.list_limits())
        return QueueState((*self._workers.values(),), by_queue, tuple(shown), limits)

    async def close(self) -> None:
        """Nothing is to be ended."""

    def _is_newest(self, row: _Row) -> bool:
        others = (one for one in self._rows if one.job.thread == row.job.thread)
        return all(one.number <= row.number for one in others)

    def _find(self, thread_id: str, *states: JobStatus) -> _Row | None:
        for row in self._rows:
            if row.job.thread == thread_id and row.status in states:
                return row
        return None
