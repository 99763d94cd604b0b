"""A store over a network is waited for beside the event loop, and in the same order as ever."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from threading import Event, Semaphore
from typing import Any

import pytest

from store_conformance.example import SqliteJournal, SqliteStore
from treadle import Agent, AgentThread, ScriptedModel, StoreError, tool
from treadle.runtime.store_calls import CALL_THREAD_COUNT
from treadle.store.port import HeldJournal

PATIENCE_S = 30.0


class SlowStore(SqliteStore):
    """Each append waits until it may be done."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.may_append = Event()
        self.may_append.set()
        self.count = 0
        """Appends that are done."""
        self.is_waiting = Event()
        self.waits = Semaphore(0)
        """One for each append that waits."""
        self.fails = False

    def begin(self, *args: Any) -> HeldJournal | None:  # type: ignore[override]
        held = super().begin(*args)
        return None if held is None else SlowJournal(self, held)


class SlowJournal:
    """A journal of it."""

    def __init__(self, store: SlowStore, held: SqliteJournal) -> None:
        self._store, self._held = store, held
        self.cut, self.close = held.cut, held.close

    def append(self, data: bytes, size: int) -> None:
        if not self._store.may_append.is_set():
            self._store.is_waiting.set()
            self._store.waits.release()
            assert self._store.may_append.wait(PATIENCE_S)
        if self._store.fails:
            raise StoreError("the network is gone")
        self._held.append(data, size)
        self._store.count += 1


@pytest.fixture
def store(tmp_path: Path) -> SlowStore:
    return SlowStore(str(tmp_path / "threads.db"))


def make_agent(store: SlowStore, done: list[int]) -> Agent[None, str]:
    @tool
    def pay() -> str:
        """Pay."""
        done.append(store.count)
        return "paid"

    model = ScriptedModel.of(
        {"when": {"user": "pay", "step": 0}, "calls": [{"tool": "pay"}]}, {"text": "Done."}
    )
    return Agent("payer", model=model, tools=[pay], store=store)


async def begin_slowly(store: SlowStore, thread: AgentThread[Any, Any]) -> asyncio.Task[Any]:
    """A turn whose first append is being waited for."""
    store.may_append.clear()
    task = asyncio.ensure_future(thread.send("pay"))
    # The loop turns meanwhile: if it stood still, the one that is waited for would be the loop's.
    waiting = asyncio.get_running_loop().run_in_executor(None, store.is_waiting.wait, PATIENCE_S)
    assert await waiting
    return task


async def test_the_loop_goes_on_while_a_store_is_slow(store: SlowStore) -> None:
    done: list[int] = []
    async with make_agent(store, done).thread("Ann") as thread:
        task = await begin_slowly(store, thread)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not task.done()
        assert done == []
        store.may_append.set()
        assert (await task).output == "Done."


async def test_an_intent_is_durable_before_its_effect(store: SlowStore) -> None:
    done: list[int] = []
    async with make_agent(store, done).thread("Ann") as thread:
        before = store.count
        await thread.send("pay")
    assert done == [before + 2]  # the prompt, and the intent of the call


async def test_what_is_recorded_meanwhile_stands_behind_it(store: SlowStore) -> None:
    done: list[int] = []
    async with make_agent(store, done).thread("Ann") as thread:
        task = await begin_slowly(store, thread)
        later = asyncio.get_running_loop().run_in_executor(None, store.may_append.set)
        thread.tag("vip")  # it is durable when this returns, and so is what was under way
        assert store.count >= 2
        await later
        assert (await task).output == "Done."
        assert thread.tags == ("vip",)
    assert len(done) == 1


async def test_what_is_due_is_looked_at_anew(store: SlowStore) -> None:
    """What steers goes with the request that is about to leave, not with the one behind it."""
    async with make_agent(store, []).thread("Ann") as thread:
        task = await begin_slowly(store, thread)
        later = asyncio.get_running_loop().run_in_executor(None, store.may_append.set)
        thread.steer("and tell Bob")
        await later
        await task
        said = [(one.role, one.content) for one in thread.messages[:3]]
    assert said == [("user", "pay"), ("user", "and tell Bob"), ("assistant", "Done.")]


async def test_who_is_cancelled_loses_nothing_that_was_under_way(store: SlowStore) -> None:
    done: list[int] = []
    async with make_agent(store, done).thread("Ann") as thread:
        task = await begin_slowly(store, thread)
        task.cancel()
        later = asyncio.get_running_loop().run_in_executor(None, store.may_append.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        await later
        assert done == []
        assert [one.content for one in thread.messages][:1] == ["pay"]
        thread_id = thread.id
    async with make_agent(store, done).thread("Ann") as thread:
        assert thread.id == thread_id
        assert [one.content for one in thread.messages][:1] == ["pay"]
        assert done == []


async def test_who_is_cancelled_before_the_append_has_begun_loses_nothing(store: SlowStore) -> None:
    """All threads that wait for stores are at work, so it still stands behind them."""
    agent, loop = make_agent(store, []), asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        others = [
            await stack.enter_async_context(agent.thread(f"other {number}"))
            for number in range(CALL_THREAD_COUNT)
        ]
        last = await stack.enter_async_context(agent.thread("Ann"))
        store.may_append.clear()
        turns = [asyncio.ensure_future(one.send("pay")) for one in others]
        for _ in turns:
            assert await loop.run_in_executor(None, store.waits.acquire, True, PATIENCE_S)
        turn = asyncio.ensure_future(last.send("pay"))
        for _ in range(100):
            await asyncio.sleep(0)
        turn.cancel()
        await asyncio.sleep(0)
        store.may_append.set()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await asyncio.gather(*turns)
    async with agent.thread("Ann") as again:
        assert [one.content for one in again.messages][:1] == ["pay"]


async def test_a_store_that_fails_fails_the_turn(store: SlowStore) -> None:
    done: list[int] = []
    async with make_agent(store, done).thread("Ann") as thread:
        store.fails = True
        for words in ("network is gone", "finished"):
            with pytest.raises(StoreError, match=words):
                await thread.send("pay")
    assert done == []
