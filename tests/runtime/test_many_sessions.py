"""Many sessions work side by side in one loop, on one store, and do not notice each other."""

from __future__ import annotations

import asyncio

from runtime.clock import tick
from runtime.desk import Desk, Folder, Model, Run, Toolbox, calls, imbalance, mutate, read
from treadle.outputs import TurnOutcome
from treadle.runtime.session import Session

COUNT = 200


def open_one(desk: Desk, number: int) -> tuple[Session, Model, Toolbox]:
    async def work(run: Run) -> str:
        await tick(number % 7)
        return f"{number} {run.call.id}"

    model = Model(
        calls(*["look", "edit"][: 1 + number % 2], text=f"I am {number}"),
        {"error": {"kind": "network", "retry_after_s": number % 3}},
        f"answer of {number}",
    )
    tools = Toolbox(look=read(work), edit=mutate(work))
    return desk.new(model, tools, workspace=Folder() if number % 3 else None), model, tools


async def test_two_hundred_sessions_at_once_all_end_well(desk: Desk) -> None:
    opened = [open_one(desk, number) for number in range(COUNT)]
    cancelled = {number for number in range(COUNT) if number % 10 == 9}

    async def use(number: int) -> list[TurnOutcome]:
        session, _, _ = opened[number]
        first = asyncio.ensure_future(session.turn(f"go {number}"))
        await tick(number % 11)
        second = asyncio.ensure_future(session.turn(f"more {number}"))
        await tick(5)
        if number in cancelled:
            session.cancel()
        return [finished.outcome for finished in await asyncio.gather(first, second)]

    outcomes = await asyncio.gather(*(use(number) for number in range(COUNT)))
    for number, (session, model, tools) in enumerate(opened):
        if number not in cancelled:
            assert outcomes[number] == [TurnOutcome.DONE] * 2
            said = [m.content for m in session.conversation if m.role == "user"]
            assert said == [f"go {number}", f"more {number}"]
            assert session.conversation[-1].content == f"answer of {number}"
            assert len(model.requests) == 5
            assert len(tools.runs) == 2 * (1 + number % 2)
        assert all(run.key.startswith(session.thread_id) for run in tools.runs)
        assert imbalance(session.conversation) == ""
        results = [m.content for m in session.conversation if m.role == "tool"]
        assert all(text.startswith((f"{number} ", "ERROR: Cancelled")) for text in results)
        desk.check(session)
    assert len(desk.store.ids()) == COUNT
    await asyncio.gather(*(session.close() for session, _, _ in opened))
    assert desk.disk.open_count == 0
