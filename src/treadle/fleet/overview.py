"""How a fleet stands, for people: what the queue knows, and what the threads say.

`treadle fleet` shows it, and the page of a server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from treadle.core.llm import Usage
from treadle.core.task.machine import TaskMachine
from treadle.errors import TreadleError
from treadle.fleet.job_mark import describe_deaths, find_problem, is_over
from treadle.fleet.port import JobState, JobStatus, Limit, QueueState, WorkerState
from treadle.thread.fold import ThreadFold

ORDER: Final = ("running", "waiting", "failed", "queued", "cancelled", "done")
"""Of tasks by their status: those at work first, then those that need a person."""
_NAMES_MAX: Final = 20


class FleetTask(Struct, frozen=True):
    """A task of a fleet: its job, and what its thread says.

    `worker` is the name of who works on it, `worker_id` what the queue calls them, `since` when it
    came to stand so; `usage` is what it has used of models so far, `problem` why the thread cannot
    be read, why no worker tries it any more, or why it has failed; `questions` are the calls that
    wait for a person; one that `is_over` is not tried again.
    """

    thread: str
    agent: str
    status: str
    queue: str
    user: str
    attempts: int
    worker: str = ""
    worker_id: str = ""
    since: str = ""
    title: str = ""
    usage: Usage = Usage()
    problem: str = ""
    questions: tuple[str, ...] = ()
    is_over: bool = False


class FleetView(Struct, frozen=True):
    """How a fleet stands: workers, how many tasks there are of each status, and some of them.

    `queues` has the counts of each queue; `usage` is that of the tasks that are here.
    """

    workers: tuple[WorkerState, ...]
    counts: dict[str, int]
    queues: dict[str, dict[str, int]]
    usage: Usage
    tasks: tuple[FleetTask, ...]
    limits: tuple[Limit, ...] = ()


def describe_fleet(state: QueueState, load: Callable[[str], ThreadFold]) -> FleetView:
    """How a fleet stands.

    Args:
        state: of its queue.
        load: a thread by its id; raises `TreadleError` if it cannot be read.
    """
    names = {one.id: one.name for one in state.workers}
    counts: Counter[str] = Counter()
    for some in state.counts.values():
        counts.update(some)
    tasks = [_describe(one, names.get(one.worker, ""), load) for one in state.jobs]
    tasks.sort(key=lambda one: ORDER.index(one.status))
    usage = sum((one.usage for one in tasks), Usage())
    found = (dict(counts), state.counts, usage, tuple(tasks), state.limits)
    return FleetView(state.workers, *found)


def describe_limit(limit: Limit) -> str:
    """What a limit allows, and what is at work."""
    told = f"{limit.kind.value} {limit.name}: {limit.number} at a time"
    most = sorted(limit.at_work.items(), key=lambda one: (-one[1], one[0]))
    named = [f"{number} of {name}" for name, number in most[:_NAMES_MAX]]
    if more := len(most) - len(named):
        named.append(f"those of {more} more")
    return told + (f", at work: {', '.join(named)}" if named else "")


def _describe(state: JobState, worker: str, load: Callable[[str], ThreadFold]) -> FleetTask:
    job, status = state.job, state.status.value
    stands = (status, job.queue, job.user, state.attempts, worker, state.worker, state.since)
    task = FleetTask(job.thread, job.agent, *stands)
    try:
        fold = load(job.thread)
    except TreadleError as error:
        return replace(task, problem=error.message)
    problem = find_problem(fold)
    if state.status is JobStatus.FAILED and not problem and job.deaths:
        problem = describe_deaths(job.deaths)
    elif state.status is JobStatus.FAILED and isinstance(fold.machine, TaskMachine):
        problem = problem or fold.machine.memory.error or ""
    questions = fold.machine.questions if state.status is JobStatus.WAITING else ()
    asked = tuple(f"{one.call.tool_name} {one.call.arguments_json}" for one in questions)
    return replace(
        task,
        title=fold.title() or "",
        usage=fold.usage,
        problem=problem,
        questions=asked,
        is_over=is_over(fold),
    )
