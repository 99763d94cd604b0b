"""A call that is worked on by an agent of its own: in another thread, within the same budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from runtime.desk import Desk, Run, Toolbox, for_ever, mutate
from runtime.task.agents import DONE, Says, agent, close, lasting, on_one_clock, priced
from treadle import outputs
from treadle.core.approval import AlwaysAsk, Approved, Question
from treadle.core.budget import TokenBudget
from treadle.core.llm import Usage
from treadle.core.tools import EffectClass
from treadle.errors import AgentError, BudgetExceeded
from treadle.runtime.builder import AgentBuilder
from treadle.runtime.engine import AgentEngine
from treadle.runtime.subagents import DEPTH_MAX
from treadle.store.replay import verify_thread
from treadle.thread.facts import PrivacySet

SPUN = "The wool is spun and dry."
SPIN = '{"task":"spin"}'


def ask(task: str = "spin some wool", name: str = "spinner") -> dict[str, Any]:
    return {"tool": name, "arguments": {"task": task}}


def parent(desk: Desk, *replies: Any, child: AgentBuilder, **options: Any) -> AgentBuilder:
    """An agent with one sub-agent, `spinner`, which it calls unless told otherwise."""
    found = agent(desk, *(replies or ({"calls": [ask()]}, DONE)), **options)
    return found.sub_agent("spinner", "spins wool", child)


def child_of(desk: Desk, *replies: Any, **options: Any) -> AgentBuilder:
    """A sub-agent's builder; without replies it has no model of its own."""
    return agent(desk, *(replies or (SPUN,)), task="", **options)


def results(engine: AgentEngine) -> list[str]:
    return [m.content for m in engine.memory.transcript if m.role == "tool"]


def child_thread(engine: AgentEngine) -> str:
    """The one child of the task."""
    (thread_id,) = engine.driver.journal.writer.fold.children.values()
    return thread_id


async def test_the_answer_of_the_sub_agent_is_the_result_of_the_call(desk: Desk) -> None:
    spinner = child_of(desk)
    engine = parent(desk, child=spinner).build()
    assert await engine.run() == DONE
    assert results(engine) == [SPUN]
    assert [entry.observation for entry in engine.memory.history] == [f"SUCCESS: {SPUN}"]
    await close(desk, engine)


async def test_parent_and_child_name_each_other(desk: Desk) -> None:
    engine = parent(desk, child=child_of(desk)).build()
    await engine.run()
    child = desk.store.load(child_thread(engine)).fold
    call = engine.memory.history[0].tool
    assert engine.driver.journal.writer.fold.children == {call.id: child.header.thread}
    assert (child.header.parent, child.header.parent_call) == (engine.thread_id, call.id)
    assert (child.header.depth, engine.driver.journal.writer.fold.header.depth) == (1, 0)
    assert child.machine.memory.task == "spin some wool"
    assert verify_thread(desk.store, child.header.thread).is_good
    await close(desk, engine)
    assert desk.store.load(engine.thread_id).fold.children == {call.id: child.header.thread}


@pytest.mark.parametrize("is_private", [True, False])
async def test_a_sub_agent_is_as_private_as_its_parent(desk: Desk, is_private: bool) -> None:
    engine = parent(desk, child=child_of(desk)).build()
    engine.driver.journal.writer.stage(PrivacySet(is_private))
    engine.driver.journal.writer.commit()
    await engine.run()
    child = desk.store.load(child_thread(engine)).fold
    assert child.header.is_private is is_private
    await close(desk, engine)


async def test_a_sub_agent_without_a_model_has_that_of_its_parent(desk: Desk) -> None:
    replies = (
        {"when": {"user": "^spin"}, "text": SPUN},
        {"when": {"step": 0}, "calls": [ask()]},
        {"when": {"tool": "spinner"}, "text": DONE},
    )
    spinner = AgentBuilder("")
    engine = parent(desk, *replies, child=spinner, model="loom-1").build()
    assert await engine.run() == DONE
    child = desk.store.load(child_thread(engine)).fold
    assert child.machine.model_name == "loom-1"
    await close(desk, engine)


