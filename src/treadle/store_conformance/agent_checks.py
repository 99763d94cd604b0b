"""Checks of a store by what it is for: agents that work on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from treadle.agent.agent import Agent
from treadle.core.tools import RiskLevel
from treadle.errors import ApprovalNeeded, ThreadBusyError, UsageError
from treadle.models.scripted.provider import ScriptedModel
from treadle.store.port import Store
from treadle.store.threads import Threads
from treadle.store_conformance.demands import Check, OpenStore, demand_equal, demand_raised
from treadle.tools.function_tool import tool

LONG: Final = "wool " * 20_000
"""A result that is kept beside its thread."""


@tool(risk=RiskLevel.LOW)
def list_wool() -> str:
    """List all wool."""
    return LONG


@tool(risk=RiskLevel.HIGH)
def order_wool() -> str:
    """Order wool."""
    return "ordered"


def _make_agent(store: Store) -> Agent[None, str]:
    model = ScriptedModel.of(
        {"when": {"user": "list", "step": 0}, "calls": [{"tool": "list_wool"}]},
        {"when": {"user": "order", "step": 0}, "calls": [{"tool": "order_wool"}]},
        {"text": "Ü 🧵 done."},
    )
    tools = [list_wool, order_wool]
    return Agent("weaver", model=model, tools=tools, approval="ask", store=store)


def _check(work: Callable[[OpenStore], Coroutine[Any, Any, None]]) -> Check:
    """A check of what an agent does, which no event loop needs to be there for."""

    def check(open_store: OpenStore) -> None:
        asyncio.run(work(open_store))

    check.__name__, check.__doc__ = work.__name__.lstrip("_"), work.__doc__
    return check


async def _an_agent_converses(open_store: OpenStore) -> None:
    """A conversation is found by its key, by whoever opens the store, with all that was said."""
    async with _make_agent(open_store()).thread("Ann \u00c4") as thread:
        demand_equal((await thread.send("Hello")).output, "Ü 🧵 done.", "an agent answers")
        thread_id = thread.id
        with demand_raised(ThreadBusyError, "a conversation is one program's at a time"):
            async with _make_agent(open_store()).thread("Ann \u00c4"):
                pass
    async with _make_agent(open_store()).thread("Ann \u00c4") as thread:
        demand_equal(thread.id, thread_id, "a conversation is found by its key")
        demand_equal(len(thread.messages), 2, "what was said is there")
        await thread.send("list it")
        (call,) = [call for one in thread.messages for call in one.tool_calls]
    writer = Threads(open_store()).open(thread_id)
    kept = writer.read_output(call.id)
    writer.close()
    demand_equal(kept, LONG.encode(), "a large result is kept as a whole")


async def _an_agent_goes_back(open_store: OpenStore) -> None:
    """A conversation is gone back in, and forked; both go their own ways then."""
    async with _make_agent(open_store()).thread("one") as thread:
        await thread.send("First")
        await thread.send("Second")
        await thread.rewind(1)
        with demand_raised(UsageError, "a conversation stands where it was gone back to"):
            await thread.rewind(1)
        async with await thread.fork() as other:
            await other.send("Third")
            counts = (len(thread.messages), len(other.messages))
            demand_equal(counts, (4, 6), "a fork goes on by itself from what it was forked from")
            fork_id = other.id
    threads = Threads(open_store())
    demand_equal({*threads.ids()}, {thread.id, fork_id}, "a fork is a thread of its own")
    problems = [line.problem for line in threads.list() if line.problem]
    demand_equal(problems, [], f"every thread can be read: {problems}")


async def _an_agent_waits(open_store: OpenStore) -> None:
    """A task waits for a person, is found in a list, and is gone on with by another program."""
    with demand_raised(ApprovalNeeded, "a call that needs a yes waits for it"):
        await _make_agent(open_store()).run("order it")
    (line,) = Threads(open_store()).list(is_waiting=True)
    async with _make_agent(open_store()).resume_task(line.id) as task:
        demand_equal((await task.approve()).output, "Ü 🧵 done.", "a yes of another program counts")
    demand_equal(Threads(open_store()).list(is_waiting=True), [], "nothing waits any more")


async def _threads_are_found(open_store: OpenStore) -> None:
    """Threads are found by key, tag, title and a program's own values."""
    for key, title in (("1", "Ann's orders"), ("2", "Bob's orders")):
        async with _make_agent(open_store()).thread(key) as thread:
            thread.rename(title)
            thread.tag("vip" if key == "1" else "new", "all")
            thread.set_extra(region="north", number=int(key))
    threads = Threads(open_store())
    found = {
        "key": [line.key for line in threads.list(key="2")],
        "tag": [line.key for line in threads.list(tag="vip")],
        "title": [line.key for line in threads.list(title="bob")],
        "extra": [line.key for line in threads.list(extra={"number": 1, "region": "north"})],
        "all": sorted(line.key for line in threads.list(tag="all", extra={"region": "north"})),
    }
    wanted = {"key": ["2"], "tag": ["1"], "title": ["2"], "extra": ["1"], "all": ["1", "2"]}
    demand_equal(found, wanted, f"threads are found by what they have: {found}")


CHECKS: Final = tuple(
    map(_check, (_an_agent_converses, _an_agent_goes_back, _an_agent_waits, _threads_are_found))
)
