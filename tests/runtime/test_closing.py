"""A session can be interrupted and closed at any moment; whoever opens the thread next goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from runtime.clock import tick
from runtime.desk import Desk, Model, Run, Toolbox, calls, mutate, read, roles
from runtime.stage import AGAIN, BUSY, Stage, goes_on
from treadle import outputs
from treadle.core.chat.states import CallingLlm, ExecutingTools, PostToolsHook
from treadle.core.tools import ToolProgress
from treadle.errors import StoreError
from treadle.outputs import TurnFinished, TurnOutcome
from treadle.runtime.session import Session


@BUSY
async def test_an_interrupted_turn_stays_unfinished_and_another_process_goes_on(
    desk: Desk, state: type
) -> None:
    stage = Stage(desk, state)
    turn = await stage.until_there()
    stage.session.driver.interrupt()
    assert (await turn).outcome is TurnOutcome.INTERRUPTED
    assert type(stage.session.driver.journal.writer.fold.state) is state
    assert "cancel_requested" not in desk.kinds(stage.session.thread_id)
    desk.check(stage.session)
    await stage.session.close()
    await can_be_resumed(desk, stage)


@BUSY
async def test_closing_a_busy_session_interrupts_it_and_frees_the_thread(
    desk: Desk, state: type
) -> None:
    stage = Stage(desk, state)
    turn = await stage.until_there()
    await stage.session.close()
    assert (await turn).outcome is TurnOutcome.INTERRUPTED
    assert desk.disk.open_count == 0
    await can_be_resumed(desk, stage)


async def can_be_resumed(desk: Desk, stage: Stage) -> None:
    """Whoever opens the thread next finishes the turn."""
    model, tools = Model(AGAIN, calls("work"), "done"), Toolbox(work=mutate(), look=read())
    again = desk.reopen(stage.session.thread_id, model, tools)
    assert not again.is_waiting
    finished = await again.resume()
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "done")
    await goes_on(desk, again)
    await again.close()


@BUSY
async def test_an_interrupted_turn_can_be_resumed_by_the_same_session(
    desk: Desk, state: type
) -> None:
    stage = Stage(desk, state)
    turn = await stage.until_there()
    stage.session.driver.interrupt()
    await turn
    finished = await stage.session.resume()
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "done")
    doubts = desk.kinds(stage.session.thread_id).count("tool_uncertain")
    assert doubts == (state is ExecutingTools)
    assert len(stage.tools.runs) == (2 if state is ExecutingTools else state is PostToolsHook)
    await goes_on(desk, stage.session)


async def test_an_interrupted_text_is_not_mixed_into_the_answer_that_replaces_it(
    desk: Desk,
) -> None:
    stage = Stage(desk, CallingLlm)
    turn = await stage.until_there()
    stage.session.driver.interrupt()
    await turn
    await stage.session.close()
    again = desk.reopen(stage.session.thread_id, Model("another answer"))
    assert (await again.resume()).answer == "another answer"
    assert roles(again.conversation) == ["user", "assistant"]


async def test_closing_twice_is_as_good_as_once(desk: Desk) -> None:
    session = desk.new(Model("done"))
    await session.turn("go")
    await session.close()
    await session.close()
    await asyncio.gather(session.close(), session.close())
    assert desk.disk.open_count == 0


async def test_closing_that_is_given_up_frees_the_thread_all_the_same(desk: Desk) -> None:
    async def stubborn(run: Run) -> str:
        run.progress(ToolProgress(0.5))
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if asyncio.get_running_loop().time() > 5:
                    raise

    session = desk.new(Model(calls("work")), Toolbox(work=mutate(stubborn)))
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.ToolProgressed)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(session.close(), 2)
    assert desk.disk.open_count == 0
    await asyncio.wait({turn})
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    again = desk.reopen(session.thread_id, Model(calls("work"), "done"), Toolbox(work=mutate()))
    assert (await again.resume()).answer == "done"


async def test_two_that_close_a_busy_session_at_once_do_not_disturb_each_other(
    desk: Desk,
) -> None:
    stage = Stage(desk, ExecutingTools)
    turn = await stage.until_there()
    await asyncio.gather(stage.session.close(), stage.session.close())
    assert (await turn).outcome is TurnOutcome.INTERRUPTED
    await can_be_resumed(desk, stage)


Use = Callable[[Session], Awaitable[TurnFinished]]
USES: list[Use] = [lambda session: session.turn("go"), lambda session: session.resume()]


@pytest.mark.parametrize("use", USES, ids=["turn", "resume"])
@pytest.mark.parametrize("was_used", [True, False])
async def test_a_closed_session_refuses_work_at_once(desk: Desk, use: Use, was_used: bool) -> None:
    session = desk.new(Model("done"))
    if was_used:
        await session.turn("go")
    await session.close()
    with pytest.raises(StoreError, match="finished"):
        await use(session)


async def test_a_session_that_was_never_used_can_be_closed(desk: Desk) -> None:
    session = desk.new(Model("done"))
    await session.close()
    assert desk.kinds(session.thread_id) == ["thread_created"]
    assert desk.disk.open_count == 0


async def test_a_session_that_is_closed_while_tools_will_not_stop_frees_the_thread(
    desk: Desk,
) -> None:
    ended = asyncio.Event()

    async def stubborn(run: Run) -> str:
        run.progress(ToolProgress(0.5))
        while not ended.is_set():
            try:
                await ended.wait()
            except asyncio.CancelledError:
                continue
        return "too late"

    session = desk.new(Model(calls("work")), Toolbox(work=mutate(stubborn)))
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.ToolProgressed)
    await session.close()
    assert (await turn).outcome is TurnOutcome.INTERRUPTED
    again = desk.reopen(session.thread_id, Model(calls("work"), "done"), Toolbox(work=mutate()))
    ended.set()
    await tick(5)
    assert (await again.resume()).answer == "done"
    assert "too late" not in str(desk.events(session.thread_id))
    desk.check(again)
