"""Conversations under a program's own names."""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing
from collections.abc import AsyncGenerator, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from case_tables import for_every_row
from treadle import (
    Agent,
    AgentError,
    ApprovalNeeded,
    EffectClass,
    LocalStore,
    ScriptedModel,
    ThreadBusyError,
    UsageError,
    outputs,
    tool,
)
from treadle.store.threads import AnyThreads

ECHO = ScriptedModel.of(
    {"when": {"user": "again"}, "text": "Said twice."},
    {"text": "A first answer.", "chunk_size": 2},
)


def make_agent(store: AnyThreads, **options: Any) -> Agent[None, str]:
    return Agent("echo", model=ECHO, store=store, **options)


async def test_a_key_is_the_same_thread_in_every_process(
    open_store: Callable[[], AnyThreads],
) -> None:
    store = open_store()
    async with make_agent(store).thread("customer-7") as thread:
        await thread.send("first")
        thread_id = thread.id
        other = open_store()
        with pytest.raises(ThreadBusyError):
            async with make_agent(other).thread("customer-7"):
                pass
    async with make_agent(other).thread("customer-7") as thread:
        assert thread.id == thread_id
        assert thread.key == "customer-7"
        assert (await thread.send("again")).output == "Said twice."
        assert thread.messages[0].content == "first"
    assert store.load(thread_id).fold.header.key == "customer-7"


async def test_who_opens_a_thread_twice_is_told_that_it_is_this_process() -> None:
    agent = make_agent(LocalStore.in_memory())
    async with agent.thread("one"):
        with pytest.raises(ThreadBusyError, match="is open in this process already") as raised:
            async with agent.thread("one"):
                pass
    assert "aclosing" in raised.value.hint


async def test_a_key_is_any_text_that_is_not_empty_nor_very_long(store: AnyThreads) -> None:
    seen = set()
    for key in ("a", "A", "../../etc", "ü 中 \n", "x" * 500):
        async with make_agent(store).thread(key) as thread:
            seen.add(thread.id)
    assert len(seen) == 5
    for key in ("", "x" * 501, "\ud800"):
        with pytest.raises(UsageError, match="the key of a thread is a text of 1 to 500"):
            async with make_agent(store).thread(key):
                pass


async def test_a_key_whose_thread_was_removed_begins_anew() -> None:
    store = LocalStore.in_memory()
    async with make_agent(store).thread("one") as thread:
        first = thread.id
        await thread.send("first")
    for name in store._disk.list(store.folders.threads, ".jsonl"):
        store._disk.unlink(f"{store.folders.threads}/{name}")
        store._disk.unlink(f"{store.folders.threads}/{name.removesuffix('l')}")
    async with make_agent(store).thread("one") as thread:
        assert thread.id != first
        assert list(thread.messages) == []


def begin(folder: str, ready: Any, found: Any) -> None:
    async def work() -> None:
        for number in range(20):
            ready.wait()
            while True:
                try:
                    async with make_agent(LocalStore(folder)).thread(f"key-{number}") as thread:
                        found.put((number, thread.id))
                        break
                except ThreadBusyError:
                    await asyncio.sleep(0)

    asyncio.run(work())


def test_processes_that_begin_a_key_at_the_same_moment_have_one_thread(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, found = context.Barrier(3), context.Queue()
    processes = [context.Process(target=begin, args=(str(tmp_path), ready, found)) for _ in "abc"]
    for one in processes:
        one.start()
    seen = [found.get(timeout=300) for _ in range(60)]
    for one in processes:
        one.join()
    assert len(set(seen)) == 20
    assert len(LocalStore(tmp_path).ids()) == 20


async def test_titles_tags_and_values_stay_with_the_thread(store: AnyThreads) -> None:
    async with make_agent(store).thread("one") as thread:
        thread.rename("The first")
        thread.tag("red", "blue")
        thread.tag(remove=["blue"])
        thread.set_extra(order=7, parts=["a"])
        thread.set_extra(order=None)
    async with make_agent(store).thread("one") as thread:
        assert (thread.title, thread.tags, thread.extra) == (
            "The first",
            ("red",),
            {"parts": ["a"]},
        )


@for_every_row(
    "values, fault",
    [
        ({"agent": "Ann, of the night shift"}, "`agent` says which agent has the thread"),
        ({"agent": None}, "`agent` says which agent has the thread"),
        ({"order": object()}, "JSON cannot say what is to be kept: .*type object"),
        ({"order": {(1, 2): 3}}, "JSON cannot say what is to be kept"),
    ],
)
async def test_values_that_cannot_be_kept_are_refused(values: dict[str, Any], fault: str) -> None:
    async with make_agent(LocalStore.in_memory()).thread("one") as thread:
        with pytest.raises(UsageError, match=fault):
            thread.set_extra(**values)
        assert thread.extra == {}
        assert (await thread.send("Hi")).output == "A first answer."


async def test_threads_are_found_by_what_programs_and_people_know_of_them(
    store: AnyThreads,
) -> None:
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    model = ScriptedModel.of({"calls": [{"tool": "pay", "arguments": {"amount": 5}}]}, "Done.")
    agent = Agent("pay", model=model, tools=[pay], approval="ask", store=store)
    async with make_agent(store).thread("a") as thread:
        thread.rename("Ann's Orders")
        thread.tag("red")
        thread.set_extra(region="north", count=2)
    async with agent.thread("b") as thread:
        with pytest.raises(ApprovalNeeded):
            await thread.send("Pay.")
        thread.set_extra(region="south")
    both = {"a", "b"}
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({}, both),
        ({"is_waiting": True}, {"b"}),
        ({"is_waiting": False}, {"a"}),
        ({"key": "a"}, {"a"}),
        ({"tag": "red"}, {"a"}),
        ({"tag": "re"}, set()),
        ({"title": "orders"}, {"a"}),
        ({"extra": {"region": "north"}}, {"a"}),
        ({"extra": {"region": "north", "count": 3}}, set()),
        ({"extra": {}}, both),
        ({"tag": "red", "is_waiting": True}, set()),
    ]
    for wanted, keys in cases:
        assert {line.key for line in store.list(**wanted)} == keys, wanted
    with pytest.raises(UsageError, match="no list of threads is by colour"):
        store.list(colour="red")  # type: ignore[call-arg]


