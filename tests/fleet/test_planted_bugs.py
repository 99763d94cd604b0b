"""Bugs that a queue might have, planted one by one: the checks of queues see each of them.

Those of workers are in `test_chaos.py`, those of the store in `tests/server/journals`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import pytest

from fleet import (
    limit_checks,
    queue_checks,
    test_cancelled_jobs,
    test_ended_jobs,
    test_intake,
    test_limits,
    test_queues,
)
from treadle.fleet import (
    queue_intake,
    queue_limits,
    queue_lists,
    queue_rows,
    queue_schedules,
)
from treadle.fleet.port import Job, JobEnd, JobStatus, Perform
from treadle.fleet.procrastinate_scheduler import ProcrastinateScheduler
from treadle.fleet.queue_tables import NAMES, PREFIX
from treadle.fleet.queue_worker import QueueWorker

Check = Callable[[str], Awaitable[None]]
Plant = Callable[[pytest.MonkeyPatch], None]

PATIENCE_S: Final = 3.0
"""After so long what a bug holds up is taken for held up; what is sound is waited for longer."""


def on_queue(check: Callable[[ProcrastinateScheduler], Awaitable[None]]) -> Check:
    """A check of every queue, on a database."""

    async def run(url: str) -> None:
        queue = test_queues.make_scheduler(url)
        try:
            await check(queue)
        finally:
            await queue.close()

    return run


def finish_by_number(patch: pytest.MonkeyPatch) -> None:
    """A job is ended by its number alone, as Procrastinate's own worker does it."""
    mine = "AND worker_id IS NOT DISTINCT FROM %(worker)s AND attempts = %(attempts)s"
    finish = queue_rows._FINISH
    assert mine in finish
    patch.setattr(queue_rows, "_FINISH", finish.replace(mine, ""))


def queue_twice(patch: pytest.MonkeyPatch) -> None:
    """What is queued already is queued once more."""
    add, once = queue_intake._ADD, "lock, lock, args"
    assert once in add
    patch.setattr(queue_intake, "_ADD", add.replace(once, "lock, NULL, args"))


def fail_together(patch: pytest.MonkeyPatch) -> None:
    """What cannot be put in takes with it what came at the same moment."""
    patch.setattr(queue_intake, "_is_of_one", lambda _: False)


def forget_who_came_with_another(patch: pytest.MonkeyPatch) -> None:
    """Who puts in for others is cancelled, and they are told that it was done."""

    async def put_next(self: queue_intake.QueueIntake, _: object) -> None:
        group, self._waiting = self._waiting, []
        await self._put([job for one in group for job in one.jobs])

    patch.setattr(queue_intake.QueueIntake, "_put_next", put_next)


def forget_who_waits(patch: pytest.MonkeyPatch) -> None:
    """What waits for a person is taken for done."""
    patch.setitem(queue_rows._ENDS, JobStatus.WAITING, "succeeded")


def work_while_waiting(patch: pytest.MonkeyPatch) -> None:
    """What waits for a person is taken by workers."""
    patch.setattr(queue_rows, "WAITING_QUEUE", queue_rows.PREFIX + "default")
    patch.setattr(queue_rows, "_FAR_S", 0.0)


def forget_who_is_cancelled(patch: pytest.MonkeyPatch) -> None:
    """What was cancelled and is left is taken for failed, as Procrastinate does it."""
    repeat, kept = queue_rows._REPEAT, "SET abort_requested = false,"
    assert kept in repeat
    patch.setattr(queue_rows, "_REPEAT", repeat.replace(kept, "SET"))


def count_everybody(patch: pytest.MonkeyPatch) -> None:
    """Who submits reads what all have queued."""
    mine = "args->>'user' = ANY(%(users)s)"
    assert mine in queue_lists._COUNT
    all_of_them = queue_lists._COUNT.replace(mine, "(args->>'user') || '' = ANY(%(users)s)")
    patch.setattr(queue_lists, "_COUNT", all_of_them)


def leave_the_dead(patch: pytest.MonkeyPatch) -> None:
    """Nobody is given the job of who has died."""

    async def retry_stalled(self: ProcrastinateScheduler) -> list[str]:
        return []

    patch.setattr(ProcrastinateScheduler, "retry_stalled", retry_stalled)


def count_no_deaths(patch: pytest.MonkeyPatch) -> None:
    """A task that kills its workers is tried for ever."""
    repeat = queue_rows._REPEAT
    patch.setattr(queue_rows, "_REPEAT", repeat.replace("%(deaths)s::integer", "0"))


def take_when_stopped(patch: pytest.MonkeyPatch) -> None:
    """Who is told to stop goes on taking."""
    run = QueueWorker.run

    async def run_on(self: QueueWorker, stop: asyncio.Event, poll_s: float) -> None:
        late = asyncio.Event()
        running = asyncio.create_task(run(self, late, poll_s))
        await stop.wait()
        await asyncio.sleep(10 * poll_s)
        late.set()
        await running

    patch.setattr(QueueWorker, "run", run_on)


