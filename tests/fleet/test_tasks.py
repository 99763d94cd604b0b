"""Tasks of a fleet in one process: submitted, worked on, waited for, answered, cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from fleet.queue_checks import PATIENCE_S, until
from treadle import (
    Agent,
    AgentError,
    AgentFailed,
    ApprovalNeeded,
    BudgetExceeded,
    BuildError,
    EffectClass,
    Fleet,
    LocalStore,
    MemoryScheduler,
    ProcrastinateScheduler,
    ScriptedModel,
    StoreError,
    TokenBudget,
    TreadleError,
    UnknownThreadError,
    UsageError,
    tool,
)
from treadle.agent.task_lines import read_task_lines
from treadle.core.task.machine import TaskMachine
from treadle.fleet.port import JobStatus

PAY = {"calls": [{"tool": "pay", "arguments": {"number": 7}}]}
PAID = {"text": "It is paid."}


class Ledger:
    """What was paid; a payment can be made to wait."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()

    def make_agent(self, store: LocalStore, *turns: Any, **options: Any) -> Agent[None, str]:
        @tool(effect=EffectClass.MUTATE)
        async def pay(number: int) -> str:
            """Pay a bill."""
            self.paid.append(number)
            self.begun.set()
            await self.may_end.wait()
            return "paid"

        turns = turns or (PAY, PAID)
        return Agent("clerk", model=ScriptedModel.of(*turns), tools=[pay], store=store, **options)


@asynccontextmanager
async def working(fleet: Fleet, concurrency: int = 2) -> AsyncIterator[asyncio.Event]:
    stop = asyncio.Event()
    task = asyncio.create_task(fleet.run(concurrency=concurrency, stop=stop))
    try:
        yield stop
        stop.set()
        async with asyncio.timeout(PATIENCE_S):
            await task
    finally:
        task.cancel()


async def has_status(fleet: Fleet, status: JobStatus) -> bool:
    return {one.status for one in await fleet.jobs()} == {status}


async def test_a_task_is_submitted_worked_on_and_answered() -> None:
    store, ledger = LocalStore.in_memory(), Ledger()
    agent, fleet = ledger.make_agent(store), Fleet(MemoryScheduler())
    fleet.add(agent)
    submitted = await agent.submit("Pay bill 7.", key="bill-7", user="ann")
    assert await has_status(fleet, JobStatus.QUEUED)
    async with working(fleet):
        result = await submitted.result()
    assert (result.output, ledger.paid) == ("It is paid.", [7])
    assert result.usage.total_tokens > 0
    assert await has_status(fleet, JobStatus.DONE)
    # Anybody who knows the key has it, and once more it is the same task.
    again = await agent.submit("Pay it once more!", key="bill-7")
    assert again.id == agent.submitted("bill-7").id == submitted.id
    assert await has_status(fleet, JobStatus.DONE), "nobody has to look at it again"
    assert (await agent.submitted(thread_id=submitted.id).result()).text == "It is paid."
    records = [bytes(one.event) async for one in submitted.follow()]
    assert not [one for one in records if b"had died" in one]
    assert (b"thread_created" in records[0], b"task_ended" in records[-1]) == (True, True)
    with pytest.raises(UnknownThreadError):
        agent.submitted("bill-8")


async def test_a_task_that_waits_for_a_person_occupies_nobody() -> None:
    store, ledger = LocalStore.in_memory(), Ledger()
    agent, fleet = ledger.make_agent(store, approval="ask"), Fleet(MemoryScheduler())
    fleet.add(agent)
    submitted = await agent.submit("Pay bill 7.")
    async with working(fleet, concurrency=1):
        with pytest.raises(ApprovalNeeded):
            await submitted.result()
        await until(lambda: has_status(fleet, JobStatus.WAITING))
        assert ledger.paid == []
        [question] = await submitted.find_questions()
        assert question.call.tool_name == "pay"
        await submitted.approve()
        assert (await submitted.result()).output == "It is paid."
        assert ledger.paid == [7]
        assert not [one async for one in submitted.follow() if b"had died" in bytes(one.event)]
        other = await agent.submit("Pay it again.")
        await until(lambda: is_waiting(fleet, other.id))
        await other.reject(reason="no money")
        assert (await other.result()).output == "It is paid."
    assert ledger.paid == [7]


async def is_waiting(fleet: Fleet, thread_id: str) -> bool:
    return any(
        one.job.thread == thread_id and one.status is JobStatus.WAITING
        for one in await fleet.jobs()
    )


