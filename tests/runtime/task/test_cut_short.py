"""Sub-agents that are stopped with their parent, and those that ask a person."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.desk import (
    CONFIG,
    Desk,
    Model,
    Run,
    Toolbox,
    calls,
    calls_of,
    for_ever,
    mutate,
    read,
)
from runtime.task.agents import DONE, Says, agent, close, lasting, on_one_clock
from treadle import outputs
from treadle.core.approval import AlwaysAsk, Approved, Question
from treadle.core.llm import Usage
from treadle.errors import BudgetExceeded
from treadle.outputs import TurnOutcome
from treadle.runtime.builder import AgentBuilder
from treadle.runtime.engine import AgentEngine
from treadle.runtime.session import Session
from treadle.store.replay import verify_thread

SPUN = "The wool is spun and dry."
SPIN = '{"task":"spin"}'


def spinner(desk: Desk, tools: Toolbox, *answers: Any, **options: Any) -> AgentBuilder:
    """A sub-agent that cuts, then answers; each of its requests uses 1000 tokens."""
    model = Says(*(answers or (("cut",), SPUN)), usage=Usage(1000, 7), arguments=SPIN)
    return agent(desk, model, task="", tools=tools, on_output=desk.heard, **options)


def parent(desk: Desk, child: AgentBuilder, *calls: str, **options: Any) -> AgentBuilder:
    model = Says(calls or ("spinner",), DONE, usage=Usage(100, 10), arguments=SPIN, delay_s=10.0)
    return agent(desk, model, **options).sub_agent("spinner", "spins wool", child)


@pytest.mark.parametrize("depth", [1, 2])
async def test_what_a_sub_agent_used_counts_when_time_ends_its_parent(
    desk: Desk, depth: int
) -> None:
    on_one_clock(desk)
    child = spinner(desk, Toolbox(cut=mutate(for_ever)))
    for _ in range(depth - 1):
        child = spinner(desk, Toolbox(), ("spinner",), DONE).sub_agent("spinner", "spins", child)
    engine = parent(desk, child, time_limit=40).build()
    with pytest.raises(BudgetExceeded, match="40 of 40 s"):
        await engine.run()
    assert engine.memory.exceeded == "time"
    assert engine.memory.total_usage == Usage(100 + depth * 1000, 10 + depth * 7)
    (result,) = [m.content for m in engine.memory.transcript if m.role == "tool"]
    assert "the sub-agent had not got to an answer (thread T-" in result
    for thread_id in desk.store.ids():
        if thread_id != engine.thread_id:
            assert verify_thread(desk.store, thread_id).is_good
    await close(desk, engine)


async def test_what_a_sub_agent_used_counts_when_a_conversation_is_cancelled(desk: Desk) -> None:
    child = spinner(desk, Toolbox(cut=mutate(for_ever)))
    sub_agents = agent(desk, DONE).sub_agent("spinner", "spins", child).make_sub_agents()
    model = Says(("spinner",), DONE, usage=Usage(100, 10), arguments=SPIN)
    session = desk.new(model, Toolbox(), CONFIG, sub_agents=sub_agents)
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.ToolStarted, 2)
    session.cancel("enough")
    finished = await turn
    assert finished.outcome is TurnOutcome.CANCELLED
    assert finished.usage == Usage(1100, 17)
    assert "Cancelled: enough; the sub-agent" in calls_of(session.conversation)["spinner"]
    desk.check(session)


async def test_a_sub_agent_of_an_interrupted_conversation_goes_on_and_counts_once(
    desk: Desk,
) -> None:
    tools = Toolbox(cut=read(for_ever))
    child = spinner(desk, tools)
    sub_agents = agent(desk, DONE).sub_agent("spinner", "spins", child).make_sub_agents()
    model = Says(("spinner",), DONE, usage=Usage(100, 10), arguments=SPIN)
    session = desk.new(model, Toolbox(), CONFIG, sub_agents=sub_agents)
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.ToolStarted, 2)
    session.driver.interrupt()
    assert (await turn).outcome is TurnOutcome.INTERRUPTED
    assert "tool_completed" not in desk.kinds(session.thread_id)
    tools.tools["cut"] = read()
    finished = await session.resume()
    assert (finished.answer, finished.usage) == (DONE, Usage(200 + 2000, 20 + 14))
    assert len(desk.store.ids()) == 2
    desk.check(session)


async def test_the_time_a_person_takes_for_a_sub_agent_is_not_its_parents(desk: Desk) -> None:
    on_one_clock(desk)

    async def decide(_: Question) -> Approved:
        await lasting(1000.0)
        return Approved()

    child = spinner(desk, Toolbox(cut=mutate(_slow)), approval=AlwaysAsk())
    engine = parent(desk, child, time_limit=100, on_approval=decide).build()
    assert await engine.run() == DONE
    assert engine.memory.elapsed_s == 10 + 5 + 10
    assert asyncio.get_running_loop().time() == 1025
    await close(desk, engine)


async def test_after_a_person_the_rest_of_the_parents_time_still_ends_it(desk: Desk) -> None:
    on_one_clock(desk)

    async def decide(_: Question) -> Approved:
        await lasting(1000.0)
        return Approved()

    child = spinner(desk, Toolbox(cut=mutate(for_ever)), approval=AlwaysAsk())
    engine = parent(desk, child, time_limit=25, on_approval=decide).build()
    with pytest.raises(BudgetExceeded, match="25 of 25 s"):
        await engine.run()
    assert asyncio.get_running_loop().time() == 10 + 1000 + 15
    await close(desk, engine)


async def test_sub_agents_that_work_side_by_side_ask_one_at_a_time(desk: Desk) -> None:
    """And what ends while a person is asked does not make their time count."""
    on_one_clock(desk)
    asked: list[str] = []

    async def decide(question: Question) -> Approved:
        asked.append("asked")
        await lasting(1000.0)
        asked.append("answered")
        return Approved()

    async def look(_: Run) -> str:
        await lasting(500.0)
        return "seen"

    child = spinner(desk, Toolbox(cut=mutate(_slow)), approval=AlwaysAsk())
    builder = parent(desk, child, "spinner", "spinner", "look", tools=Toolbox(look=read(look)))
    engine = builder.time_limit(100).on_approval(decide).build()
    assert await engine.run() == DONE
    assert asked == ["asked", "answered"] * 2
    assert asyncio.get_running_loop().time() == 10 + 2000 + 5 + 10
    assert engine.memory.elapsed_s == 10 + 5 + 10
    await close(desk, engine)


async def test_a_sub_agent_of_a_sub_agent_asks_the_same_person_in_nobodys_time(
    desk: Desk,
) -> None:
    on_one_clock(desk)

    async def decide(question: Question) -> Approved:
        await lasting(1000.0)
        return Approved()

    deep = spinner(desk, Toolbox(cut=mutate(_slow)), approval=AlwaysAsk())
    child = spinner(desk, Toolbox(), ("spinner",), DONE).sub_agent("spinner", "spins", deep)
    engine = parent(desk, child, time_limit=100, on_approval=decide).build()
    assert await engine.run() == DONE
    assert engine.memory.elapsed_s == 10 + 5 + 10
    await close(desk, engine)


async def _slow(_: Run) -> str:
    await lasting(5.0)
    return "cut"


@pytest.mark.parametrize("how", ["a cancelled task", "a closed conversation"])
async def test_work_that_its_own_program_has_stopped_is_not_told_as_a_death(
    desk: Desk, how: str
) -> None:
    """As `asyncio.timeout` and `close` do it; the process lives on."""
    cut = Toolbox(cut=mutate(for_ever))
    if how == "a cancelled task":
        engine: AgentEngine | Session = agent(desk, calls("cut"), DONE, tools=cut).build()
    else:
        engine = desk.new(Model(calls("cut"), DONE), cut)
    work = engine.run() if isinstance(engine, AgentEngine) else engine.turn("go")
    running = asyncio.ensure_future(work)
    await desk.heard.until(outputs.ToolStarted)
    if isinstance(engine, AgentEngine):
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await engine.close()
    thread, reason = engine.thread_id, "cancelled by its program"
    tools = Toolbox(cut=mutate("must not run"))
    if isinstance(engine, AgentEngine):
        again: AgentEngine | Session = agent(desk, DONE, task="", tools=tools).resume(thread)
    else:
        reason, again = "the session was closed", desk.reopen(thread, Model(DONE), tools)
    await again.resume()
    (result,) = [one.content for one in again.conversation if one.role == "tool"]
    assert f"its program stopped this while it was running ({reason})" in result
    journal = b"".join(bytes(one.event) for one in desk.store.scan(thread).records)
    assert f"its program stopped the work: {reason}".encode() in journal
    assert b"died" not in journal
    await again.close()


async def test_a_process_that_dies_after_it_was_stopped_and_resumed_is_told_as_dead(
    desk: Desk,
) -> None:
    session = desk.new(Model(calls("cut"), DONE), Toolbox(cut=mutate(for_ever), look=read()))
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.ToolStarted)
    await session.close()
    await turn
    model = Model({"when": {"tool": "cut"}, **calls("cut")})
    again = desk.reopen(session.thread_id, model, Toolbox(cut=mutate(for_ever)))
    turn = asyncio.ensure_future(again.resume())
    await desk.heard.until(outputs.ToolStarted, 2)
    desk.crash()
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    last = desk.reopen(session.thread_id, Model(DONE), Toolbox(cut=mutate("must not run")))
    await last.resume()
    results = [one.content for one in last.conversation if one.role == "tool"]
    assert ["its program stopped" in one for one in results] == [True, False]
    assert "the process that ran this died" in results[1]