def stop_at_once(patch: pytest.MonkeyPatch) -> None:
    """Who is told to stop drops what is at work."""
    run = ProcrastinateScheduler.run

    async def drop(
        self: ProcrastinateScheduler,
        perform: Perform,
        queues: Sequence[str],
        concurrency: int,
        stop: asyncio.Event,
    ) -> None:
        async def perform_or_drop(job: Job, cancelled: asyncio.Event) -> JobEnd:
            working = asyncio.ensure_future(perform(job, cancelled))
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            return JobEnd(JobStatus.QUEUED) if stop.is_set() else await working

        await run(self, perform_or_drop, queues, concurrency, stop)

    patch.setattr(ProcrastinateScheduler, "run", drop)


def list_what_is_over(patch: pytest.MonkeyPatch) -> None:
    """Each sweep lists every job that there ever was."""
    patch.setattr(ProcrastinateScheduler, "list_open", ProcrastinateScheduler.list)


def remove_at_once(patch: pytest.MonkeyPatch) -> None:
    """What is over is removed before anybody has seen it."""
    patch.setattr(queue_lists, "_REMOVE", queue_lists._REMOVE.replace("%(kept_s)s", "0"))


def forget_the_deadly(patch: pytest.MonkeyPatch) -> None:
    """That workers have died at a task is forgotten: the next one opens it again."""
    remove, deaths = queue_lists._REMOVE, "(job.args->>'deaths')::integer"
    assert deaths in remove
    patch.setattr(queue_lists, "_REMOVE", remove.replace(deaths, "0"))


def change_any_version(patch: pytest.MonkeyPatch) -> None:
    """Two workers begin the same due time."""
    change, mine = queue_schedules._CHANGE, "AND version = %(version)s"
    assert mine in change
    patch.setattr(queue_schedules, "_CHANGE", change.replace(mine, ""))


def replace_schedules(patch: pytest.MonkeyPatch) -> None:
    """A schedule that is added once more begins anew."""
    add = queue_schedules._ADD
    anew = add.replace("DO NOTHING", "(id) DO UPDATE SET version = 0, told = excluded.told")
    assert anew != add
    patch.setattr(queue_schedules, "_ADD", anew)


def take_otherwise(old: str, new: str) -> Plant:
    """Those who take a job within limits do it in another way."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        [(name, statement)] = queue_limits.FUNCTIONS.items()
        assert statement.count(old) == 1
        patch.setitem(queue_limits.FUNCTIONS, name, statement.replace(old, new))

    return plant


def count_without_lock(patch: pytest.MonkeyPatch) -> None:
    """Two who take at the same moment count the same, and take both."""
    take_otherwise(f"PERFORM pg_advisory_xact_lock({queue_limits._TAKE_LOCK});", "")(patch)


def count_own_queues(patch: pytest.MonkeyPatch) -> None:
    """What others have of a limit in other queues does not count."""
    own = "job.queue_name = ANY (queues) AND called.name <> ''"
    take_otherwise(f"starts_with(job.queue_name, '{PREFIX}') AND called.name <> ''", own)(patch)


def stop_at_the_full(patch: pytest.MonkeyPatch) -> None:
    """The first of the queue is waited for, and others stand behind it."""
    left_out = f"AND NOT EXISTS (SELECT FROM exhausted WHERE (kind, name) IN ({NAMES}))"
    take = "candidate WHERE job.id = candidate.id"
    waiting = f"{take} {left_out}"
    [(name, statement)] = queue_limits.FUNCTIONS.items()
    assert left_out in statement
    late = statement.replace(left_out, "").replace(take, waiting)
    patch.setitem(queue_limits.FUNCTIONS, name, late)


BUGS: Final[Mapping[Plant, Check]] = {
    finish_by_number: test_queues.test_what_another_worker_was_given_is_not_left_by_the_one_before,
    queue_twice: on_queue(queue_checks.check_once),
    fail_together: on_queue(test_intake.check_one_that_cannot_be_put_in),
    forget_who_came_with_another: on_queue(test_intake.check_one_that_is_cancelled),
    forget_who_waits: on_queue(queue_checks.check_waiting),
    work_while_waiting: on_queue(queue_checks.check_waiting),
    forget_who_is_cancelled: on_queue(
        test_cancelled_jobs.test_who_takes_a_cancelled_job_next_is_told
    ),
    count_everybody: test_ended_jobs.check_submit,
    leave_the_dead: on_queue(queue_checks.check_stalled),
    count_no_deaths: on_queue(queue_checks.check_stalled),
    take_when_stopped: on_queue(queue_checks.check_drain),
    stop_at_once: on_queue(queue_checks.check_drain),
    list_what_is_over: test_ended_jobs.check_sweep,
    remove_at_once: on_queue(queue_checks.check_removed),
    change_any_version: on_queue(queue_checks.check_schedules),
    replace_schedules: on_queue(queue_checks.check_schedules),
    forget_the_deadly: on_queue(queue_checks.check_removed),
    count_without_lock: test_limits.test_whoever_takes_beside_another_one_waits_for_what_it_takes,
    count_own_queues: on_queue(limit_checks.check_limits_over_queues),
    stop_at_the_full: on_queue(limit_checks.check_limits_over_queues),
}
"""What is planted, and what sees it. What is not planted is seen by nobody: `test_queues.py`."""


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
async def test_what_is_planted_in_a_queue_is_seen(plant: Plant, queue_url: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_checks, "PATIENCE_S", PATIENCE_S)
        plant(patch)
        with pytest.raises((Exception, pytest.fail.Exception)):
            await BUGS[plant](queue_url)
