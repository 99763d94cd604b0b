"""While a database takes its time, the event loop of a program goes on.

Each answer of the database waits until the loop has turned. Where the loop stands still for an
answer, it never does: that is seen, and told with the step in which it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from server.holding_proxy import HoldingProxy
from server.journals.stores import OWNER
from server.people import People
from server.proxies import open_before
from treadle import (
    Agent,
    ApprovalNeeded,
    Fleet,
    MemoryScheduler,
    PostgresStore,
    ScriptedModel,
    ToolReturn,
    builtin_tools,
    tool,
)
from treadle.runtime.calls import OUTPUT_LENGTH_MAX
from treadle.tools.tool_return import ShownFile

TURNS = 10
"""So often the loop turns before an answer is passed on."""
PATIENCE_S = 20.0
"""When a loop is taken for one that stands still."""
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


class Steps:
    """What a program does, with how the loop went on meanwhile.

    Args:
        proxy: before the database.
    """

    def __init__(self, proxy: HoldingProxy) -> None:
        self._proxy = proxy
        self._loop = asyncio.get_running_loop()
        self.counts: dict[str, int] = {}
        """Answers that came while the loop went on, by step."""
        self.stood_still: set[str] = set()
        self._name = "before"
        proxy.before_answer = self._wait_for_loop

    def begin(self, name: str) -> None:
        """What follows is this."""
        self._name = name
        self.counts[name] = 0

    def _wait_for_loop(self) -> None:
        name = self._name
        if name in self.stood_still:
            return
        try:
            asyncio.run_coroutine_threadsafe(_turn(), self._loop).result(PATIENCE_S)
            self.counts[name] = self.counts.get(name, 0) + 1
        except TimeoutError:
            self.stood_still.add(name)


async def _turn() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


@tool
def talk() -> str:
    """Say more than a message holds."""
    return "word\n" * OUTPUT_LENGTH_MAX


@tool
def look() -> ToolReturn:
    """Show a picture."""
    return ToolReturn("a dot", shown=(ShownFile("dot.png", PIXEL),))


def ask(name: str, **arguments: object) -> dict[str, object]:
    return {"calls": [{"tool": name, "arguments": arguments}]}


@pytest.fixture
def slow(url: str, people: People) -> Iterator[tuple[HoldingProxy, PostgresStore]]:
    """A store behind a proxy."""
    with (
        open_before(url, HoldingProxy) as (proxy, through),
        PostgresStore(through, OWNER, lease_s=600.0) as store,
    ):
        yield proxy, store
        proxy.before_answer = lambda: None


def make_agents(store: PostgresStore) -> tuple[Agent[None, str], Agent[None, str]]:
    """One that needs what a store has to give, and one that asks before it does."""
    reader = next(one for one in builtin_tools() if one.definition.name == "read_file")
    child = Agent("child", model=ScriptedModel.of({"text": "42"}), store=store)
    script = [
        {"when": {"user": "Work", "step": 0}, **ask("talk")},
        {"when": {"user": "Work", "step": 1}, **ask("look")},
        {"when": {"user": "Work", "step": 2}, **ask("read_file", path="output:call-1-0")},
        {"when": {"user": "Work", "step": 3}, **ask("child", task="Count.")},
        {"when": {"user": "Pay", "step": 0}, **ask("look")},
        {"text": "Done."},
    ]
    model, tools = ScriptedModel.of(*script), [talk, look, reader, child.as_tool("Counts.")]
    return (
        Agent("worker", model=model, tools=tools, store=store),
        Agent("careful", model=model, tools=tools, store=store, approval="ask"),
    )


@asynccontextmanager
async def work(fleet: Fleet) -> AsyncIterator[None]:
    stop = asyncio.Event()
    working = asyncio.create_task(fleet.run(stop=stop))
    yield
    stop.set()
    await working


async def run_tasks(worker: Agent[None, str], careful: Agent[None, str], steps: Steps) -> None:
    steps.begin("a task")
    async with worker.task("Work.") as task:
        assert (await task.run()).output == "Done."
        said = [one.content for one in task.messages if one.role == "tool"]
    assert said[2].startswith("word")
    steps.begin("a task that asks")
    async with careful.task("Pay.") as task:
        with pytest.raises(ApprovalNeeded):
            await task.run()
    steps.begin("a task that goes on")
    async with careful.resume_task(task.id) as task:
        await task.approve()


async def talk_with(worker: Agent[None, str], steps: Steps) -> None:
    steps.begin("a conversation")
    async with worker.thread("Ann") as thread:
        await thread.send("Work.")
        steps.begin("a fork")
        await (await thread.fork()).close()
        steps.begin("a way back")
        await thread.rewind(0)
        steps.begin("the end of a conversation")


async def run_fleet(worker: Agent[None, str], careful: Agent[None, str], steps: Steps) -> None:
    fleet = Fleet(MemoryScheduler(), sweep_s=0.05)
    fleet.add(worker)
    fleet.add(careful)
    async with work(fleet):
        steps.begin("a task of a fleet")
        assert (await (await worker.submit("Work.")).result()).output == "Done."
        steps.begin("an answer to a fleet")
        asking = await careful.submit("Pay.")
        with pytest.raises(ApprovalNeeded):
            await asking.result()
        await asking.approve()
        assert [one async for one in asking.follow()]
    steps.begin("a task that is cancelled")
    left = await worker.submit("Work.")
    await fleet.cancel(left.id)
    steps.begin("a task that is taken up again")
    await fleet.retry(left.id)


async def test_the_loop_goes_on_whatever_is_asked_of_a_slow_database(
    slow: tuple[HoldingProxy, PostgresStore],
) -> None:
    proxy, store = slow
    steps = Steps(proxy)
    worker, careful = make_agents(store)
    await run_tasks(worker, careful, steps)
    await talk_with(worker, steps)
    await run_fleet(worker, careful, steps)
    assert (steps.stood_still, {name for name, count in steps.counts.items() if not count}) == (
        set(),
        set(),
    )
