"""What a turn may use at most: tokens, money, time, and calls at a time."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any, Final

import pytest
from msgspec.structs import replace

from runtime.clock import tick
from runtime.desk import CONFIG, Desk, Model, Toolbox, calls, for_ever, imbalance, mutate, read
from runtime.task.agents import Says, lasting, priced
from treadle import outputs
from treadle.answers import Verdict
from treadle.core.approval import AlwaysAsk, Approved, Question
from treadle.core.budget import TokenBudget
from treadle.core.llm import Usage
from treadle.outputs import TurnOutcome
from treadle.runtime.session import Session

LIMITS: Final[dict[str, tuple[TokenBudget, int, str]]] = {
    "tokens": (TokenBudget(max_total=220), 2, "Token budget exceeded: 220 of 220 tokens used"),
    "input": (TokenBudget(max_input=300), 3, "300 of 300 input tokens used"),
    "output": (TokenBudget(max_output=15), 2, "20 of 15 output tokens used"),
    "cost": (TokenBudget(max_cost_usd=Decimal("0.5")), 2, "0.6000 of 0.5 USD spent"),
    "time": (TokenBudget(max_time_s=25), 3, "the time limit is reached"),
}


def sit(desk: Desk, model: Any, budget: TokenBudget, tools: Toolbox | None = None) -> Session:
    return desk.new(model, tools or Toolbox(look=read()), budget=budget)


@pytest.mark.parametrize("name", LIMITS)
async def test_each_limit_ends_the_turn_and_says_so(desk: Desk, name: str) -> None:
    budget, count, words = LIMITS[name]
    model = Says(("look",), usage=priced("0.3"), delay_s=10.0)
    session = sit(desk, model, budget)
    finished = await session.turn("go")
    assert finished.outcome is TurnOutcome.LIMIT
    assert words in finished.error
    assert len(model.requests) == count
    assert session.is_waiting
    assert imbalance(session.conversation) == ""
    desk.check(session)


async def test_each_turn_has_the_whole_budget(desk: Desk) -> None:
    session = sit(desk, Says("done"), TokenBudget(max_total=110))
    for _ in range(3):
        assert (await session.turn("go")).outcome is TurnOutcome.DONE
    desk.check(session)


async def test_a_turn_that_is_resumed_cannot_spend_twice(desk: Desk) -> None:
    model, budget = Says(("look",)), TokenBudget(max_total=330)
    session = sit(desk, model, budget, Toolbox(look=read(for_ever)))
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.ToolStarted)
    desk.crash()
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    tools = Toolbox(look=read())
    session = desk.reopen(session.thread_id, model, tools, budget=budget)
    finished = await session.resume()
    assert finished.outcome is TurnOutcome.LIMIT
    assert "330 of 330" in finished.error
    assert len(model.requests) == 3
    desk.check(session)


async def test_what_a_model_does_not_report_is_estimated(desk: Desk) -> None:
    model = Says(("look",), usage=None)
    session = sit(desk, model, TokenBudget(max_total=2500), Toolbox(look=read("x" * 4000)))
    finished = await session.turn("go")
    assert finished.outcome is TurnOutcome.LIMIT
    assert len(model.requests) == 3
    assert finished.usage.estimated
    desk.check(session)


async def test_the_time_limit_ends_a_call_that_runs(desk: Desk) -> None:
    tools = Toolbox(look=read(for_ever), cut=mutate(for_ever))
    session = sit(desk, Model(calls("look", "cut"), "done"), TokenBudget(max_time_s=40), tools)
    finished = await session.turn("go")
    assert finished.outcome is TurnOutcome.LIMIT
    assert asyncio.get_running_loop().time() == 40
    assert sorted(tools.ended) == sorted(run.call.id for run in tools.runs)
    assert imbalance(session.conversation) == ""
    desk.check(session)


async def test_the_time_a_person_takes_is_not_counted(desk: Desk) -> None:
    async def approve(_: Question) -> Verdict:
        await lasting(5000.0)
        return Verdict(Approved())

    session = desk.new(
        Says(("look", "look"), "done", delay_s=10.0),
        Toolbox(look=read()),
        replace(CONFIG, approval=AlwaysAsk()),
        budget=TokenBudget(max_time_s=25),
        approve=approve,
    )
    assert (await session.turn("go")).outcome is TurnOutcome.DONE
    assert asyncio.get_running_loop().time() == 10 + 2 * 5000 + 10
    desk.check(session)


async def test_a_turn_without_a_limit_leaves_no_timer(desk: Desk) -> None:
    session = desk.new(Says("done"))
    await session.turn("go")
    assert asyncio.get_running_loop()._scheduled == []  # type: ignore[attr-defined]
    desk.check(session)


@pytest.mark.parametrize(("parallel_max", "most"), [(1, 1), (2, 2), (8, 4), (0, 4)])
async def test_no_more_calls_run_at_a_time_than_the_configuration_allows(
    desk: Desk, parallel_max: int, most: int
) -> None:
    running = [0]

    async def work(_: Any) -> str:
        running.append(running[-1] + 1)
        await tick(3)
        running.append(running[-1] - 1)
        return "fine"

    tools = Toolbox(a=mutate(work), b=mutate(work), c=mutate(work), d=mutate(work))
    config = replace(CONFIG, parallel_max=parallel_max)
    session = desk.new(Model(calls("a", "b", "c", "d"), "done"), tools, config)
    assert (await session.turn("go")).outcome is TurnOutcome.DONE
    assert max(running) == most
    assert [m.name for m in session.conversation if m.role == "tool"] == ["a", "b", "c", "d"]
    desk.check(session)


async def test_a_call_whose_turn_had_not_come_was_not_started(desk: Desk) -> None:
    tools = Toolbox(a=mutate(for_ever), b=mutate(), c=mutate())
    config = replace(CONFIG, parallel_max=1)
    session = desk.new(Model(calls("a", "b", "c"), "done"), tools, config)
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.ToolStarted)
    await tick(3)
    assert desk.kinds(session.thread_id).count("tool_started") == 1
    desk.crash()
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    tools = Toolbox(a=mutate(), b=mutate(), c=mutate())
    session = desk.reopen(session.thread_id, Model(calls("a", "b", "c"), "done"), tools)
    assert (await session.resume()).outcome is TurnOutcome.DONE
    assert tools.ran == ["b", "c"]
    assert finished_usage(session) != Usage()
    desk.check(session)


def finished_usage(session: Session) -> Usage:
    return session.driver.journal.writer.fold.usage
