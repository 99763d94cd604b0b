"""What a thread says of its job in a fleet, so that the job can be made of the journal alone."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, TypedDict

import msgspec
from msgspec import Struct

from treadle.core.budget import TokenBudget
from treadle.core.task.machine import TaskMachine
from treadle.fleet.port import DEFAULT_QUEUE, Job, Scheduler
from treadle.store.threads import AnyThreads
from treadle.thread.facts import ExtraSet
from treadle.thread.fold import ThreadFold

EXTRA_NAME: Final = "fleet"
"""Under this name a thread keeps its mark."""
CANCELLED_TAG: Final = "cancelled"
"""Of a thread that nobody is to work on any more, though its task is not over."""


PROBLEM_NAME: Final = "fleet_problem"
"""Under this name it says why no worker tries it any more, until somebody has it tried again."""


class JobOptions(TypedDict, total=False):
    """What is said of a task that is submitted.

    `queue`: only its workers take it; `default` if not said. `priority`: higher ones are taken
    first, from -1,000 to 1,000. `user`: for whom it is: of two users' tasks those of one with
    fewer waiting come first. `start_at`: not before this moment, which has a time zone.
    `repository`: where git gets what it works on, for an agent with `repositories`; from `ref`, a
    branch, a tag or a commit, `HEAD` if not said. `model`: who answers in this task, instead of the
    agent's; workers open it with their own keys. `budget`: what the task may use; of it and the
    agent's own the smaller limits hold.
    """

    queue: str
    priority: int
    user: str
    start_at: datetime
    repository: str
    ref: str
    model: str
    budget: TokenBudget


class JobMark(Struct, frozen=True, omit_defaults=True):
    """All of a job but its thread, and what it works on: see `Job`, `JobOptions`."""

    agent: str
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    user: str = ""
    start_at: datetime | None = None
    repository: str = ""
    ref: str = "HEAD"
    model: str = ""

    def make_fact(self) -> ExtraSet:
        """The record of it."""
        return ExtraSet({EXTRA_NAME: msgspec.to_builtins(self)})

    def make_job(self, thread_id: str) -> Job:
        """The job of a thread that says this."""
        return Job(thread_id, self.agent, self.queue, self.priority, self.user, self.start_at)


class Membership(Struct, frozen=True):
    """An agent's place in a fleet: its queue, its threads, what its tools are given."""

    scheduler: Scheduler
    store: AnyThreads
    deps: Any


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
