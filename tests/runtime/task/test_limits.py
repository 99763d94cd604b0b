"""Steps, tokens, cost and time each stop a run, and a resumed run cannot spend twice."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from runtime.clock import tick
from runtime.desk import Desk, Folder, Run, Toolbox, for_ever, mutate, read
from runtime.task.agents import (
    DONE,
    Says,
    agent,
    close,
    events,
    last_line,
    lasting,
    on_one_clock,
    priced,
)
from treadle import outputs
from treadle.core.approval import AlwaysAsk, Approved, Question
from treadle.core.budget import TokenBudget
from treadle.core.config import AgentConfig as Settings
from treadle.core.llm import Usage
from treadle.errors import BudgetExceeded
from treadle.thread.usage import list_usage, sum_usage_by_turn

LOOK: tuple[str, ...] = ("look",)

LIMITS: dict[str, tuple[dict[str, Any], int, str, str]] = {
    "steps": ({"max_steps": 2}, 2, "steps", "Max steps 2 exceeded"),
    "tokens": ({"max_tokens": 220}, 2, "tokens", "220 of 220 tokens used"),
    "input": ({"budget": TokenBudget(max_input=150)}, 2, "input tokens", "200 of 150 input"),
    "output": ({"budget": TokenBudget(max_output=10)}, 1, "output tokens", "10 of 10 output"),
    "cost": ({"max_cost": "0.5"}, 2, "cost", "0.6000 of 0.5 USD spent"),
    "time": ({"time_limit": 25}, 3, "time", "Time limit exceeded: 25 of 25 s used"),
}
"""Of each limit: how it is set, the requests that may be made, its name, and what is said of it."""


@pytest.mark.parametrize("name", LIMITS)
async def test_each_limit_stops_the_run_and_the_trace_says_which(desk: Desk, name: str) -> None:
    options, count, limit, words = LIMITS[name]
    on_one_clock(desk)
    model = Says(LOOK, usage=priced("0.3"), delay_s=10.0)
    engine = agent(desk, model, tools=Toolbox(look=read()), **options).build()
    with pytest.raises(BudgetExceeded, match=words):
        await engine.run()
    assert len(model.requests) == count
    assert engine.state == "Error"
    assert engine.memory.exceeded == limit
    assert words in (engine.memory.error or "")
    before, last = engine.trace[-2:]
    assert (before.state, before.event) == (
        "Planning",
        "MAX_STEPS" if name == "steps" else "BUDGET_EXCEEDED",
    )
    assert (last.state, last.event) == ("Error", "AGENT_FAILED")
    assert words in before.data
    assert words in last.data
    await close(desk, engine)


@pytest.mark.parametrize("name", ["tokens", "cost", "steps"])
async def test_a_resumed_run_cannot_spend_twice(desk: Desk, name: str) -> None:
    options, count, _, words = LIMITS[name]
    model = Says(LOOK, usage=priced("0.3"))
    tools = Toolbox(look=read(for_ever))
    engine = agent(desk, model, tools=tools, **options).build()
    running = asyncio.ensure_future(engine.run())
    await desk.heard.until(outputs.ToolStarted)
    running.cancel()
    desk.crash()
    await asyncio.gather(running, return_exceptions=True)

    again = Says(LOOK, usage=priced("0.3"))
    engine = agent(desk, again, tools=Toolbox(look=read()), **options).resume(engine.thread_id)
    with pytest.raises(BudgetExceeded, match=words):
        await engine.run()
    assert len(model.requests) + len(again.requests) == count
    await close(desk, engine)


async def test_a_run_that_is_over_its_budget_stays_so_for_whoever_resumes_it(desk: Desk) -> None:
    engine = agent(desk, Says(LOOK), tools=Toolbox(look=read()), max_tokens=100).build()
    with pytest.raises(BudgetExceeded):
        await engine.run()
    await engine.close()
    model = Says(DONE)
    engine = agent(desk, model, max_tokens=10_000).resume(engine.thread_id)
    with pytest.raises(BudgetExceeded, match="110 of 100"):
        await engine.run()
    assert model.requests == []
    await close(desk, engine)


async def test_a_budget_of_nothing_stops_before_the_first_request(desk: Desk) -> None:
    model = Says(DONE)
    engine = agent(desk, model, max_tokens=0).build()
    with pytest.raises(BudgetExceeded, match="0 of 0 tokens"):
        await engine.run()
    assert model.requests == []
    await close(desk, engine)


async def test_the_time_limit_ends_a_request_that_is_in_flight(desk: Desk) -> None:
    on_one_clock(desk)
    engine = agent(desk, Says(DONE, delay_s=1000.0), time_limit=30).build()
    with pytest.raises(BudgetExceeded, match="Time limit exceeded: 30 of 30 s"):
        await engine.run()
    assert asyncio.get_running_loop().time() == 30
    assert last_line(engine)[1] == "AGENT_FAILED"
    assert engine.memory.total_usage == Usage()
    await close(desk, engine)


async def test_the_time_limit_ends_a_tool_that_is_in_flight(desk: Desk) -> None:
    on_one_clock(desk)
    tools = Toolbox(look=read(_long), cut=mutate(for_ever), wait=read(for_ever), later=read())
    settings = Settings(parallel_max=2)
    model = Says(("look", "cut", "wait", "later"), DONE)
    engine = agent(desk, model, tools=tools, time_limit=30, settings=settings).build()
    with pytest.raises(BudgetExceeded, match="30 of 30 s"):
        await engine.run()
    assert asyncio.get_running_loop().time() == 30
    assert sorted(tools.ended) == [run.call.id for run in tools.runs]
    assert tools.ran == ["look", "cut", "wait"]
    assert "BUDGET_EXCEEDED" in events(engine)
    told = {m.name: m.content for m in engine.memory.transcript if m.role == "tool"}
    assert told["look"] == "seen"
    assert "had started and may have had effects" in told["cut"]
    assert "had not started" in told["later"]
    await close(desk, engine)


async def _long(_: Run) -> str:
    await lasting(1.0)
    return "seen"


@pytest.mark.parametrize("ahead_s", [0.0, 5.0], ids=["one clock", "two clocks"])
async def test_the_time_limit_ends_a_hook_and_a_retry_that_wait(desk: Desk, ahead_s: float) -> None:
    """Also if the clock of the records has not come as far as that of the loop."""
    if not ahead_s:
        on_one_clock(desk)
    hook = Folder(asyncio.Event().wait)
    model = Says(("cut",), DONE)
    engine = agent(desk, model, tools=Toolbox(cut=mutate()), time_limit=300, workspace=hook).build()
    with pytest.raises(BudgetExceeded, match="of 300 s used"):
        await engine.run()
    assert engine.state == "Error"
    assert len(model.requests) == 1
    await close(desk, engine)

    down: dict[str, Any] = {"error": {"kind": "network", "retry_after_s": 500}, "times": 0}
    engine = agent(desk, down, time_limit=30).build()
    with pytest.raises(BudgetExceeded, match="of 30 s used"):
        await engine.run()
    assert last_line(engine)[1] == "AGENT_FAILED"
    await close(desk, engine)


async def dies_while_looking(desk: Desk, model: Says, **options: Any) -> str:
    """A process that dies in a tool; the thread it leaves, and a clock for the next process."""
    engine = agent(desk, model, tools=Toolbox(look=read(for_ever)), **options).build()
    running = asyncio.ensure_future(engine.run())
    await desk.heard.until(outputs.ToolStarted)
    desk.crash()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    on_one_clock(desk)
    return engine.thread_id


async def test_the_time_between_two_processes_does_not_count(desk: Desk) -> None:
    on_one_clock(desk)
    model = Says(LOOK, DONE, delay_s=10.0)
    thread_id = await dies_while_looking(desk, model, time_limit=25)
    await lasting(5000.0)
    engine = agent(desk, model, tools=Toolbox(look=read()), time_limit=25).resume(thread_id)
    assert await engine.run() == DONE
    assert engine.memory.elapsed_s == 20.0
    await close(desk, engine)


async def test_time_used_before_the_death_of_a_process_counts_after_it(desk: Desk) -> None:
    on_one_clock(desk)
    model = Says(LOOK, DONE, delay_s=20.0)
    thread_id = await dies_while_looking(desk, model, time_limit=25)
    began = asyncio.get_running_loop().time()
    engine = agent(desk, model, tools=Toolbox(look=read())).resume(thread_id)
    with pytest.raises(BudgetExceeded, match="25 of 25 s"):
        await engine.run()
    assert asyncio.get_running_loop().time() == began + 5.0
    await close(desk, engine)


async def test_an_agent_that_lay_ready_for_an_hour_has_all_of_its_time(desk: Desk) -> None:
    on_one_clock(desk)
    engine = agent(desk, Says(DONE, delay_s=20.0), time_limit=25).build()
    await lasting(3600.0)
    assert await engine.run() == DONE
    assert engine.memory.elapsed_s == 20.0
    await close(desk, engine)


async def test_the_time_a_person_takes_does_not_count(desk: Desk) -> None:
    on_one_clock(desk)

    async def decide(_: Question) -> Approved:
        await lasting(100_000.0)
        return Approved()

    model = Says(("cut", "cut"), DONE, delay_s=10.0)
    engine = (
        agent(desk, model, tools=Toolbox(cut=mutate()), time_limit=25, approval=AlwaysAsk())
        .on_approval(decide)
        .build()
    )
    assert await engine.run() == DONE
    assert engine.memory.elapsed_s == 20.0
    assert asyncio.get_running_loop().time() > 200_000
    await close(desk, engine)


async def test_after_a_person_the_rest_of_the_time_still_ends_the_run(desk: Desk) -> None:
    on_one_clock(desk)

    async def decide(_: Question) -> Approved:
        await lasting(1000.0)
        return Approved()

    tools = Toolbox(cut=mutate(for_ever))
    engine = (
        agent(desk, Says(("cut",), delay_s=10.0), tools=tools, time_limit=25)
        .approval(AlwaysAsk())
        .on_approval(decide)
        .build()
    )
    with pytest.raises(BudgetExceeded, match="25 of 25 s"):
        await engine.run()
    assert asyncio.get_running_loop().time() == 10 + 1000 + 15
    await close(desk, engine)


async def test_usage_that_nobody_reports_is_estimated_and_says_so(desk: Desk) -> None:
    model = Says(("look",), DONE, usage=None)
    engine = agent(desk, model, tools=Toolbox(look=read("x" * 4000))).build()
    await engine.run()
    used = engine.memory.total_usage
    assert used.estimated
    assert 1000 < used.input_tokens < 1200
    assert used.output_tokens >= len(DONE) // 4
    await close(desk, engine)


async def test_a_budget_holds_for_a_model_that_reports_nothing(desk: Desk) -> None:
    model = Says(LOOK, usage=None)
    engine = agent(desk, model, tools=Toolbox(look=read("x" * 4000)), max_tokens=1500).build()
    with pytest.raises(BudgetExceeded, match="tokens used"):
        await engine.run()
    assert len(model.requests) == 3
    await close(desk, engine)


@pytest.mark.parametrize("usage", [priced("0.25"), None])
async def test_the_ledger_and_the_task_count_the_same(desk: Desk, usage: Usage | None) -> None:
    tools = Toolbox(look=read())
    engine = agent(desk, Says(LOOK, DONE, usage=usage), tools=tools).build()
    await engine.run()
    await tick()
    used = engine.memory.total_usage
    await close(desk, engine)
    from treadle.thread.codec import decode_entry

    records = desk.store.scan(engine.thread_id).records
    lines = list_usage((one.seq, one.at, decode_entry(one.event)) for one in records)
    assert sum_usage_by_turn(lines) == {1: used}
    if usage is not None:
        assert used.cost_usd == Decimal("0.50")