async def test_an_answer_whose_word_to_the_queue_was_lost_is_found() -> None:
    store, ledger, queue = LocalStore.in_memory(), Ledger(), MemoryScheduler()
    agent, fleet = ledger.make_agent(store, approval="ask"), Fleet(queue)
    fleet.add(agent)
    submitted = await agent.submit("Pay bill 7.")
    async with working(fleet):
        await until(lambda: has_status(fleet, JobStatus.WAITING))
        lost = Fleet(MemoryScheduler())
        other = ledger.make_agent(store, approval="ask")
        lost.add(other)
        await other.submitted(thread_id=submitted.id).approve()
        assert await has_status(fleet, JobStatus.WAITING)
        await fleet.make_worker().sweep()
        assert (await submitted.result()).output == "It is paid."


async def test_a_task_whose_job_was_lost_is_found(tmp_path: Any) -> None:
    """The process dies after the journal is durable, and before the queue has heard of it."""
    store, ledger = LocalStore.in_memory(), Ledger()
    agent = ledger.make_agent(store)
    nowhere = f"postgresql://postgres@/nobody?host={tmp_path}"
    Fleet(ProcrastinateScheduler(nowhere)).add(agent)
    with pytest.raises(StoreError):
        await agent.submit("Pay bill 7.", key="bill-7", queue="default", priority=3)
    fleet, same = Fleet(MemoryScheduler()), ledger.make_agent(store)
    fleet.add(same)
    async with working(fleet):
        assert (await same.submitted("bill-7").result()).output == "It is paid."
    [state] = await fleet.jobs()
    assert (state.job.priority, ledger.paid) == (3, [7])


async def test_a_thread_that_somebody_holds_waits_for_them() -> None:
    store, ledger = LocalStore.in_memory(), Ledger()
    agent, fleet = ledger.make_agent(store), Fleet(MemoryScheduler())
    fleet.add(agent)
    submitted = await agent.submit("Pay bill 7.")
    held = store.hold(submitted.id)

    async def was_refused() -> bool:
        return any(one.attempts for one in await fleet.jobs())

    async with working(fleet):
        await until(was_refused)
        assert ledger.paid == []
        held.close()
        await submitted.result()
    assert ledger.paid == [7]


async def test_a_worker_that_is_to_stop_ends_its_step_and_begins_no_other() -> None:
    store, ledger = LocalStore.in_memory(), Ledger()
    agent, fleet = ledger.make_agent(store, PAY, PAY, PAID), Fleet(MemoryScheduler())
    fleet.add(agent)
    submitted = await agent.submit("Pay bill 7.")
    ledger.may_end.clear()
    async with working(fleet) as stop:
        await ledger.begun.wait()
        stop.set()
        ledger.may_end.set()
    assert ledger.paid == [7]
    assert await has_status(fleet, JobStatus.QUEUED)
    async with working(fleet):
        assert (await submitted.result()).output == "It is paid."
    assert ledger.paid == [7, 7]
    assert not [one async for one in submitted.follow() if b"uncertain" in bytes(one.event)]


async def test_a_task_is_cancelled_while_it_waits_and_while_it_runs() -> None:
    store, ledger = LocalStore.in_memory(), Ledger()
    agent, fleet = ledger.make_agent(store), Fleet(MemoryScheduler())
    fleet.add(agent)
    queued = await agent.submit("Pay bill 7.")
    assert await fleet.cancel(queued.id)
    with pytest.raises(AgentError, match="cancelled"):
        await queued.result()
    ledger.may_end.clear()
    running = await agent.submit("Pay bill 7.")
    async with working(fleet):
        await ledger.begun.wait()
        assert await fleet.cancel(running.id)
        with pytest.raises(AgentError, match="cancelled"):
            await running.result()
        await until(lambda: has_status(fleet, JobStatus.CANCELLED))
        await fleet.make_worker().sweep()  # it is no lost one
        assert await has_status(fleet, JobStatus.CANCELLED)
        ledger.may_end.set()
        await fleet.retry(queued.id)
        assert (await queued.result()).output == "It is paid."
        with pytest.raises(UsageError, match="nothing left"):
            await fleet.retry(queued.id)
    with pytest.raises(UnknownThreadError):
        await fleet.cancel("nobody")


async def test_a_task_that_ends_without_an_answer_says_so() -> None:
    store = LocalStore.in_memory()
    fleet = Fleet(MemoryScheduler())
    agent = Agent("a", model=ScriptedModel.of({"text": ""}), store=store, max_steps=1)
    fleet.add(agent)
    submitted = await agent.submit("Say nothing.")
    async with working(fleet):
        with pytest.raises((AgentFailed, AgentError)):
            await submitted.result()
        await until(lambda: has_status(fleet, JobStatus.FAILED))