async def test_a_thread_that_cannot_be_opened_is_free_again(store: AnyThreads) -> None:
    class Half(ScriptedModel):
        stream = None  # type: ignore[assignment]

    agent: Agent[None, str] = Agent("half", model=Half.of("Never said."), store=store)
    for _ in range(2):
        with pytest.raises(UsageError, match="is no provider") as raised:
            async with agent.thread("one"):
                pass
        assert raised.tb is not None  # whoever keeps the error keeps all that it has come through
    async with make_agent(store).thread("one") as thread:
        assert (await thread.send("first")).output == "A first answer."


async def test_a_fork_and_its_base_go_their_own_ways(store: AnyThreads) -> None:
    async with make_agent(store).thread("one") as thread:
        await thread.send("first")
        async with await thread.fork() as fork:
            await fork.send("again")
            assert len(fork.messages) == 4
            assert fork.key == ""
        assert len(thread.messages) == 2
        await thread.send("again")
        await thread.rewind(1)
        assert (await thread.send("third")).output == "A first answer."
        with pytest.raises(UsageError):
            await thread.rewind(9)
        assert (await thread.send("again")).output == "Said twice."
    assert store.load(fork.id).fold.header.key == ""


async def test_whoever_breaks_out_of_a_stream_can_go_on(store: AnyThreads) -> None:
    async with make_agent(store).thread("one") as thread:
        with pytest.raises(UsageError, match="no turn has ended yet"):
            assert thread.result
        async for output in thread.stream("first"):
            if isinstance(output, outputs.TextDelta):
                break
        assert (await thread.resume()).output == "A first answer."
        told = [type(one) async for one in thread.stream("again")]
        assert told[0] is outputs.TurnStarted
        assert told[-1] is outputs.TurnFinished
        assert thread.result.output == "Said twice."


def make_busy(store: AnyThreads) -> Agent[None, str]:
    @tool(effect=EffectClass.READ)
    async def look() -> str:
        """Look."""
        await asyncio.sleep(0)
        return "seen"

    step = {"calls": [{"tool": "look", "arguments": {}}]}
    answer = {"text": "The end of it.", "chunk_size": 2}
    return Agent("busy", model=ScriptedModel.of(step, step, answer), tools=[look], store=store)


async def leave(stream: AsyncGenerator[Any, None], told: int, *, by_closing: bool) -> bool:
    """Break out behind so many outputs; whether there were so many."""
    async for _ in stream:
        if not told:
            if by_closing:
                await stream.aclose()
            return True
        told -= 1
    return False


@pytest.mark.parametrize("by_closing", [True, False])
async def test_a_stream_may_be_left_behind_every_output_and_the_turn_goes_on(
    store: AnyThreads, by_closing: bool
) -> None:
    agent = make_busy(store)
    for told in count():
        async with agent.thread(f"resumed {told}") as thread:
            left = await leave(thread.stream("go"), told, by_closing=by_closing)
            assert (await thread.resume()).output == "The end of it.", told
            assert [one.role for one in thread.messages].count("tool") == 2
        async with agent.thread(f"said more {told}") as thread:
            await leave(thread.stream("go"), told, by_closing=by_closing)
            assert (await thread.send("again")).output == "The end of it.", told
            assert [one.content for one in thread.messages].count("The end of it.") == 2
        async with agent.task("go") as task:
            await leave(task.stream(), told, by_closing=by_closing)
            assert (await task.run()).output == "The end of it.", told
        if not left:
            break
    assert told > 10