async def test_a_sub_agent_may_use_what_its_parent_has_left(desk: Desk) -> None:
    budget = TokenBudget(max_total=1000, max_cost_usd=Decimal(2), max_time_s=500.0)
    on_one_clock(desk)
    model = Says(("spinner",), DONE, usage=priced("0.5"), delay_s=100.0, arguments=SPIN)
    spinner = child_of(desk, budget=TokenBudget(max_total=5000, max_output=70))
    engine = agent(desk, model, budget=budget).sub_agent("spinner", "spins", spinner).build()
    await engine.run()
    child = desk.store.load(child_thread(engine)).fold
    assert child.machine.memory.budget == TokenBudget(890, None, 70, Decimal("1.5"), 400.0)
    await close(desk, engine)


async def test_sub_agents_that_work_side_by_side_share_what_is_left(desk: Desk) -> None:
    model = Says(("spinner", "spinner"), DONE, usage=Usage(100, 0), arguments=SPIN)
    engine = parent(desk, model, child=child_of(desk), max_tokens=1000).build()
    await engine.run()
    children = [
        desk.store.load(one).fold for one in engine.driver.journal.writer.fold.children.values()
    ]
    budgets = [child.machine.memory.budget for child in children]
    assert budgets == [TokenBudget(max_total=450)] * 2
    await close(desk, engine)


async def test_what_the_sub_agent_used_is_in_the_total_once(desk: Desk) -> None:
    spinner = child_of(
        desk, Says(("cut",), SPUN, usage=Usage(1000, 7)), tools=Toolbox(cut=mutate())
    )
    model = Says(("spinner",), DONE, usage=Usage(100, 10), arguments=SPIN)
    engine = parent(desk, model, child=spinner).build()
    await engine.run()
    assert engine.memory.total_usage == Usage(2 * 100 + 2 * 1000, 2 * 10 + 2 * 7)
    await close(desk, engine)


async def test_a_sub_agent_can_use_up_the_budget_of_its_parent(desk: Desk) -> None:
    spinner = child_of(desk, Says(("cut",), usage=Usage(400, 0)), tools=Toolbox(cut=mutate()))
    model = Says(("spinner",), DONE, usage=Usage(100, 0), arguments=SPIN)
    engine = parent(desk, model, child=spinner, max_tokens=1000).build()
    with pytest.raises(BudgetExceeded, match="1300 of 1000 tokens"):
        await engine.run()
    assert "Token budget exceeded: 1200 of 900 tokens used" in results(engine)[0]
    await close(desk, engine)


async def test_sub_agents_cannot_be_nested_without_end(desk: Desk) -> None:
    builder = child_of(desk)
    for _ in range(DEPTH_MAX):
        builder = parent(desk, child=builder, task="x")
    engine = parent(desk, child=builder).build()
    assert await engine.run() == DONE
    depths = [desk.store.load(one).fold.header.depth for one in desk.store.ids()]
    assert sorted(depths) == [*range(DEPTH_MAX + 1)]
    deepest = next(t for t in desk.store.ids() if desk.store.load(t).fold.header.depth == DEPTH_MAX)
    (told,) = (m.content for m in desk.store.load(deepest).fold.conversation if m.role == "tool")
    assert f"nested {DEPTH_MAX} deep, no deeper" in told
    await close(desk, engine)


