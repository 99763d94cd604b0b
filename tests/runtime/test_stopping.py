"""A turn can be ended at any moment: what is known is kept, and the thread is whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from runtime.clock import tick
from runtime.desk import (
    Desk,
    Failure,
    Folder,
    Heard,
    Model,
    Run,
    Success,
    Toolbox,
    calls,
    calls_of,
    imbalance,
    mutate,
    read,
    roles,
)
from treadle.core.chat.states import CallingLlm, Error, ExecutingTools, PostToolsHook
from treadle.core.messages import Message
from treadle.core.tools import Outcome, ToolError, ToolErrorKind
from treadle.errors import StoreError
from treadle.runtime import outputs
from treadle.runtime.outputs import TurnFinished, TurnOutcome
from treadle.runtime.session import Session

AGAIN: dict[str, Any] = {"when": {"user": "again"}, "text": "done"}


class Stage:
    """A turn that, at first, waits for ever in one of the states a turn can wait in."""

    def __init__(self, desk: Desk, state: type) -> None:
        self.heard: Heard = desk.heard
        self.state = state
        self.reached = asyncio.Event()
        hook = self._stay if state is PostToolsHook else None
        self.folder = Folder(hook)
        self.tools = Toolbox(work=mutate(self._work), look=read())
        network: dict[str, Any] = {"error": {"kind": "network", "retry_after_s": 500}}
        replies: dict[type, tuple[Any, ...]] = {
            CallingLlm: ({"text": "Once upon a time", "hang": True}, "done"),
            ExecutingTools: (calls("look", "work"), "done"),
            PostToolsHook: (calls("work"), "done"),
            Error: (network, "done"),
        }
        self.model = Model(AGAIN, *replies[state])
        self.session = desk.new(self.model, self.tools, workspace=self.folder)

    async def _stay(self) -> None:
        if not self.reached.is_set():
            self.reached.set()
            await asyncio.Event().wait()

    async def _work(self, _: Run) -> str:
        if self.state is ExecutingTools:
            await self._stay()
        return "worked"

    async def until_there(self) -> asyncio.Task[TurnFinished]:
        """Begin the turn and let it get as far as it can."""
        turn = asyncio.ensure_future(self.session.turn("go"))
        if self.state in (ExecutingTools, PostToolsHook):
            await self.reached.wait()
        elif self.state is Error:
            await self.heard.until(outputs.Retrying)
        else:
            await self.heard.until(outputs.TextDelta)
        await tick(2)
        assert type(self.session._writer.fold.state) is self.state
        return turn


BUSY = pytest.mark.parametrize(
    "state", [CallingLlm, ExecutingTools, PostToolsHook, Error], ids=lambda state: state.__name__
)


async def goes_on(desk: Desk, session: Session) -> None:
    """The thread is whole, on disk as in memory, and another turn can be had."""
    assert session.is_waiting
    assert imbalance(session.conversation) == ""
    desk.check(session)
    finished = await session.turn("again")
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "done")
    desk.check(session)


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


@BUSY
async def test_an_interrupted_turn_stays_unfinished_and_another_process_goes_on(
    desk: Desk, state: type
) -> None:
    stage = Stage(desk, state)
    turn = await stage.until_there()
    stage.session.interrupt()
    assert (await turn).outcome is TurnOutcome.INTERRUPTED
    assert type(stage.session._writer.fold.state) is state
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
    stage.session.interrupt()
    await turn
    finished = await stage.session.resume()
    assert (finished.outcome, finished.answer) == (TurnOutcome.DONE, "done")
    doubts = desk.kinds(stage.session.thread_id).count("tool_uncertain")
    assert doubts == (state is ExecutingTools)
    assert len(stage.tools.runs) == (2 if state is ExecutingTools else state is PostToolsHook)
    await goes_on(desk, stage.session)


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
    desk.heard.on_output = id
    assert roles(stage.session.conversation) == ["user", "assistant", "user"]
    assert len(stage.model.requests) == 1, "the model was not asked the second time"
    await goes_on(desk, stage.session)


async def test_an_interrupted_text_is_not_mixed_into_the_answer_that_replaces_it(
    desk: Desk,
) -> None:
    stage = Stage(desk, CallingLlm)
    turn = await stage.until_there()
    stage.session.interrupt()
    await turn
    await stage.session.close()
    again = desk.reopen(stage.session.thread_id, Model("another answer"))
    assert (await again.resume()).answer == "another answer"
    assert roles(again.conversation) == ["user", "assistant"]


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
        run.progress(outputs.ToolProgress(0.5))
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
        getattr(session, how)()
    await asyncio.wait({turn})
    completed = [e for e in desk.events(session.thread_id) if e["type"] == "tool_completed"]
    assert [event["outcome"]["error"]["output"] for event in completed] == ["half of it"]
    if how == "interrupt":
        assert (await session.resume()).answer == "done"
    assert calls_of(session.conversation) == {"work": "ERROR: Cancelled: stopped\nhalf of it"}
    await goes_on(desk, session)


async def test_a_tool_that_finishes_in_spite_of_a_cancel_has_its_result_kept(desk: Desk) -> None:
    async def finish(run: Run) -> Outcome:
        run.progress(outputs.ToolProgress(0.5))
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


async def test_a_cancel_before_anything_runs_does_nothing(desk: Desk) -> None:
    session = desk.new(Model(AGAIN))
    session.cancel()
    session.interrupt()
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
            turn.cancel() if how == "task" else getattr(session, how)()
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


async def test_several_stops_are_as_good_as_one(desk: Desk) -> None:
    stage = Stage(desk, ExecutingTools)
    turn = await stage.until_there()
    stage.session.cancel("first")
    stage.session.cancel("second")
    stage.session.interrupt()
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


async def test_closing_twice_is_as_good_as_once(desk: Desk) -> None:
    session = desk.new(Model("done"))
    await session.turn("go")
    await session.close()
    await session.close()
    await asyncio.gather(session.close(), session.close())
    assert desk.disk.open_count == 0


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
        run.progress(outputs.ToolProgress(0.5))
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
