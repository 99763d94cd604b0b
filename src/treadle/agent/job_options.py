"""What is said of a task that is submitted to a fleet, and an agent's place in one."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypedDict

from msgspec import Struct

from treadle.core.budget import TokenBudget
from treadle.fleet.port import Scheduler
from treadle.store.threads import AnyThreads


class JobOptions(TypedDict, total=False):
    """What is said of a task that is submitted.

    `queue`: only its workers take it; `default` if not said. `priority`: higher ones are taken
    first, from -1,000 to 1,000. `user`: for whom it is: of two users' tasks those of one with
    fewer waiting come first. `start_at`: not before this moment, which has a time zone.
    `repository`: where git gets what it works on, for an agent with `repositories`; from `ref`, a
    branch, a tag or a commit, `HEAD` if not said. `model`: who answers in this task, instead of the
    agent's; workers open it with their own keys. `organization`: of whom it is, by which it can be
    limited; not said for a store in a server's database, whose user has one. `budget`: what the
    task may use; of it and the agent's own the smaller limits hold.
    """

    queue: str
    priority: int
    user: str
    start_at: datetime
    repository: str
    ref: str
    model: str
    organization: str
    budget: TokenBudget


class Membership(Struct, frozen=True):
    """An agent's place in a fleet: its queue, its threads, what its tools are given."""

    scheduler: Scheduler
    store: AnyThreads
    deps: Any
