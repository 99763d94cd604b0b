"""A fleet as a program has it: clerks pay bills, and write what they paid into a ledger outside.

The environment says where threads and queue are: `FLEET_URL`, `FLEET_FOLDER`. While
`FLEET_FOLDER/hold` is there, a payment that was written does not end. While `FLEET_FOLDER/pace` is,
no more are made than it says.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from treadle import (
    Agent,
    EffectClass,
    Fleet,
    LocalStore,
    PostgresStore,
    ProcrastinateScheduler,
    Scheduler,
    ScriptedModel,
    Store,
    ToolContext,
    tool,
)
from treadle.fleet.port import Job, JobEnd, JobStatus, Perform, TaskSchedule

FOLDER = Path(os.environ["FLEET_FOLDER"])
URL = os.environ["FLEET_URL"]
LEASE_S = 1.5

PAY = {"calls": [{"tool": "pay", "arguments": {"number": 1}}]}
ALSO = {"calls": [{"tool": "pay", "arguments": {"number": 2}}]}
DONE = {"text": "It is paid."}


BUG = os.environ.get("FLEET_BUG", "")
"""What is planted: see `test_chaos.py`."""


@tool(effect=EffectClass.IDEMPOTENT if BUG == "runs calls again" else EffectClass.MUTATE)
async def pay(context: ToolContext, number: int) -> str:
    """Pay a bill, as a bank would do it: what was begun there is done."""
    while not _may_pay():  # noqa: ASYNC110  as below
        await asyncio.sleep(0.01)
    with (FOLDER / "ledger").open("a") as ledger:
        ledger.write(f"{number} {context.thread_id} {context.call_id} {os.getpid()}\n")
    while (FOLDER / "hold").exists():  # noqa: ASYNC110  another process takes it away
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.02)
    return "paid"


def _may_pay() -> bool:
    """Whether no more is paid than the test has allowed so far."""
    with (FOLDER / "ledger").open("a+") as ledger:
        ledger.seek(0)
        count = len(ledger.readlines())
    try:
        return count < int((FOLDER / "pace").read_text())
    except FileNotFoundError:
        return True


class AcknowledgesFirst:
    """A queue whose workers say that a job is done before it is."""

    def __init__(self, queue: ProcrastinateScheduler) -> None:
        self.queue = queue

    def __getattr__(self, name: str) -> Any:
        return getattr(self.queue, name)

    async def run(
        self, perform: Perform, queues: Sequence[str], concurrency: int, stop: asyncio.Event
    ) -> None:
        async def acknowledge(job: Job, cancelled: asyncio.Event) -> JobEnd:
            self.work = asyncio.create_task(self._work_when_left(perform, job, cancelled))
            return JobEnd(JobStatus.DONE)

        await self.queue.run(acknowledge, queues, concurrency, stop)

    async def _work_when_left(self, perform: Perform, job: Job, cancelled: asyncio.Event) -> None:
        while job.thread not in [  # noqa: ASYNC110  the queue is asked
            one.job.thread for one in await self.queue.list() if one.status is JobStatus.DONE
        ]:
            await asyncio.sleep(0.01)
        await perform(job, cancelled)


class DiesAtSchedules:
    """A queue whose worker is killed beside its nth change of a schedule, before or behind it."""

    def __init__(self, queue: ProcrastinateScheduler, place: str) -> None:
        self.queue, self.place, self.changes = queue, place, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.queue, name)

    def _die_at(self, side: str) -> None:
        if self.place == f"{side} {self.changes}":
            os.kill(os.getpid(), signal.SIGKILL)

    async def change_schedule(self, schedule: TaskSchedule) -> bool:
        self.changes += 1
        self._die_at("before")
        was_changed = await self.queue.change_schedule(schedule)
        self._die_at("behind")
        return was_changed


def make_store() -> Store:
    """Threads in a folder of this machine, or in the database."""
    if os.environ.get("FLEET_STORE") == "folder":
        return LocalStore(FOLDER / "threads")
    return PostgresStore(URL, "owner", lease_s=LEASE_S, patience_s=30.0)


store = make_store()
queue = ProcrastinateScheduler(URL, heartbeat_s=0.2, stalled_s=2.0, poll_s=0.2)
is_hasty = BUG == "acknowledges first"
scheduler: Any = AcknowledgesFirst(queue) if is_hasty else queue
if BUG.startswith("dies at schedules "):
    scheduler = DiesAtSchedules(queue, BUG.removeprefix("dies at schedules "))
fleet = Fleet(
    cast("Scheduler", scheduler),
    sweep_s=3600 if is_hasty else 0.5,  # it would find out what it has done
    deaths_max=int(os.environ.get("FLEET_DEATHS", "5")),
)
clerk = Agent("clerk", model=ScriptedModel.of(PAY, ALSO, DONE), tools=[pay], store=store)
many = Agent("many", model=ScriptedModel.of(PAY, ALSO, PAY, ALSO, DONE), tools=[pay], store=store)
asking = Agent(
    "asking", model=ScriptedModel.of(PAY, DONE), tools=[pay], store=store, approval="ask"
)
fleet.add(clerk)
fleet.add(many)
fleet.add(asking)


@tool(effect=EffectClass.MUTATE)
async def drop(context: ToolContext) -> str:
    """End the process that runs it, as a program without memory is ended."""
    with (FOLDER / "ledger").open("a") as ledger:
        ledger.write(f"dropped {context.thread_id} {context.call_id} {os.getpid()}\n")
    if not (FOLDER / "mended").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return "dropped nothing"


DROP = {"calls": [{"tool": "drop", "arguments": {}}]}
deadly = Agent("deadly", model=ScriptedModel.of(DROP, DROP, DROP, DONE), tools=[drop], store=store)
fleet.add(deadly)
