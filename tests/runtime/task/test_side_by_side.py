"""The calls of one answer run side by side; their results stand in the order of the request."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from runtime.clock import tick
from runtime.desk import Desk, Failure, Run, Toolbox, calls, for_ever, mutate, read
from runtime.task.agents import DONE, agent, close, events
from treadle import outputs
from treadle.core.config import AgentConfig as Settings
from treadle.core.tools import ToolError, ToolErrorKind

NAMES: Final = ("a", "b", "c", "d", "e")


class Gate:
    """Tools that end when they are told to; knows how many ran at a time."""

    def __init__(self) -> None:
        self.open = {name: asyncio.Event() for name in NAMES}
        self.running: list[str] = []
        self.most = 0

    async def __call__(self, run: Run) -> str:
        self.running.append(run.name)
        self.most = max(self.most, len(self.running))
        await self.open[run.name].wait()
        self.running.remove(run.name)
        return f"{run.name} ran"

    def tools(self) -> Toolbox:
        return Toolbox(**dict.fromkeys(NAMES, mutate(self)))


def results(engine: Any) -> list[str]:
    return [m.content for m in engine.memory.transcript if m.role == "tool"]


async def test_results_stand_in_the_order_of_the_request(desk: Desk) -> None:
    gate = Gate()
    engine = agent(desk, calls(*NAMES), DONE, tools=gate.tools()).build()
    running = asyncio.ensure_future(engine.run())
    await desk.heard.until(outputs.ToolStarted, 5)
    for count, name in enumerate("dbeca", 1):
        gate.open[name].set()
        await desk.heard.until(outputs.ToolFinished, count)
    assert await running == DONE
    assert [o.tool_name for o in desk.heard.of(outputs.ToolFinished)] == [*"dbeca"]
    assert results(engine) == [f"{name} ran" for name in NAMES]
    assert [entry.tool.tool_name for entry in engine.memory.history] == [*NAMES]
    lines = [e.data for e in engine.trace if e.event == "TOOL_SUCCESS"]
    assert [line[0] for line in lines] == [*NAMES]
    await close(desk, engine)


async def test_one_that_fails_or_raises_loses_nothing_of_the_others(desk: Desk) -> None:
    async def fails(run: Run) -> Any:
        return Failure(run.call.id, ToolError(ToolErrorKind.IO, "no wool"))

    async def raises(run: Run) -> Any:
        raise ZeroDivisionError("by zero")

    tools = Toolbox(a=read("one"), b=mutate(fails), c=mutate(raises), d=read("two"))
    engine = agent(desk, calls("a", "b", "c", "d"), DONE, tools=tools).build()
    assert await engine.run() == DONE
    assert results(engine) == [
        "one",
        "ERROR: IO error: no wool",
        "ERROR: Internal error: ZeroDivisionError: by zero",
        "two",
    ]
    assert [entry.success for entry in engine.memory.history] == [True, False, False, True]
    assert "PARALLEL_ACTING_DONE" in events(engine)
    await close(desk, engine)


async def test_a_round_of_which_nothing_succeeds_is_data_as_well(desk: Desk) -> None:
    engine = agent(desk, calls("x", "y"), DONE, tools=Toolbox()).build()
    assert await engine.run() == DONE
    assert all(text.startswith("ERROR: Tool not found") for text in results(engine))
    await close(desk, engine)


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({"settings": Settings(parallel_max=2)}, 2),
        ({"parallel_tools": False}, 1),
        ({"settings": Settings(parallel_max=0)}, 5),
        ({}, 5),
    ],
)
async def test_no_more_calls_run_at_a_time_than_are_allowed(
    desk: Desk, options: dict[str, Any], most: int
) -> None:
    gate = Gate()
    engine = agent(desk, calls(*NAMES), DONE, tools=gate.tools(), **options).build()
    running = asyncio.ensure_future(engine.run())
    for count, name in enumerate(NAMES, 1):
        await desk.heard.until(outputs.ToolStarted, min(5, most + count - 1))
        await tick(3)
        assert len(desk.heard.of(outputs.ToolStarted)) == min(5, most + count - 1)
        assert desk.kinds(engine.thread_id).count("tool_started") == min(5, most + count - 1)
        gate.open[name].set()
        await desk.heard.until(outputs.ToolFinished, count)
    assert await running == DONE
    assert gate.most == most
    assert results(engine) == [f"{name} ran" for name in NAMES]
    await close(desk, engine)


async def test_a_call_whose_turn_had_not_come_runs_once_after_a_crash(desk: Desk) -> None:
    gate = Gate()
    options = {"settings": Settings(parallel_max=2)}
    engine = agent(desk, calls(*NAMES), DONE, tools=gate.tools(), **options).build()
    running = asyncio.ensure_future(engine.run())
    gate.open["a"].set()
    await desk.heard.until(outputs.ToolStarted, 3)
    await tick(3)
    assert sorted(gate.running) == ["b", "c"]
    desk.crash()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    again = Gate()
    for event in again.open.values():
        event.set()
    tools = again.tools()
    engine = agent(desk, calls(*NAMES), DONE, tools=tools, **options).resume(engine.thread_id)
    assert await engine.run() == DONE
    assert sorted(tools.ran) == ["d", "e"]
    assert again.most <= 2
    found = results(engine)
    assert [found[0], *found[3:]] == ["a ran", "d ran", "e ran"]
    assert all(text.startswith("ERROR: Uncertain") for text in found[1:3])
    await close(desk, engine)


async def test_reads_that_were_running_run_again_and_together(desk: Desk) -> None:
    tools = Toolbox(**dict.fromkeys(NAMES, read(for_ever)))
    engine = agent(desk, calls(*NAMES), DONE, tools=tools).build()
    running = asyncio.ensure_future(engine.run())
    await desk.heard.until(outputs.ToolStarted, 5)
    desk.crash()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    tools = Toolbox(**dict.fromkeys(NAMES, read("seen")))
    engine = agent(desk, calls(*NAMES), DONE, tools=tools).resume(engine.thread_id)
    assert await engine.run() == DONE
    assert tools.ran == [*NAMES]
    assert desk.kinds(engine.thread_id).count("tool_started") == 5
    assert results(engine) == ["seen"] * 5
    await close(desk, engine)