async def test_what_cannot_be_is_refused() -> None:
    store, ledger = LocalStore.in_memory(), Ledger()
    agent, fleet = ledger.make_agent(store), Fleet(MemoryScheduler())
    with pytest.raises(UsageError, match="in no fleet"):
        await agent.submit("Pay.")
    fleet.add(agent)
    with pytest.raises(BuildError, match="called 'clerk' already"):
        fleet.add(ledger.make_agent(store))
    async with agent.thread("talk"):
        pass
    with pytest.raises(UsageError, match="of a conversation"):
        await agent.submit("Pay.", key="talk")
    begun = store.ids()
    for said in ({"user": "a" * 501}, {"queue": "\0"}, {"organization": "a\nb"}):
        with pytest.raises(UsageError, match="no name in one line"):
            await agent.submit("Pay.", **said)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a priority is from -1000 to 1000"):
        await agent.submit("Pay.", priority=1001)
    assert store.ids() == begun
    with pytest.raises(UsageError, match="takes a int as deps"):
        fleet.add(Agent("b", model=ScriptedModel.of(PAID), deps=int, store=store), "text")  # type: ignore[arg-type]


async def test_a_task_of_later_is_not_begun() -> None:
    store, ledger = LocalStore.in_memory(), Ledger()
    agent, fleet = ledger.make_agent(store), Fleet(MemoryScheduler())
    fleet.add(agent)
    later = datetime.now(UTC) + timedelta(days=1)
    await agent.submit("Pay bill 7.", start_at=later)
    now = await agent.submit("Pay bill 7.")
    async with working(fleet):
        await now.result()
        await fleet.make_worker().sweep()
    assert [one.status for one in await fleet.jobs()] == [JobStatus.QUEUED, JobStatus.DONE]


async def test_a_task_has_a_model_and_a_budget_of_its_own(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text('[[replies]]\ntext = "Somebody else has paid."\n')
    store, ledger = LocalStore.in_memory(), Ledger()
    agent = ledger.make_agent(store, budget=TokenBudget(max_total=1000))
    fleet = Fleet(MemoryScheduler())
    fleet.add(agent)
    name = f"scripted:{other}"
    varied = await agent.submit("Pay bill 7.", model=name, budget=TokenBudget(max_input=10_000))
    plain = await agent.submit("Pay bill 7.", key="plain")
    poor = await agent.submit("Pay bill 7.", budget=TokenBudget(max_total=1))
    async with working(fleet):
        assert (await varied.result()).output == "Somebody else has paid."
        assert (await plain.result()).output == "It is paid."
        with pytest.raises(BudgetExceeded):
            await poor.result()
    memory = cast("TaskMachine", store.load(varied.id).fold.machine).memory
    # Of a task's budget and its agent's the smaller limits hold.
    assert memory.budget == TokenBudget(max_total=1000, max_input=10_000)
    count = len([*store.ids()])
    for options, why in (
        ({"model": "nobody:at-all"}, "nobody"),
        ({"budget": TokenBudget(max_total=-1)}, "max_total"),
        ({"budget": 7}, "not of its kind"),
    ):
        with pytest.raises(TreadleError, match=why):
            await agent.submit("Pay.", **cast("Any", options))
    assert len([*store.ids()]) == count


def test_a_file_of_tasks_says_more_of_some(tmp_path: Path) -> None:
    given = {"agent": "clerk", "user": "ann", "max_cost": Decimal(2), "at": None, "repo": ""}
    found = read_task_lines(
        [
            "Pay bill 7.",
            "",
            '{"task": "Pay {8}.", "model": "large", "max_cost": 5, "time_limit": 60, "repo": "u"}',
            '{"task": "Later.", "at": "2027-01-31T08:00:00+01:00", "max_tokens": 9}',
        ],
        given,
    )
    said = {"agent": "clerk", "user": "ann"}
    half = timezone(timedelta(hours=1))
    two, five = TokenBudget(max_cost_usd=Decimal(2)), TokenBudget(max_cost_usd=Decimal(5))
    assert found == [
        ("Pay bill 7.", {**said, "repository": "", "budget": two}),
        (
            "Pay {8}.",
            {**said, "repository": "u", "model": "large", "budget": replace(five, max_time_s=60)},
        ),
        (
            "Later.",
            {
                **said,
                "repository": "",
                "start_at": datetime(2027, 1, 31, 8, tzinfo=half),
                "budget": replace(two, max_total=9),
            },
        ),
    ]
    for line, why in (
        ("{pay}", "line 2 is no task"),
        ('{"model": "large"}', "missing required field `task`"),
        ('{"task": "a", "cost": 1}', "unknown field `cost`"),
        ('{"task": "a", "max_cost": 0}', "> 0"),
        ('{"task": "a", "priority": 1001}', "<= 1000"),
        ('{"task": "a", "at": "2027-01-31T08:00:00"}', "timezone"),
    ):
        with pytest.raises(UsageError, match=why):
            read_task_lines(["Pay.", line], given)
