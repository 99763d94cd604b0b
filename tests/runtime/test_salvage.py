"""What has arrived when a turn ends badly is kept; what had not begun is said not to have."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.desk import Desk, Model, Run, Toolbox, calls, calls_of, ignore, mutate, read
from treadle import outputs
from treadle.core.tools import ToolProgress
from treadle.outputs import Output, TurnOutcome


def raising_at(desk: Desk, kind: type) -> None:
    """The listener raises once, at the first output of this kind."""

    def raises(output: Output) -> None:
        if isinstance(output, kind):
            desk.heard.on_output = ignore
            raise ValueError("oh")

    desk.heard.on_output = raises


async def test_an_answer_that_is_complete_survives_a_listener_that_raises(desk: Desk) -> None:
    raising_at(desk, outputs.TextDelta)
    model = Model("done")
    session = desk.new(model)
    with pytest.raises(ValueError, match="oh"):
        await session.turn("go")
    assert desk.kinds(session.thread_id)[-1] == "llm_completed"
    assert session.conversation[-1].content == "done"
    assert session.is_waiting
    await session.resume()
    assert len(model.requests) == 1, "it is paid for once"
    desk.check(session)


async def test_a_result_that_has_arrived_survives_a_listener_that_raises(desk: Desk) -> None:
    async def work(run: Run) -> str:
        run.progress(ToolProgress(0.5))
        return "worked"

    raising_at(desk, outputs.ToolProgressed)
    tools = Toolbox(work=mutate(work))
    session = desk.new(Model(calls("work"), "done"), tools)
    with pytest.raises(ValueError, match="oh"):
        await session.turn("go")
    assert desk.kinds(session.thread_id)[-1] == "tool_completed"
    assert (await session.resume()).answer == "done"
    assert tools.ran == ["work"]
    assert calls_of(session.conversation) == {"work": "worked"}
    desk.check(session)


@pytest.mark.parametrize("how", ["raise", "cancel", "interrupt"])
async def test_a_call_that_was_stopped_before_it_began_is_not_in_doubt(
    desk: Desk, how: str
) -> None:
    def on_output(output: Output) -> None:
        if isinstance(output, outputs.ToolStarted):
            getattr(session.driver, how)()

    if how == "raise":
        raising_at(desk, outputs.ToolStarted)
    else:
        desk.heard.on_output = on_output
    tools = Toolbox(work=mutate(), look=read("seen"))
    session = desk.new(Model(calls("work", "look"), "done"), tools)
    (ended,) = await asyncio.gather(session.turn("go"), return_exceptions=True)
    desk.heard.on_output = ignore
    assert desk.kinds(session.thread_id).count("tool_started") == 2
    assert tools.ran == []
    if how == "cancel":
        assert not isinstance(ended, BaseException)
        assert ended.outcome is TurnOutcome.CANCELLED
        assert "it had not started" in calls_of(session.conversation)["look"]
    else:
        assert not session.is_waiting
        assert (await session.resume()).answer == "done"
        assert calls_of(session.conversation)["look"] == "seen", "it is safe to run, and does"
    assert calls_of(session.conversation)["work"].endswith("it had not started")
    assert tools.ran == ([] if how == "cancel" else ["look"])
    assert "tool_uncertain" not in desk.kinds(session.thread_id)
    desk.check(session)


async def test_a_doubtful_call_that_is_stopped_before_it_runs_again_stays_in_doubt(
    desk: Desk,
) -> None:
    from treadle.answers import Answer, Resolution
    from treadle.core.approval import Question

    async def dies(_: Run) -> Any:
        desk.disk.kill()
        return "cut"

    async def ask(_: Question) -> Answer:
        return Answer(Resolution.RUN_AGAIN)

    session = desk.new(Model(calls("cut")), Toolbox(cut=mutate(dies)))
    await asyncio.gather(session.turn("go"), return_exceptions=True)
    desk.crash()
    raising_at(desk, outputs.ToolStarted)
    tools = Toolbox(cut=mutate())
    session = desk.reopen(session.thread_id, Model(calls("cut"), "done"), tools, ask=ask)
    with pytest.raises(ValueError, match="oh"):
        await session.resume()
    await session.close()
    session = desk.reopen(session.thread_id, Model(calls("cut"), "done"), tools)
    assert (await session.resume()).answer == "done"
    assert tools.ran == []
    assert calls_of(session.conversation)["cut"].startswith("ERROR: Uncertain")
    desk.check(session)
