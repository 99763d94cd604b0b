"""A turn can be ended at any moment: what is known is kept, and the thread is whole."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from runtime.clock import tick
from runtime.desk import (
    CONFIG,
    Desk,
    Failure,
    Folder,
    Model,
    Run,
    Success,
    Toolbox,
    calls,
    calls_of,
    ignore,
    mutate,
    roles,
)
from runtime.stage import AGAIN, BUSY, Stage, goes_on
from treadle import outputs
from treadle.core.chat.states import CallingLlm, ExecutingTools, PostToolsHook
from treadle.core.messages import Message
from treadle.core.tools import Outcome, ToolError, ToolErrorKind, ToolProgress
from treadle.outputs import TurnFinished, TurnOutcome


@BUSY
async def test_a_cancel_ends_the_turn_from_every_state_and_is_on_disk(
    desk: Desk, state: type
) -> None:
    stage = Stage(desk, state)
    turn = await stage.until_there()
    stage.session.cancel("the person pressed a key")
    finished = await turn
    assert (finished.outcome, finished.answer) == (TurnOutcome.CANCELLED, "")
    assert finished.error == "the person pressed a key"
    last = desk.events(stage.session.thread_id)[-1]
    assert (last["type"], last["reason"]) == ("cancel_requested", "the person pressed a key")
    assert stage.tools.ended == [run.call.id for run in stage.tools.runs]
    await goes_on(desk, stage.session)


@BUSY
async def test_cancelling_whoever_awaits_the_turn_cancels_the_turn(desk: Desk, state: type) -> None:
    stage = Stage(desk, state)
    turn = await stage.until_there()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert desk.kinds(stage.session.thread_id)[-1] == "cancel_requested"
    await goes_on(desk, stage.session)


@BUSY
async def test_a_time_limit_around_a_turn_works_as_everywhere(desk: Desk, state: type) -> None:
    stage = Stage(desk, state)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(stage.session.turn("go"), 5)
    assert desk.kinds(stage.session.thread_id)[-1] == "cancel_requested"
    await goes_on(desk, stage.session)


@BUSY
async def test_a_turn_cancelled_twice_over_does_not_spoil_the_session(
    desk: Desk, state: type
) -> None:
    stage = Stage(desk, state)
    turn = await stage.until_there()
    turn.cancel()
    await tick()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert (await stage.session.turn("again")).outcome is TurnOutcome.DONE
    desk.check(stage.session)


async def test_text_streamed_before_a_cancel_is_kept_as_an_interrupted_message(desk: Desk) -> None:
    stage = Stage(desk, CallingLlm)
    turn = await stage.until_there()
    stage.session.cancel()
    await turn
    last = stage.session.conversation[-1]
    assert last == Message("assistant", "Once upon a time", interrupted=True)
    await goes_on(desk, stage.session)
    assert stage.model.requests[-1].messages[1] == last


async def test_text_of_one_cancelled_turn_does_not_enter_the_next(desk: Desk) -> None:
    stage = Stage(desk, CallingLlm)
    turn = await stage.until_there()
    stage.session.cancel()
    await turn
    desk.heard.on_output = lambda output: (
        stage.session.cancel() if isinstance(output, outputs.TurnStarted) else None
    )
    assert (await stage.session.turn("second")).outcome is TurnOutcome.CANCELLED
    desk.heard.on_output = ignore
    assert roles(stage.session.conversation) == ["user", "assistant", "user"]
    assert len(stage.model.requests) == 1, "the model was not asked the second time"
    await goes_on(desk, stage.session)


async def test_a_cancel_answers_the_open_calls_and_keeps_the_results_there_are(
    desk: Desk,
) -> None:
    stage = Stage(desk, ExecutingTools)
    turn = await stage.until_there()
    stage.session.cancel("enough")
    await turn
    assert calls_of(stage.session.conversation) == {
        "look": "fine",
        "work": "ERROR: Cancelled: enough; it had started and may have had effects",
    }


@pytest.mark.parametrize("how", ["cancel", "interrupt", "task"])
async def test_a_tool_that_is_stopped_may_say_how_far_it_got(desk: Desk, how: str) -> None:
    async def careful(run: Run) -> Outcome:
        run.progress(ToolProgress(0.5))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            error = ToolError(ToolErrorKind.CANCELLED, "stopped", "half of it")
        return Failure(run.call.id, error)

    session = desk.new(Model(AGAIN, calls("work"), "done"), Toolbox(work=mutate(careful)))
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.ToolProgressed)
    if how == "task":
        turn.cancel()
    else:
        getattr(session.driver, how)()
    await asyncio.wait({turn})
    completed = [e for e in desk.events(session.thread_id) if e["type"] == "tool_completed"]
    assert [event["outcome"]["error"]["output"] for event in completed] == ["half of it"]
    if how == "interrupt":
        assert (await session.resume()).answer == "done"
    assert calls_of(session.conversation) == {"work": "ERROR: Cancelled: stopped\nhalf of it"}
    await goes_on(desk, session)


async def test_a_tool_that_finishes_in_spite_of_a_cancel_has_its_result_kept(desk: Desk) -> None:
    async def finish(run: Run) -> Outcome:
        run.progress(ToolProgress(0.5))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await tick(5)
        return Success(run.call.id, "all of it")

    session = desk.new(Model(AGAIN, calls("work")), Toolbox(work=mutate(finish)))
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.ToolProgressed)
    session.cancel()
    assert (await turn).outcome is TurnOutcome.CANCELLED
    assert calls_of(session.conversation) == {"work": "all of it"}
    await goes_on(desk, session)


@pytest.mark.parametrize("how", ["cancel", "interrupt"])
async def test_a_retry_that_was_stopped_does_not_come_in_a_later_turn(desk: Desk, how: str) -> None:
    async def work(_: Run) -> str:
        ended = asyncio.Event()
        asyncio.get_running_loop().call_later(600, ended.set)
        await ended.wait()
        return "worked"

    failure = {"error": {"kind": "network", "retry_after_s": 500}}
    model = Model(AGAIN, failure, calls("work"), "done")
    session = desk.new(
        model, Toolbox(work=mutate(work)), config=replace(CONFIG, tool_timeout_s=1e3)
    )
    turn = asyncio.ensure_future(session.turn("go"))
    await desk.heard.until(outputs.Retrying)
    getattr(session.driver, how)()
    await turn
    assert (await session.turn("go on")).answer == "done"
    fired = desk.kinds(session.thread_id).count("retry_timeout_fired")
    assert fired == (how == "interrupt"), "an interrupted wait begins anew, a cancelled one is over"
    await goes_on(desk, session)


async def test_a_cancel_before_anything_runs_does_nothing(desk: Desk) -> None:
    session = desk.new(Model(AGAIN))
    session.cancel()
    session.driver.interrupt()
    await goes_on(desk, session)


async def test_a_turn_cancelled_before_it_begins_leaves_nothing(desk: Desk) -> None:
    session = desk.new(Model(AGAIN))
    turn = asyncio.ensure_future(session.turn("go"))
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert desk.kinds(session.thread_id) == ["thread_created"]
    await goes_on(desk, session)


@pytest.mark.parametrize("look", [1, 2, 3])
@pytest.mark.parametrize("how", ["cancel", "interrupt", "task"])
async def test_a_stop_while_the_folder_is_looked_at_leaves_a_whole_thread(
    desk: Desk, look: int, how: str
) -> None:
    folder = Folder()
    model, tools = Model(AGAIN, calls("work"), "done"), Toolbox(work=mutate())

    async def on_look() -> None:
        await tick()
        if folder.looks == look:
            turn.cancel() if how == "task" else getattr(session.driver, how)()
        await tick()

    folder.on_look = on_look
    session = desk.new(model, tools, workspace=folder)
    turn = asyncio.ensure_future(session.turn("go"))
    await asyncio.wait({turn})
    if how == "interrupt":
        assert not session.is_waiting
        assert (await session.resume()).answer == "done"
        assert tools.ran == ["work"]
    assert "tool_uncertain" not in desk.kinds(session.thread_id), "what never began is not in doubt"
    await goes_on(desk, session)


async def test_a_stop_that_comes_when_the_turn_is_over_is_not_for_the_next(desk: Desk) -> None:
    folder = Folder()

    async def on_look() -> None:
        if folder.looks == 2:
            session.cancel()
        await tick()

    folder.on_look = on_look
    session = desk.new(Model(AGAIN, "one"), workspace=folder)
    finished = await session.turn("go")
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "one")
    await goes_on(desk, session)


@pytest.mark.parametrize("how", ["cancel", "interrupt"])
@pytest.mark.parametrize("reply", ["done", {"error": {"kind": "bad_request"}, "times": 0}])
async def test_a_stop_that_comes_with_the_end_of_the_turn_changes_nothing(
    desk: Desk, how: str, reply: Any
) -> None:
    session = desk.new(Model(AGAIN, reply, on_request=lambda _: getattr(session.driver, how)()))
    finished = await session.turn("go")
    if reply == "done":
        assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "done")
    else:
        assert finished.outcome is TurnOutcome.FAILED
    assert "cancel_requested" not in desk.kinds(session.thread_id)
    await goes_on(desk, session)


async def test_a_stop_that_comes_with_the_end_of_the_turn_is_for_what_is_queued(
    desk: Desk,
) -> None:
    turns: list[asyncio.Task[TurnFinished]] = []

    async def work(_: Run) -> str:
        turns.append(asyncio.ensure_future(session.turn("more")))
        await tick()
        return "worked"

    def stop(_: object) -> None:
        if len(model.requests) == 2:
            session.cancel("enough")

    model = Model(AGAIN, calls("work"), "done", on_request=stop)
    session = desk.new(model, Toolbox(work=mutate(work)))
    for finished in await asyncio.gather(session.turn("go"), *turns):
        assert (finished.outcome, finished.error) == (TurnOutcome.CANCELLED, "enough")
    assert [message.content for message in session.driver.journal.writer.fold.queued] == ["more"]
    await turns[0]


async def test_several_stops_are_as_good_as_one(desk: Desk) -> None:
    stage = Stage(desk, ExecutingTools)
    turn = await stage.until_there()
    stage.session.cancel("first")
    stage.session.cancel("second")
    stage.session.driver.interrupt()
    finished = await turn
    assert (finished.outcome, finished.error) == (TurnOutcome.CANCELLED, "first")
    await goes_on(desk, stage.session)


async def test_a_hook_that_was_cancelled_is_not_run_again(desk: Desk) -> None:
    stage = Stage(desk, PostToolsHook)
    turn = await stage.until_there()
    stage.session.cancel()
    await turn
    await goes_on(desk, stage.session)
    assert len(stage.folder.rounds) == 1


@pytest.mark.parametrize("error", [ValueError("oh"), asyncio.CancelledError(), SystemExit(1)])
async def test_a_hook_that_raises_is_told_and_the_turn_goes_on(
    desk: Desk, error: BaseException
) -> None:
    async def hook() -> None:
        raise error

    session = desk.new(
        Model(AGAIN, calls("work"), "done"), Toolbox(work=mutate()), workspace=Folder(hook)
    )
    assert (await session.turn("go")).answer == "done"
    (told,) = desk.heard.of(outputs.HookFinished)
    assert not told.action_taken
    assert type(error).__name__ in told.note
    await goes_on(desk, session)


async def test_a_folder_that_cannot_be_looked_at_does_not_stop_the_work(desk: Desk) -> None:
    async def on_look() -> None:
        raise OSError(5, "oh")

    folder = Folder()
    folder.on_look = on_look
    session = desk.new(
        Model(AGAIN, calls("work"), "done"), Toolbox(work=mutate()), workspace=folder
    )
    assert (await session.turn("go")).answer == "done"
    await goes_on(desk, session)
    await session.close()