FAILURES: dict[str, tuple[Callable[[Desk], AgentBuilder], str]] = {
    "no model": (
        lambda desk: child_of(desk, {"error": {"kind": "authentication"}}),
        "check the key",
    ),
    "no steps": (
        lambda desk: child_of(desk, Says(("nothing",)), max_steps=2),
        "Max steps 2 exceeded",
    ),
    "no event": (
        lambda desk: (
            child_of(desk)
            .state("Odd", lambda _: "Even")
            .transition("Idle", "Start", "Odd")
            .transition("Odd", "Start", "Planning")
        ),
        "no row for the event 'Even'",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_a_sub_agent_that_fails_is_data_for_its_parent(desk: Desk, name: str) -> None:
    make, words = FAILURES[name]
    engine = parent(desk, child=make(desk)).build()
    assert await engine.run() == DONE
    assert results(engine)[0].startswith("ERROR: Failed: the sub-agent")
    assert words in results(engine)[0]
    await close(desk, engine)


@pytest.mark.parametrize("arguments", ["{}", "[]", '{"task":7}', '{"task":" "}', "{", ""])
async def test_a_call_without_a_task_is_told_what_it_takes(desk: Desk, arguments: str) -> None:
    call = {"tool": "spinner", "arguments_text": arguments}
    engine = parent(desk, {"calls": [call]}, DONE, child=child_of(desk)).build()
    assert await engine.run() == DONE
    assert "it takes one argument" in results(engine)[0]
    assert desk.store.ids() == [engine.thread_id]
    await close(desk, engine)


async def test_a_call_of_the_sub_agent_is_rejected_where_nobody_can_be_asked(desk: Desk) -> None:
    tools = Toolbox(cut=mutate())
    spinner = child_of(desk, {"calls": [{"tool": "cut"}]}, SPUN, tools=tools, approval=AlwaysAsk())
    engine = parent(desk, child=spinner).build()
    assert await engine.run() == DONE
    assert tools.ran == []
    fold = desk.store.load(child_thread(engine)).fold
    (told,) = (m.content for m in fold.conversation if m.role == "tool")
    assert "Rejected: nobody is there to be asked" in told
    await close(desk, engine)


async def test_the_person_of_the_parent_is_asked_for_the_sub_agent(desk: Desk) -> None:
    tools, asked = Toolbox(cut=mutate()), []

    def decide(question: Question) -> Approved:
        asked.append(question.call.tool_name)
        return Approved()

    spinner = child_of(desk, {"calls": [{"tool": "cut"}]}, SPUN, tools=tools, approval=AlwaysAsk())
    engine = parent(desk, child=spinner, on_approval=decide).build()
    assert await engine.run() == DONE
    assert (asked, tools.ran) == (["cut"], ["cut"])
    await close(desk, engine)


async def test_two_sub_agents_work_side_by_side(desk: Desk) -> None:
    on_one_clock(desk)
    tools = Toolbox(cut=mutate(_slow))
    spinner = child_of(desk, {"calls": [{"tool": "cut"}]}, SPUN, tools=tools)
    engine = parent(desk, {"calls": [ask("one"), ask("two")]}, DONE, child=spinner).build()
    assert await engine.run() == DONE
    assert asyncio.get_running_loop().time() == 50.0
    tasks = {desk.store.load(t).fold.machine.memory.task for t in desk.store.ids()}
    assert {"one", "two"} <= tasks
    assert len(engine.driver.journal.writer.fold.children) == 2
    await close(desk, engine)


async def _slow(_: Run) -> str:
    await lasting(50.0)
    return "cut"


async def test_cancelling_the_parent_leaves_the_sub_agent_to_be_resumed(desk: Desk) -> None:
    tools = Toolbox(cut=mutate(for_ever))
    spinner = child_of(desk, {"calls": [{"tool": "cut"}]}, SPUN, tools=tools, on_output=desk.heard)
    engine = parent(desk, child=spinner).build()
    running = asyncio.ensure_future(engine.run())
    await desk.heard.until(outputs.ToolStarted, 2)
    engine.cancel()
    with pytest.raises(AgentError, match="stopped before its end"):
        await running
    child = child_thread(engine)
    assert desk.store.load(child).fold.machine.state_name == "Acting"
    assert verify_thread(desk.store, child).is_good

    tools.tools["cut"] = mutate()
    assert await engine.run() == DONE
    assert child_thread(engine) == child
    assert len(desk.store.ids()) == 2
    assert tools.ran == ["cut"], "it had started: the sub-agent is told so"
    await close(desk, engine)


async def test_the_time_limit_of_the_parent_ends_its_sub_agent(desk: Desk) -> None:
    on_one_clock(desk)
    spinner = child_of(desk, Says(SPUN, delay_s=10_000.0))
    engine = parent(desk, child=spinner, time_limit=40).build()
    with pytest.raises(BudgetExceeded, match="40 of 40 s"):
        await engine.run()
    await close(desk, engine)
    assert verify_thread(desk.store, child_thread(engine)).is_good


def test_a_sub_agent_is_told_to_the_model_as_an_idempotent_tool(desk: Desk) -> None:
    engine = parent(desk, child=child_of(desk)).build()
    (definition,) = engine._machine.config.tools
    assert (definition.name, definition.description) == ("spinner", "spins wool")
    assert definition.effect is EffectClass.IDEMPOTENT
    assert definition.input_schema["required"] == ["task"]