@pytest.mark.parametrize("output", [str, int])
async def test_where_nothing_is_left_and_nothing_answered_a_resume_asks_no_model(
    store: AnyThreads, output: Any
) -> None:
    model = ScriptedModel.of({"when": {"user": "wait"}, "hang": True}, "7")
    agent: Agent[None, Any] = Agent("one", model=model, output=output, store=store)
    async with agent.thread("new") as thread:
        with pytest.raises(UsageError, match="nothing is unfinished, and there is no answer"):
            await thread.resume()
        assert [type(one) async for one in thread.stream()] == [outputs.TurnFinished]
        assert not thread.messages
        waiting = asyncio.ensure_future(thread.send("wait"))
        await asyncio.sleep(0)
        thread.cancel()
        with pytest.raises(AgentError, match="cancelled"):
            await waiting
        with pytest.raises(UsageError, match="nothing is unfinished, and there is no answer"):
            await thread.resume()
        assert [one.content for one in thread.messages] == ["wait"]
        await thread.send("go")
    async with agent.thread("new") as thread:
        assert (await thread.resume()).output == output(7)


async def test_whoever_leaves_a_stream_stops_no_turn_of_somebody_else(store: AnyThreads) -> None:
    async with make_busy(store).thread("one") as thread:
        first = asyncio.ensure_future(thread.send("go"))
        await asyncio.sleep(0)
        assert await leave(thread.stream("and again"), 0, by_closing=True)
        assert (await first).output == "The end of it."
        assert [one.content for one in thread.messages].count("The end of it.") == 2


async def test_what_is_said_meanwhile_is_heard(store: AnyThreads) -> None:
    model = ScriptedModel.of(
        {"when": {"step": 0, "user": "go"}, "calls": [{"tool": "wait", "arguments": {}}]},
        {"when": {"seen": "be brief"}, "text": "Brief."},
        {"when": {"user": "and then"}, "text": "Then."},
        {"text": "Long."},
    )
    async with Agent("wait", model=model, tools=[(wait := Waiting()).wait], store=store).thread(
        "one"
    ) as thread:
        turn = asyncio.ensure_future(thread.send("go"))
        await wait.begun.wait()
        thread.steer("be brief")
        thread.queue("and then")
        wait.go_on.set()
        assert (await turn).output in ("Brief.", "Then.")
        said = [one.content for one in thread.messages if one.role == "assistant"]
        assert said[-2:] == ["Brief.", "Then."]


class Waiting:
    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def wait(self) -> str:
        """Wait."""
        self.begun.set()
        await self.go_on.wait()
        return "waited"


async def test_a_question_of_a_thread_is_answered_by_another_process(store: AnyThreads) -> None:
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    model = ScriptedModel.of(
        {"when": {"step": 0}, "calls": [{"tool": "pay", "arguments": {"amount": 5}}]},
        {"when": {"last": "paid 5"}, "text": "Done."},
        {"when": {"last": "broke"}, "text": "Not done."},
    )

    def agent() -> Agent[None, str]:
        return Agent("pay", model=model, tools=[pay], approval="ask", store=store)

    for key, output in (("one", "Done."), ("two", "Not done.")):
        async with agent().thread(key) as thread:
            with pytest.raises(ApprovalNeeded):
                await thread.send("Pay.")
            assert not thread.is_waiting
        async with agent().thread(key) as thread:
            (question,) = thread.questions
            word = thread.approve(question) if key == "one" else thread.reject(reason="broke")
            assert (await word).output == output
            assert thread.is_waiting
            assert thread.usage.total_tokens > 0


async def test_a_closed_thread_takes_nothing_that_nobody_frees(store: AnyThreads) -> None:
    agent = make_agent(store)
    async with agent.thread("one") as thread:
        await thread.send("first")

    async def begin(work: Callable[[], Any]) -> None:
        found = work()
        if inspect.isawaitable(found):
            await found

    for work in (
        *(lambda: thread.rewind(0), thread.fork, thread.resume),
        *(lambda: thread.send("more"), lambda: thread.stream("more")),
        *(lambda: thread.steer("x"), lambda: thread.queue("x")),
        *(lambda: thread.rename("x"), lambda: thread.tag("x"), lambda: thread.set_extra(x=1)),
    ):
        with pytest.raises(UsageError, match="this thread is closed"):
            await begin(work)
    thread.cancel()
    async with agent.thread("one") as again:
        assert len(again.messages) == 2


@pytest.mark.parametrize("steps", range(4))
async def test_a_rewind_that_is_cancelled_leaves_a_thread_that_works(
    store: AnyThreads, steps: int
) -> None:
    async with make_agent(store).thread("one") as thread:
        await thread.send("first")
        going_back = asyncio.ensure_future(thread.rewind(0))
        for _ in range(steps):
            await asyncio.sleep(0)
        going_back.cancel()
        await asyncio.gather(going_back, return_exceptions=True)
        assert (await thread.send("and on")).output == "A first answer."


async def test_a_turn_that_is_broken_off_has_not_the_answer_of_the_one_before(
    store: AnyThreads,
) -> None:
    async with make_agent(store).thread("one") as thread:
        await thread.send("first")
        async for output in thread.stream("again"):
            if isinstance(output, outputs.TextDelta):
                break
        with pytest.raises(UsageError, match="no turn has ended yet"):
            _ = thread.result
        await thread.resume()
        assert thread.result.output == "Said twice."
