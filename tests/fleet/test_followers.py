"""What it costs to follow a task on which nobody works."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from threading import Semaphore

from store_conformance.example import SqliteStore
from treadle import Agent, Fleet, MemoryScheduler, ScriptedModel
from treadle.thread.record import Record

LOOKS = 4
PATIENCE_S = 30.0


class CountingStore(SqliteStore):
    """Notes from where it is read."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.starts: list[int] = []
        self.looks = Semaphore(0)
        """One for each time that it is read from where somebody has stopped."""

    def read(self, thread_id: str, start: int = 0) -> Iterable[bytes]:
        self.starts.append(start)
        if start:
            self.looks.release()
        return super().read(thread_id, start)


async def test_who_follows_reads_a_task_as_a_whole_only_when_there_is_news(tmp_path: Path) -> None:
    store, fleet = CountingStore(str(tmp_path / "threads.db")), Fleet(MemoryScheduler(), sweep_s=60)
    agent = Agent("agent", model=ScriptedModel.of({"text": "Done."}), store=store)
    fleet.add(agent)
    submitted = await agent.submit("Work.")
    store.starts.clear()
    told: list[Record] = []

    async def follow() -> None:
        told.extend([one async for one in submitted.follow()])

    following = asyncio.create_task(follow())
    for _ in range(LOOKS):
        assert await asyncio.to_thread(store.looks.acquire, timeout=PATIENCE_S)
    # Once to follow it, and once to see how it stands.
    assert store.starts.count(0) == 2
    stop = asyncio.Event()
    working = asyncio.create_task(fleet.run(stop=stop))
    await following
    stop.set()
    await working
    assert [one.seq for one in told] == [*range(1, len(told) + 1)]
    assert b'"llm_completed"' in b"".join(bytes(one.event) for one in told)
    assert (await submitted.result()).output == "Done."
